#!/usr/bin/env python3
"""Loads a report in headless Chromium, clicks, reads numbers out of the page, and compares them with the results.

usage: scripts/test-report.py [AMBULATOR]

Runs three short comparisons with the binary (by default cargo's release build), makes the report of their JSON, and
holds the page against that JSON. It fails if the page asks for anything, reports an error, is wider than a phone, or
says a number that the results do not have. Chromium comes from Debian's package; nothing else is needed. Screenshots
of what was seen go to `$REPORT_SCREENSHOTS`, if that is set.
"""

import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

from browser import Browser, contrast, contrast_parts, luminance

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / (os.environ.get("CARGO_TARGET_DIR") or "target")
HOSTILE = "</script><b>x"


def environment():
    """The folder of the programs of an environment with what draws and reads figures for papers."""
    folder = pathlib.Path(os.environ.get("REPORT_VENV") or TARGET / "report-venv")
    packages = ["vl-convert-python", "pypdf"]
    made = folder / "packages"
    if not made.exists() or made.read_text().split() != packages:
        if subprocess.run([sys.executable, "-c", "import venv, ensurepip"], stderr=subprocess.DEVNULL).returncode:
            sudo = [] if os.geteuid() == 0 else ["sudo"]
            subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", "python3-venv"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *packages], check=True)
        made.write_text("\n".join(packages))
    return folder / "bin"


def close_to(a, b):
    return abs(a - b) <= 1e-4 * max(abs(a), abs(b), 1e-9)


def table(browser, place):
    """Rows of the first table in an element, as lists of texts."""
    rows = "[...row.cells].map((cell) => cell.textContent)"
    return browser.run(f"[...document.querySelector({json.dumps(place)}).querySelectorAll('tbody tr')].map((row) => {rows})")


def numbers_of_figures(browser, results):
    """Bars and tables of the figures have the numbers of the results."""
    labels = browser.run(
        "[...document.querySelectorAll('#figure-speed-up .plot [aria-label]')].map((mark) => mark.getAttribute('aria-label'))"
    )
    bars = {}
    for label in labels:
        if found := re.match(r"(.+), (.+): ([\d.]+) times as fast as", label):
            bars[found[1], found[2]] = float(found[3])
    assert bars, labels
    for program, runs in results.items():
        for run in runs[1:]:
            if run["status"] != "done":
                continue
            shown = bars[program, run["design"]]
            assert abs(shown - run["speedup"]) < 6e-4, f"{program}, {run['design']}: {shown}, not {run['speedup']}"
    rows = {(row[0], row[1]): row for row in table(browser, "#figure-cycles details.table")}
    served = {(row[0], row[1]): row for row in table(browser, "#figure-walks-served details.table")}
    for program, runs in results.items():
        for run in (run for run in runs if run["status"] == "done"):
            all_cycles = float(rows[program, run["design"]][-1].replace(",", ""))
            right = 1000 * run["counters"]["core.window.cycles"] / run["simulated_instructions"]
            assert abs(all_cycles / right - 1) < 0.01, f"{program}, {run['design']}: {all_cycles} cycles, not {right}"
            if (program, run["design"]) in served:
                shown = sum(map(float, served[program, run["design"]][2:-1]))
                assert abs(shown - 100) < 0.1, f"{program}, {run['design']}: walks served {shown}%"
    return len(bars)


def latencies(browser, results):
    """Choosing a program draws its distribution, and the table has its percentiles."""
    for program in results:
        browser.run(
            f"""(() => {{ const select = document.querySelector('[data-choose="walk-latency"]');
            select.value = [...select.options].find((option) => option.textContent === {json.dumps(program)}).value;
            document.documentElement.removeAttribute('data-done');
            select.dispatchEvent(new Event('change', {{bubbles: true}})); }})()"""
        )
        browser.drawn()
        rows = {row[1]: row for row in table(browser, "#figure-walk-latency details.table")}
        assert all(row[0] == program for row in rows.values()), rows
        for run in results[program]:
            histogram = run["histograms"]["walk_latency"] if run["histograms"] else {"count": 0, "max": 0}
            if histogram["count"] == 0 or histogram["max"] == 0:
                assert run["design"] not in rows, run["design"]
                continue
            shown = [float(text.replace(",", "")) for text in rows[run["design"]][2:]]
            right = [histogram[name] for name in ("count", "mean", "p50", "p90", "p99", "max")]
            assert all(abs(a - b) <= max(0.5, 1e-4 * b) for a, b in zip(shown, right)), f"{shown}, not {right}"


