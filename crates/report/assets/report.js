// The page's script: draws the figures, filters them, and shows any two runs beside each other.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (tag, text, attributes) => {
    const element = document.createElement(tag);
    if (text !== undefined && text !== null) element.textContent = text;
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    return element;
  };
  const number = (value) => {
    if (typeof value !== "number") return value === null || value === undefined ? "-" : String(value);
    if (Number.isInteger(value)) return value.toLocaleString("en-US");
    const size = Math.abs(value);
    if (size >= 1000) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
    return String(Number(value.toPrecision(5)));
  };

  // Figures.
  const unwanted = { design: new Set(), program: new Set() };
  const wanted = (row) =>
    ["design", "program"].every((field) => row[field] === undefined || !unwanted[field].has(row[field]));
  const chosen = (figure) => {
    const select = figure.querySelector("select[data-choose]");
    const id = select && select.value;
    return data.charts.find((chart) => (id ? chart.id === id : chart.kind === figure.dataset.kind));
  };
  const withoutUnwanted = (spec) => {
    const copy = structuredClone(spec);
    copy.data.values = copy.data.values.filter(wanted);
    const named = new Set(copy.data.values.map((row) => row.design));
    for (const channel of ["color", "strokeDash"]) {
      const of = copy.encoding && copy.encoding[channel];
      if (of && of.field === "design" && of.scale && of.scale.domain) {
        const keep = of.scale.domain.map((name) => named.has(name));
        of.scale.domain = of.scale.domain.filter((_, at) => keep[at]);
        of.scale.range = of.scale.range.filter((_, at) => keep[at]);
      }
    }
    return copy;
  };
  const legends = (spec, width) => {
    const channels = [spec.encoding, ...(spec.layer || []).map((layer) => layer.encoding)];
    for (const encoding of channels) {
      const of = encoding && encoding.color;
      if (!of || of.legend === null) continue;
      const longest = Math.max(...of.scale.domain.map((name) => name.length));
      const columns = Math.max(1, Math.min(of.scale.domain.length, Math.floor(width / (longest * 7.5 + 45))));
      of.legend = { ...of.legend, columns, labelLimit: Math.max(80, width / columns - 40) };
    }
    return spec;
  };
  const draw = async (figure) => {
    const chart = chosen(figure);
    const plot = figure.querySelector(".plot");
    const spec = withoutUnwanted(chart.spec);
    fillTable(figure, chart);
    // Of rows, those without a design are headings.
    if (!spec.data.values.some((row) => row.row === undefined || row.design !== undefined)) {
      plot.replaceChildren(make("p", "Nothing is chosen that this figure has data of."));
      return;
    }
    const width = Math.max(260, plot.clientWidth);
    spec.width = Math.max(width, (spec.usermeta && spec.usermeta.leastWidth) || 0);
    spec.autosize = { type: "fit-x", contains: "padding" };
    const config = structuredClone(data.config);
    config.axis.labelLimit = width < 500 ? 120 : 240;
    const ticks = Math.max(3, Math.floor(width / 90));
    config.axisX = { tickCount: ticks };
    legends(spec, width);
    const result = await vegaEmbed(plot, spec, {
      config,
      renderer: "svg",
      actions: false,
      tooltip: { theme: "custom" },
      // A warning says that heights in steps do not fit a height: they should not.
      logLevel: vega.Error,
    });
    if (figure.view) figure.view.finalize();
    figure.view = result.view;
    const svg = plot.querySelector("svg");
    if (svg) svg.setAttribute("aria-label", chart.title + (chart.program ? ", " + chart.program : "") + ". " + spec.description);
    plot.classList.toggle("wide", spec.width > width);
  };
  const fillTable = (figure, chart) => {
    const details = figure.querySelector("details.table");
    const names = chart.table.columns.map(([name]) => name);
    const table = make("table");
    table.append(make("caption", chart.title + (chart.program ? ", " + chart.program : ""), { hidden: "" }));
    const head = make("tr");
    const rows = chart.table.rows.filter((row) => wanted(Object.fromEntries(names.map((name, at) => [name, row[at]]))));
    const isNumber = names.map((_, at) => rows.some((row) => typeof row[at] === "number"));
    // A column that is empty everywhere says nothing.
    const shown = names.map((_, at) => rows.some((row) => row[at] !== "" && row[at] !== null));
    chart.table.columns.forEach(([name, unit], at) => {
      const text = unit && unit !== name ? `${name}, ${unit}` : name;
      if (shown[at]) head.append(make("th", text, { scope: "col", ...(isNumber[at] ? { class: "number" } : {}) }));
    });
    table.append(make("thead"));
    table.tHead.append(head);
    const body = table.createTBody();
    for (const row of rows) {
      const line = make("tr");
      row.forEach((value, at) => {
        if (shown[at]) line.append(make("td", number(value), isNumber[at] ? { class: "number" } : {}));
      });
      body.append(line);
    }
    const wide = make("div", null, { class: "wide", tabindex: "0", role: "region", "aria-label": "Table: " + chart.title });
    wide.append(table);
    details.querySelectorAll(".wide").forEach((old) => old.remove());
    details.append(wide);
  };
  const figures = [...document.querySelectorAll("figure[data-kind]")];
  let drawing = Promise.resolve();
  const drawAll = (which) => {
    document.documentElement.removeAttribute("data-done");
    drawing = drawing
      .then(async () => {
        for (const figure of which || figures) await draw(figure);
      })
      .catch((error) => {
        document.documentElement.dataset.error = String(error);
        console.error(error);
      })
      .then(() => {
        document.documentElement.dataset.done = "yes";
      });
    return drawing;
  };
  const save = (name, type, text) => {
    const link = make("a", null, { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const standalone = (figure) => {
    const chart = chosen(figure);
    const spec = withoutUnwanted(chart.spec);
    const width = 640;
    Object.assign(spec, { width, autosize: { type: "fit-x", contains: "padding" }, config: data.plain });
    return [chart, legends(spec, width)];
  };
  document.addEventListener("click", async (event) => {
    const kind = event.target.dataset && event.target.dataset.save;
    if (!kind) return;
    const [chart, spec] = standalone(event.target.closest("figure"));
    if (kind === "vl") return save(chart.id + ".vl.json", "application/json", JSON.stringify(spec, null, 1));
    const view = new vega.View(vega.parse(vegaLite.compile(spec).spec), { renderer: "none" });
    save(chart.id + ".svg", "image/svg+xml", await view.toSVG());
    view.finalize();
  });
  document.addEventListener("change", (event) => {
    const target = event.target;
    if (target.dataset.choose) drawAll([target.closest("figure")]);
    if (target.dataset.filter) {
      unwanted[target.dataset.filter][target.checked ? "delete" : "add"](target.value);
      drawAll();
    }
  });
  let lastWidth = document.documentElement.clientWidth;
  let waiting = 0;
  window.addEventListener("resize", () => {
    const width = document.documentElement.clientWidth;
    if (width === lastWidth) return;
    lastWidth = width;
    clearTimeout(waiting);
    waiting = setTimeout(() => drawAll(), 150);
  });
  // What is folded is printed too, where it is part of the answer.
  window.addEventListener("beforeprint", () => document.querySelectorAll(".answer details").forEach((one) => (one.open = true)));

  // Runs.
  const cells = data.cells;
  const at = (column, run) => (column !== null && typeof column === "object" && column.each ? column.each[run] : column);
  const nameOf = (run) => {
    const { program, design, seed } = cells.runs[run];
    const others = cells.runs.filter((other) => other.program === program && other.design === design).length;
    return `${program}: ${design}` + (others > 1 ? `, seed ${seed}` : "");
  };
  const selects = (ids) => {
    ids.forEach((id) => {
      const select = byId(id);
      cells.runs.forEach((_, run) => select.append(make("option", nameOf(run), { value: run })));
      select.value = id === "second-run" && cells.runs.length > 1 ? 1 : 0;
    });
  };
  const text = (value) => (value === undefined || value === null ? "-" : typeof value === "string" ? value : JSON.stringify(value));
  const pairTable = (heads, rows) => {
    const table = make("table");
    const head = make("tr");
    heads.forEach(([name, kind]) => head.append(make("th", name, { scope: "col", ...(kind ? { class: kind } : {}) })));
    table.createTHead().append(head);
    const body = table.createTBody();
    for (const row of rows) {
      const line = make("tr");
      row.forEach((value, column) => {
        const kind = heads[column][1];
        line.append(make(column === 0 ? "th" : "td", value, { ...(column === 0 ? { scope: "row" } : {}), ...(kind ? { class: kind } : {}) }));
      });
      body.append(line);
    }
    return table;
  };
  const relative = (a, b) => (a === b ? 0 : Math.abs(b - a) / Math.max(Math.abs(a), Math.abs(b)));
  const change = (a, b) => {
    if (a === b) return "equal";
    if (a === 0 || b === 0) return a === 0 ? "from 0" : "to 0";
    const percent = 100 * (b / a - 1);
    return (percent > 0 ? "+" : "") + (Math.abs(percent) >= 1000 ? number(Math.round(percent)) : Number(percent.toPrecision(3))) + "%";
  };
  const MOST = 40;
  let all = false;
  const showPair = () => {
    const [a, b] = [Number(byId("first-run").value), Number(byId("second-run").value)];
    const settings = Object.entries(cells.settings)
      .map(([name, column]) => [name, text(at(column, a)), text(at(column, b))])
      .filter(([, x, y]) => x !== y);
    const [first, second] = [nameOf(a), nameOf(b)];
    byId("pair-settings").replaceChildren(
      settings.length
        ? pairTable([["setting", "name"], [first], [second]], settings)
        : make("p", "No setting differs."),
    );
    const search = byId("pair-search").value.trim().toLowerCase();
    const equal = byId("pair-all").checked;
    const counters = Object.entries(cells.counters)
      .map(([name, column]) => [name, at(column, a), at(column, b)])
      .filter(([name, x, y]) => (x !== null || y !== null) && (equal || x !== y) && name.toLowerCase().includes(search))
      .map(([name, x, y]) => [name, x, y, relative(x || 0, y || 0)])
      .sort((p, q) => q[3] - p[3] || Math.max(Math.abs(q[1]), Math.abs(q[2])) - Math.max(Math.abs(p[1]), Math.abs(p[2])) || (p[0] < q[0] ? -1 : 1));
    const shown = all ? counters : counters.slice(0, MOST);
    byId("pair-counters").replaceChildren(
      pairTable(
        [["counter", "name"], [first, "number"], [second, "number"], ["change", "number"], ["unit and meaning", "meaning"]],
        shown.map(([name, x, y]) => {
          const [unit, meaning] = cells.meanings[name] || ["", ""];
          return [name, number(x), number(y), change(x || 0, y || 0), [unit, meaning].filter(Boolean).join(": ")];
        }),
      ),
    );
    byId("pair-count").textContent = `${shown.length} of ${counters.length} counters${equal ? "" : " that differ"}.`;
    byId("pair-more").hidden = shown.length === counters.length;
  };
  const toml = (value) => (Array.isArray(value) ? "[" + value.map(toml).join(", ") + "]" : JSON.stringify(value));
  const spec = (search) => {
    const run = Number(byId("spec-run").value);
    const lines = Object.entries(cells.settings)
      .map(([name, column]) => [name, at(column, run)])
      .filter(([name, value]) => value !== null && value !== undefined && name.toLowerCase().includes(search))
      .map(([name, value]) => `${name} = ${toml(value)}`);
    return lines.join("\n") + "\n";
  };
  const showSpec = () => (byId("spec-text").textContent = spec(byId("spec-search").value.trim().toLowerCase()));
  if (cells) {
    selects(["first-run", "second-run", "spec-run"]);
    ["first-run", "second-run", "pair-search", "pair-all"].forEach((id) => byId(id).addEventListener("input", showPair));
    byId("pair-more").addEventListener("click", () => {
      all = true;
      showPair();
    });
    ["spec-run", "spec-search"].forEach((id) => byId(id).addEventListener("input", showSpec));
    byId("spec-save").addEventListener("click", () => save("spec.toml", "application/toml", spec("")));
    showPair();
    showSpec();
  }
  drawAll();
})();
