"use strict";
// Steps through translations that were recorded. Everything shown is text of the page's own data.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const { designs, places, areas, walks } = data;
  const page = (at) => at >> 12n;
  const hex = (at) => "0x" + at.toString(16);
  const addresses = places.map((place) => BigInt(place.at));
  const state = { place: 0, shown: designs.length > 1 ? [0, 1] : [0], step: 0, typed: null, positions: [], timer: null };

  // The text of a walk: forms with their numbers put in.
  const text = (place, design) => {
    const list = walks.texts[place * designs.length + design];
    let html = "";
    for (let at = 0; at < list.length; at++) {
      const form = walks.forms[list[at]];
      const numbers = typeof list[at + 1] === "string" ? list[++at].split("|") : [];
      html += form[0];
      for (let part = 1; part < form.length; part++) html += numbers[part - 1] + form[part];
    }
    return html;
  };

  const node = (tag, className, content) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (content !== undefined) made.textContent = content;
    return made;
  };

  const keyOf = (step) => step.from * 4096 + step.rank;

  // Steps of a column that take cycles, as bars below each other where they overlap.
  const drawTime = (column, end) => {
    const time = column.time, lanes = [];
    time.textContent = "";
    const track = node("div", "track");
    for (const step of column.steps) {
      if (step.holds || step.until <= step.from) continue;
      let lane = lanes.findIndex((free) => free <= step.from);
      if (lane < 0) lane = lanes.push(0) - 1;
      lanes[lane] = step.until;
      const bar = node("div", `piece ${step.level}${step.behind ? " behind" : ""}`);
      const share = (step.until - step.from) / end;
      bar.textContent = step.level === "work" || step.level === "wait" ? (share > 0.1 ? step.name : "") : share > 0.05 ? step.level : "";
      bar.title = `${step.name}: cycle ${step.from} to ${step.until}`;
      bar.style.left = `${(100 * step.from) / end}%`;
      bar.style.width = `calc(${100 * share}% - 1px)`;
      bar.style.top = `${1.1 * lane}em`;
      step.marks.push(bar);
      track.append(bar);
    }
    track.style.height = `${1.1 * Math.max(1, lanes.length)}em`;
    const known = node("span", "known", `${column.cycles} cycles`);
    known.style.left = `max(${(100 * column.cycles) / end}%, 9em)`;
    column.cursor = node("div", "cursor");
    time.append(track, node("span", "zero", "0"), known, column.cursor);
  };

  const makeColumn = (design) => {
    const column = { design, section: node("section", "column") };
    const about = designs[design];
    column.section.dataset.design = about.name;
    column.section.setAttribute("aria-label", about.name);
    const holder = node("div");
    holder.innerHTML = text(state.place, design);
    const part = (selector) => holder.querySelector(selector);
    const sum = part(".sum");
    Object.assign(column, { cycles: Number(sum.dataset.cycles), physical: sum.dataset.physical, sum });
    column.time = node("div", "time");
    column.time.setAttribute("aria-hidden", "true");
    column.look = node("div", "look");
    column.look.tabIndex = 0;
    column.look.setAttribute("role", "region");
    column.look.setAttribute("aria-label", `Structures of ${about.name}`);
    const picture = part("svg.picture"), list = part("ol.steps");
    column.look.append(picture);
    column.steps = [...list.children].map((item) => ({
      from: Number(item.dataset.from), until: Number(item.dataset.until), rank: Number(item.dataset.rank),
      level: item.dataset.level, name: item.querySelector("h4").textContent, holds: item.classList.contains("holds"),
      behind: item.classList.contains("behind"),
      marks: [item, ...picture.querySelectorAll(`.s[data-s="${item.dataset.s}"]`)],
    }));
    const head = node("div", "head"), body = node("div", "body");
    head.append(node("h2", "", about.name), sum);
    body.append(column.look, list);
    const { at, access } = places[state.place];
    const command = node("p", "command", "As text: ");
    command.append(node("code", "", about.command.replace("{at}", at).replace("{access}", access)));
    column.section.append(head, node("p", "about-design", about.about), part(".verdict"), column.time, body, command);
    return column;
  };

  let columns = [];

  const place = () => {
    const { at, access, why } = places[state.place];
    const message = by("message");
    message.className = "";
    message.textContent = `${access} of ${at}: ${why}.`;
    if (state.typed !== null && state.typed !== addresses[state.place]) {
      message.textContent =
        `${hex(state.typed)} is in the page of ${at}, whose ${access} was recorded: the walk is that of the page.`;
      for (const column of columns) {
        if (!column.physical) continue;
        const own = BigInt(column.physical) - (addresses[state.place] & 0xfffn) + (state.typed & 0xfffn);
        column.section.dataset.typed = hex(own);
        message.textContent += ` On ${designs[column.design].name} it is at ${hex(own)}.`;
      }
    }
  };

  const show = (step = 0) => {
    stop();
    columns = state.shown.map(makeColumn);
    const main = by("columns");
    main.classList.toggle("one", columns.length === 1);
    main.replaceChildren(...columns.map((column) => column.section));
    const end = Math.max(1, ...columns.flatMap((column) => [column.cycles, ...column.steps.map((one) => one.until)]));
    columns.forEach((column) => drawTime(column, end));
    state.end = end;
    const keys = new Set(columns.flatMap((column) => column.steps.map(keyOf)));
    state.positions = [...keys].sort((a, b) => a - b);
    by("step").max = Math.max(0, state.positions.length - 1);
    by("place").value = places[state.place].tour ? String(state.place) : "";
    by("first").value = String(state.shown[0]);
    by("second").value = state.shown.length > 1 ? String(state.shown[1]) : "";
    if (document.activeElement !== by("address")) by("address").value = state.typed === null ? places[state.place].at : hex(state.typed);
    place();
    go(step);
    document.documentElement.dataset.done = "yes";
  };

  const smooth = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");

  // Lights everything up to a position.
  const go = (step) => {
    state.step = Math.max(0, Math.min(step, state.positions.length - 1));
    const key = state.positions[state.step] ?? 0, now = Math.floor(key / 4096);
    const last = state.step === state.positions.length - 1;
    const names = [];
    for (const column of columns) {
      const begun = column.steps.filter((one) => keyOf(one) <= key).map(keyOf);
      const current = begun.length ? Math.max(...begun) : -1;
      let mark = null;
      for (const one of column.steps) {
        const own = keyOf(one);
        const kind = own > key ? "future" : own === current ? "now" : "past";
        const flight = own <= key && one.until > now && !last;
        for (const place of one.marks) {
          place.classList.remove("future", "now", "past", "flight");
          place.classList.add(kind);
          place.classList.toggle("flight", flight);
        }
        if (kind === "now") {
          mark ??= one.marks.find((place) => place.tagName === "g");
          if (own === key) names.push(one.name);
        }
      }
      column.cursor.style.left = `${(100 * Math.min(now, state.end)) / state.end}%`;
      if (mark) {
        const box = mark.getBoundingClientRect(), view = column.look.getBoundingClientRect();
        if (box.top < view.top + 8 || box.bottom > view.bottom - 8) {
          const top = column.look.scrollTop + box.top - view.top - Math.max(8, (view.height - box.height) / 2);
          column.look.scrollTo({ top, behavior: smooth() });
        }
      } else column.look.scrollTop = 0;
    }
    by("step").value = String(state.step);
    by("step").setAttribute("aria-valuetext", `step ${state.step + 1} of ${state.positions.length}, cycle ${now}`);
    by("where").textContent = `Step ${state.step + 1} of ${state.positions.length}, cycle ${now}`;
    by("where").title = names.join("; ");
    for (const [id, off] of [["home", state.step === 0], ["back", state.step === 0], ["forward", last], ["end", last]]) by(id).disabled = off;
    const about = [`at=${state.typed === null ? places[state.place].at : hex(state.typed)}`,
      `designs=${state.shown.map((one) => encodeURIComponent(designs[one].name)).join(",")}`, `step=${state.step + 1}`];
    history.replaceState(null, "", `#${about.join("&")}`);
  };

  const stop = () => {
    clearInterval(state.timer);
    state.timer = null;
    by("play").textContent = "Play";
  };

  const play = () => {
    if (state.timer) return stop();
    if (state.step === state.positions.length - 1) go(0);
    by("play").textContent = "Pause";
    state.timer = setInterval(() => {
      go(state.step + 1);
      if (state.step === state.positions.length - 1) stop();
    }, 1100);
  };

  const tour = places.map((_, number) => number).filter((number) => places[number].tour);
  const visit = (by) => {
    const at = tour.indexOf(state.place);
    state.typed = null;
    state.place = tour[(Math.max(at, by > 0 ? -1 : 0) + by + tour.length) % tour.length];
    show();
  };

  const distance = (from, to) => (from > to ? from - to : to - from);

  // An address that somebody typed: its page's walk, or why there is none.
  const find = (typed) => {
    const digits = typed.trim().replace(/[_'\s]/g, "").replace(/^0x/i, "");
    const message = by("message");
    if (!/^[0-9a-f]{1,16}$/i.test(digits)) {
      message.className = "caution";
      message.textContent = `“${typed}” is not an address: write it in hexadecimal, such as ${places[0].at}.`;
      return false;
    }
    const at = BigInt("0x" + digits);
    const exact = addresses.findIndex((one) => one === at);
    const found = exact >= 0 ? exact : addresses.findIndex((one) => page(one) === page(at));
    if (found >= 0) {
      state.place = found;
      state.typed = at;
      show();
      return true;
    }
    stop();
    let nearest = 0;
    addresses.forEach((one, number) => {
      if (distance(one, at) < distance(addresses[nearest], at)) nearest = number;
    });
    const area = areas.find((one) => BigInt(one.start) <= at && at < BigInt(one.end));
    message.className = "caution";
    message.textContent = area
      ? `${hex(at)} is in the ${area.kind} mapping from ${area.start} to ${area.end}, but its page is not among those recorded. `
      : `No mapping of the program has ${hex(at)}: an access would end it with a segmentation fault. `;
    const offer = node("button", "", `Show ${places[nearest].at}, the nearest that is recorded`);
    offer.type = "button";
    offer.id = "nearest";
    offer.addEventListener("click", () => {
      state.place = nearest;
      state.typed = null;
      show();
      by("address").value = places[nearest].at;
    });
    message.append(offer);
    return false;
  };

  const option = (value, content) => {
    const made = node("option", "", content);
    made.value = value;
    return made;
  };
  designs.forEach((design, number) => by("first").append(option(String(number), design.name)));
  by("second").append(option("", "none"), ...designs.map((design, number) => option(String(number), design.name)));
  by("place").append(option("", "by address"));
  tour.forEach((number, at) => by("place").append(option(String(number), `${at + 1}. ${places[number].at}, ${places[number].access}: ${places[number].why}`)));
  const choose = () => {
    const second = by("second").value;
    state.shown = [Number(by("first").value)];
    if (second !== "" && Number(second) !== state.shown[0]) state.shown.push(Number(second));
    show();
  };
  by("first").addEventListener("change", choose);
  by("second").addEventListener("change", choose);
  by("place").addEventListener("change", () => {
    if (by("place").value === "") return;
    state.typed = null;
    state.place = Number(by("place").value);
    show();
  });
  by("find").addEventListener("submit", (event) => {
    event.preventDefault();
    if (find(by("address").value)) by("address").blur();
  });
  by("all").addEventListener("change", () => document.body.classList.toggle("stepping", !by("all").checked));
  by("step").addEventListener("input", () => { stop(); go(Number(by("step").value)); });
  const press = (id, act) => by(id).addEventListener("click", act);
  const still = (step) => () => { stop(); go(step()); };
  const actions = {
    home: still(() => 0), back: still(() => state.step - 1), forward: still(() => state.step + 1),
    end: still(() => state.positions.length - 1), play, previous: () => visit(-1), next: () => visit(1),
  };
  for (const [id, act] of Object.entries(actions)) press(id, act);
  const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "home", End: "end", " ": "play", n: "next", p: "previous" };
  document.addEventListener("keydown", (event) => {
    const { target, key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = target.matches("input[type=text], select, input[type=range]");
    if (typing || (key === " " && target.matches("button, summary, input"))) return;
    if (key === "a") {
      event.preventDefault();
      by("address").focus();
      by("address").select();
    } else if (keys[key] ?? keys[key.toLowerCase()]) {
      event.preventDefault();
      actions[keys[key] ?? keys[key.toLowerCase()]]();
    }
  });
  const table = node("table");
  table.append(node("caption", "", "Mappings of the program"));
  for (const area of areas) {
    const row = node("tr");
    row.append(node("td", "", area.start), node("td", "", area.end), node("td", "", area.kind), node("td", "", area.rights));
    table.append(row);
  }
  by("areas").append(table);

  // A link may say what to show.
  document.body.classList.add("stepping");
  const asked = Object.fromEntries(location.hash.slice(1).split("&").map((part) => part.split("=")));
  const named = (asked.designs ?? "").split(",").map((name) => designs.findIndex((design) => encodeURIComponent(design.name) === name));
  if (named[0] >= 0) state.shown = named.filter((number) => number >= 0).slice(0, 2);
  show();
  if (asked.at && find(asked.at)) go(Number(asked.step ?? 1) - 1);
})();