def over_time(browser, results):
    """The misses of each interval are those of the series."""
    rows = {row[1]: row for row in table(browser, "#figure-tlb-misses-over-time details.table")}
    program, runs = next(iter(results.items()))
    for run in runs:
        series = run["series"]
        ends = [0, *series["instructions"]]
        misses = series["counters"].get("mmu.l2_tlb_misses")
        if misses is None:
            assert run["design"] not in rows
            continue
        rates = [1000 * count / (end - begin) for count, begin, end in zip(misses, ends, ends[1:]) if end > begin]
        shown = [float(text.replace(",", "")) for text in rows[run["design"]][2:]]
        right = [min(rates), sum(rates) / len(rates), max(rates), rates[-1]]
        assert all(abs(a - b) <= 1e-3 * max(b, 1e-3) for a, b in zip(shown, right)), f"{run['design']}: {shown}, not {right}"
    assert rows and next(iter(rows.values()))[0] == program, rows


def pair(browser, results):
    """Two runs side by side: settings that differ, then counters by relative difference."""
    program, runs = next(iter(results.items()))
    names = browser.run("[...document.querySelectorAll('#first-run option')].map((option) => option.textContent)")
    first, second = f"{program}: {runs[0]['design']}", f"{program}: {runs[1]['design']}"
    for which, name in [("first", first), ("second", second)]:
        browser.run(
            f"""(() => {{ const select = document.getElementById('{which}-run'); select.value = {names.index(name)};
            select.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"""
        )
    browser.run("document.getElementById('pair-more').click()")
    rows = table(browser, "#pair-counters")
    differ = {name for name, value in runs[0]["counters"].items() if value != runs[1]["counters"].get(name)}
    shown = {row[0]: row for row in rows}
    assert differ <= shown.keys(), differ - shown.keys()
    changes = []
    for name in differ:
        a, b = (run["counters"].get(name) for run in runs[:2])
        texts = ["-" if value is None else f"{value:,}" for value in (a, b)]
        assert shown[name][1:3] == texts, f"{name}: {shown[name][1:3]}, not {texts}"
    for row in rows:
        a, b = (0.0 if text == "-" else float(text.replace(",", "")) for text in row[1:3])
        changes.append(abs(a - b) / max(abs(a), abs(b), 1e-300))
    assert all(a >= b - 0.02 for a, b in zip(changes, changes[1:])), "counters are not in the order of their difference"
    settings = {row[0]: row[1:] for row in table(browser, "#pair-settings")}
    flat = [dict(leaves(run["spec"])) for run in runs[:2]]
    differ = {key for key in flat[0].keys() | flat[1].keys() if flat[0].get(key) != flat[1].get(key)}
    assert settings.keys() == differ, settings.keys() ^ differ
    return len(rows)


def leaves(value, prefix=""):
    for key, inner in value.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, name)
        elif inner is not None:
            yield name, inner


def whole_spec(browser, results, ambulator, folder):
    """The spec of a run is a file that `--spec` reads, and it is that run's."""
    program, runs = next(iter(results.items()))
    assert browser.run("document.getElementById('spec-run').selectedOptions[0].textContent") == f"{program}: {runs[0]['design']}"
    text = browser.run("document.getElementById('spec-text').textContent")
    path = folder / "spec.toml"
    path.write_text(text)
    done = subprocess.run(
        [ambulator, "run", "gups", "--footprint", "16MiB", "--spec", path, "--instructions", "10K", "--warmup", "0",
         "--json", "-", "--no-progress"], capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr
    again = dict(leaves(json.loads(done.stdout)["runs"][0]["spec"]))
    right = dict(leaves(runs[0]["spec"]))
    own = {"run.instructions", "run.warmup"}
    differ = {key for key in right.keys() | again.keys() if key not in own and right.get(key) != again.get(key)}
    assert not differ, f"{program}: {differ}"


def filters(browser, results):
    """A design that is not chosen is in no figure."""
    design = next(iter(results.values()))[1]["design"]
    has = f"[...document.querySelectorAll('.plot [aria-label]')].some((mark) => mark.getAttribute('aria-label').includes(', {design}:'))"
    assert browser.run(has)
    click = f"document.querySelector('[data-filter=\"design\"][value=\"{design}\"]').click()"
    for now in (False, True):
        browser.run(f"document.querySelector('.filters').open = true; {click}")
        browser.wait(f"document.documentElement.dataset.done === 'yes' && ({has}) === {json.dumps(now)}")


def keyboard(browser):
    """Tab goes to the skip link first, then through everything in order; focus can be seen; Enter follows it."""
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    browser.key("Tab", 9)
    assert browser.run("document.activeElement.className") == "skip"
    assert browser.run("document.activeElement.getBoundingClientRect().left >= 0"), "the skip link stays hidden"
    browser.key("Enter", 13)
    browser.wait("location.hash === '#main'")
    seen, tops = [], []
    for _ in range(25):
        browser.key("Tab", 9)
        what = browser.run(
            """(() => { const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
            return [at.tagName, style.outlineStyle + ' ' + style.outlineWidth, box.top + scrollY]; })()"""
        )
        seen.append(what[0])
        assert what[1].startswith(("solid 3", "auto")), f"focus on {what[0]} cannot be seen: {what[1]}"
        tops.append(what[2])
    assert "BODY" not in seen and {"SUMMARY"} <= set(seen), seen
    assert all(b >= a - 60 for a, b in zip(tops, tops[1:])), f"focus jumps: {tops}"
    nameless = browser.run(
        """[...document.querySelectorAll('input, select, button, [role=region], svg')].filter((one) =>
        !one.getAttribute('aria-label') && !one.textContent.trim() && !(one.labels && one.labels.length)).length"""
    )
    assert nameless == 0, f"{nameless} controls or figures have no name"


def appearance(browser):
    """Light and dark differ and are readable; nothing is wider than a phone; print has every figure."""
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.plot text')).fill]"
    seen = {}
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen[scheme] = [contrast_parts(colour) for colour in browser.run(colours)]
        ratio = contrast(*seen[scheme])
        assert ratio > 7, f"{scheme}: text of figures has a contrast of {ratio:.1f}"
        browser.look(scheme)
    assert luminance(seen["light"][0]) > 0.9 > 0.1 > luminance(seen["dark"][0])
    browser.size(390, 844, mobile=True)
    browser.drawn()
    browser.wait("document.querySelector('.plot svg').getBoundingClientRect().width <= 390")
    browser.drawn()
    wide = browser.run("document.scrollingElement.scrollWidth")
    assert wide <= 390, f"the page is {wide} pixels wide on a phone of 390"
    browser.look("phone")
    browser.size(1280, 900)
    browser.wait("document.querySelector('.plot svg').getBoundingClientRect().width > 600")
    browser.drawn()
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}], media="print")
    paper = [contrast_parts(colour) for colour in browser.run(colours)]
    assert luminance(paper[0]) > 0.9 and contrast(*paper) > 7, f"print is not dark on white: {paper}"
    browser.ask("Emulation.setEmulatedMedia", features=[], media="")
    pdf = base64.b64decode(browser.ask("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 20_000
    if folder := os.environ.get("REPORT_SCREENSHOTS"):
        (pathlib.Path(folder) / "print.pdf").write_bytes(pdf)


def sentences(browser, results):
    """The answer names no design as the best that is not, and agrees with the counters."""
    for program, runs in results.items():
        text = browser.run(f"document.querySelector('.answer[data-program=\"{program}\"] .sentences').textContent")
        if found := re.match(r"Best: (\S+), ([\d.]+) times as fast as (\S+) \(", text):
            best = next(run for run in runs if run["design"] == found[1])
            assert abs(float(found[2]) - best["speedup"]) < 6e-4, text
            built = [run for run in runs[1:] if run["design"] not in ("ideal", "perfect-tlb") and run["status"] == "done"]
            assert best["speedup"] == max(run["speedup"] for run in built), text
        else:
            assert text.startswith(("Best: none.", "Best: radix.")), text


def hostile(folder, results):
    """Names that are markup stay names."""
    document = json.loads(results[0].read_text())
    for run in document["runs"]:
        run["program"] = run["identity"]["name"] = HOSTILE
    document["runs"][1]["design"] = HOSTILE
    document["runs"][2].update(status="failed", outcome=HOSTILE)
    document["notes"], document["command"] = [HOSTILE], ["ambulator", HOSTILE]
    path = folder / "hostile.json"
    path.write_text(json.dumps(document))
    return path


def many(folder, results):
    """A hundred runs: those of the results under other names, with a counter of each that is its own."""
    paths = []
    for number in range(20):
        document = json.loads(results[number % len(results)].read_text())
        document["bounds"] = []
        for run in document["runs"]:
            run["program"] = run["identity"]["name"] = f"program-{number}"
            run["counters"] = {name: value + number * 7919 for name, value in run["counters"].items()}
        paths.append(folder / f"many-{number}.json")
        paths[-1].write_text(json.dumps(document))
    return paths


def plots(ambulator, results, folder):
    """`plot` writes specifications in both widths of a paper."""
    subprocess.run([ambulator, "plot", *results, "-o", folder, "--format", "vl"], check=True, stdout=subprocess.DEVNULL)
    widths = {}
    for path in folder.iterdir():
        spec = json.loads(path.read_text())
        widths.setdefault(spec["width"], set()).add(path.name.rsplit("-", 1)[0])
    assert widths.keys() == {240, 504} and widths[240] == widths[504], widths
    assert {"speed-up", "cycles", "walks-served", "walk-latency-gups", "table-bytes"} <= widths[240], widths[240]
    return widths[240]


def drawings(ambulator, files, results, names, folder):
    """Each figure as SVG and PDF: of the paper's width, with the results' numbers, and with what it needs to print."""
    bin = environment()
    variables = {**os.environ, "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
    command = [ambulator, "plot", *files, "-o", folder, "--format", "svg", "--format", "pdf"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=variables)
    wanted = {f"{name}-{width}.{end}" for name in names for width in ("column", "page") for end in ("svg", "pdf")}
    written = {path.name for path in folder.iterdir()}
    assert written == wanted, written ^ wanted
    for width, points in (("column", 240), ("page", 504)):
        for name in names:
            svg = xml.parse(folder / f"{name}-{width}.svg").getroot()
            assert svg.get("width") == f"{points}pt" and svg.get("viewBox").split()[2] == str(points), f"{name}: {svg.attrib}"
            assert not svg.findall(".//{*}image") and not svg.findall(".//{*}script"), f"{name} is no drawing of its own"
        numbers_of_drawings(folder, width, results)
    read = subprocess.run([bin / "python3", "-c", PAGES, *sorted(folder.glob("*.pdf"))], check=True, capture_output=True, text=True)
    for path, pages in json.loads(read.stdout).items():
        name = pathlib.Path(path).stem
        points = 240 if name.endswith("-column") else 504
        assert len(pages) == 1, f"{name} has {len(pages)} pages"
        page = pages[0]
        assert abs(page["width"] - points) < 0.5 and 30 < page["height"] < 700, f"{name}: {page}"
        assert all(page["embedded"]), f"{name}: a font is not embedded"
        # Text is text, so that papers can be searched; where all is outlined, there are no fonts.
        if name.startswith("speed-up-"):
            assert all(program in page["text"] for program in results), f"{name}: {page['text']}"
    return len(written)


# Prints what pypdf reads of each PDF, by path: its pages with their sizes, text, and whether each font is embedded.
PAGES = """
import json, sys, pypdf

def fonts(resources):
    for font in resources.get("/Font", {}).values():
        font = font.get_object()
        descendants = font.get("/DescendantFonts")
        descriptor = (descendants[0].get_object() if descendants else font).get("/FontDescriptor", {})
        descriptor = descriptor.get_object() if descriptor else {}
        yield font.get("/Subtype") == "/Type3" or any(key in descriptor for key in ("/FontFile", "/FontFile2", "/FontFile3"))
    for form in resources.get("/XObject", {}).values():
        yield from fonts(form.get_object().get("/Resources", {}))

def page(page):
    box = page.mediabox
    return {"width": float(box.width), "height": float(box.height), "text": page.extract_text(),
            "embedded": list(fonts(page["/Resources"]))}

print(json.dumps({path: [page(one) for one in pypdf.PdfReader(path).pages] for path in sys.argv[1:]}))
"""


def numbers_of_drawings(folder, width, results):
    """Speed-ups and cycles in the drawings are those of the results."""
    def labels(name):
        marks = xml.parse(folder / f"{name}-{width}.svg").iter("{http://www.w3.org/2000/svg}path")
        return [mark.get("aria-label") for mark in marks if mark.get("role") == "graphics-symbol" and mark.get("aria-label")]

    fields = [dict(part.split(": ", 1) for part in label.split("; ") if ": " in part) for label in labels("speed-up")]
    bars = {(of["program"], of["design"]): float(of["speed-up"]) for of in fields if "speed-up" in of}
    done = [(program, run) for program, runs in results.items() for run in runs if run["status"] == "done"]
    compared = [(program, run) for program, run in done if run is not results[program][0]]
    assert bars.keys() == {(program, run["design"]) for program, run in compared}, bars
    for program, run in compared:
        shown = bars[program, run["design"]]
        assert abs(shown - run["speedup"]) < 6e-4, f"{program}, {run['design']}: {shown}, not {run['speedup']}"
    sums = {}
    for label in labels("cycles"):
        if found := re.match(r"(.+), (.+): ([\d.,]+) cycles per 1000 instructions for ", label):
            at = found[1], found[2]
            sums[at] = sums.get(at, 0) + float(found[3].replace(",", ""))
    for program, run in done:
        right = 1000 * run["counters"]["core.window.cycles"] / run["simulated_instructions"]
        shown = sums[program, run["design"]]
        assert abs(shown / right - 1) < 0.01, f"{program}, {run['design']}: {shown} cycles, not {right}"


def main():
    ambulator = str(sys.argv[1] if len(sys.argv) > 1 else TARGET / "release/ambulator")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        files, store = [], folder / "store"
        os.environ["AMBULATOR_STORE"] = str(store)
        for program in (["gups"], ["bfs", "--warmup", "200K"], [str(ROOT / "traces/mummer.amb")]):
            path = folder / f"{len(files)}.json"
            size = [] if program[0].endswith(".amb") else ["--footprint", "64MiB"]
            designs = "radix,thp,lvm,utopia,ideal"
            command = [ambulator, "compare", *program, *size, "--designs", designs, "--instructions", "1M", "--json", path]
            subprocess.run([*command, "--set", "run.interval=100K", "--no-progress", "--quiet"], check=True, stderr=subprocess.DEVNULL)
            files.append(path)
        page = folder / "report.html"
        subprocess.run([ambulator, "report", *files, "-o", page], check=True, stdout=subprocess.DEVNULL)
        bad = folder / "hostile.html"
        subprocess.run([ambulator, "report", hostile(folder, files), "-o", bad], check=True, stdout=subprocess.DEVNULL)
        of_store = folder / "store.html"
        subprocess.run([ambulator, "report", "-o", of_store], check=True, stdout=subprocess.DEVNULL)
        hundred = folder / "hundred.html"
        subprocess.run([ambulator, "report", *many(folder, files), "-o", hundred], check=True, stdout=subprocess.DEVNULL)
        size = hundred.stat().st_size
        assert size < 5e6, f"a report of a hundred runs has {size / 1e6:.1f} MB"
        names = plots(ambulator, files, folder / "figures")
        runs = [json.loads(file.read_text())["runs"] for file in files]
        results = {of[0]["program"]: of for of in runs}
        drawn = drawings(ambulator, files, results, names, folder / "drawings")
        browser = Browser(folder / "profile")
        try:
            browser.size(1280, 900)
            browser.open(page)
            bars = numbers_of_figures(browser, results)
            sentences(browser, results)
            latencies(browser, results)
            over_time(browser, results)
            counters = pair(browser, results)
            whole_spec(browser, results, ambulator, folder)
            filters(browser, results)
            keyboard(browser)
            appearance(browser)
            assert not browser.requests(), f"the page asked for {browser.requests()}"
            assert not browser.complaints(), browser.complaints()
            browser.open(of_store)
            assert numbers_of_figures(browser, results) == bars
            sentences(browser, results)
            assert not browser.requests() and not browser.complaints(), browser.complaints()
            browser.open(hundred)
            shown = browser.run("document.querySelectorAll('#first-run option').length")
            assert shown == 100, f"{shown} of 100 runs can be chosen"
            browser.open(bad)
            shown = browser.run("document.querySelector('.answer h3').textContent")
            assert shown == HOSTILE and browser.run("document.querySelectorAll('main b').length") == 0, shown
            assert not browser.requests() and not browser.complaints(), browser.complaints()
        finally:
            browser.close()
    print(f"{bars} bars, {counters} counters, settings, percentiles and sentences of the report are those of the results")
    print(f"{drawn} drawings have the widths of a paper, its numbers, and their fonts")
    print(f"no request, light, dark, phone, print and keyboard are well, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
