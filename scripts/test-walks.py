#!/usr/bin/env python3
"""Steps through a page of translations in headless Chromium, and compares what it shows with `explain-walk --json`.

usage: scripts/test-walks.py [AMBULATOR]

Makes the page of `explain-walk --html` with the binary (by default cargo's release build), for a few designs with many
addresses, and for every design preset with few. It types addresses, steps by key, and reads addresses, cycles and loads
out of the page. It fails if the page asks for anything, reports an error, is wider than a phone, or shows a number that
`explain-walk` does not. Screenshots of what was seen go to `$REPORT_SCREENSHOTS`, if that is set.
"""

import base64
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

from browser import Browser, contrast, contrast_parts, luminance

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = ROOT / (os.environ.get("CARGO_TARGET_DIR") or "target")
# Room for every preset's reservations.
MACHINE = ["--set", "memory.bytes=32GiB"]
# Presets in one page.
TOGETHER = 8
COLUMNS = "[...document.querySelectorAll('.column')]"


def explained(ambulator, command, designs=None, at=None):
    """The JSON of a command that the page shows, of these designs and for this address."""
    words = shlex.split(command)
    assert words[:2] == ["ambulator", "explain-walk"], command
    for option, value in [("--design", designs and ",".join(designs)), ("--at", at)]:
        if value:
            words[words.index(option) + 1] = value
    done = subprocess.run([ambulator, *words[1:], "--json", "--no-progress"], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return {walk["design"]: walk for walk in json.loads(done.stdout)}


def shown(browser):
    """What the columns say, by design."""
    return browser.run(
        f"""Object.fromEntries({COLUMNS}.map((column) => [column.dataset.design, {{
            ...column.querySelector('.sum').dataset, typed: column.dataset.typed || null,
            answer: column.querySelector('.sum .answer').textContent,
            cost: column.querySelector('.sum .cost').textContent,
            command: column.querySelector('.command code').textContent,
            items: column.querySelectorAll('ol.steps > li.loads').length,
            drawn: [...column.querySelectorAll('ol.steps > li.loads')].filter((item) =>
                column.querySelector(`.picture .s[data-s="${{item.dataset.s}}"] rect:is(.lit, .held)`)).length,
            bars: column.querySelectorAll('.time .piece').length,
        }}]))"""
    )


def check(design, seen, walk):
    """A column has the numbers of the walk."""
    assert int(seen["cycles"]) == walk["cycles"], f"{design}: {seen}, not {walk['cycles']} cycles"
    assert int(seen["loads"]) == walk["loads"]["count"] == seen["items"] == seen["drawn"], f"{design}: {seen}, {walk['loads']}"
    assert int(seen["rounds"]) == walk["loads"]["rounds"], f"{design}: {seen}"
    assert int(seen["kernel"]) == walk["kernel_cycles"], f"{design}: {seen}"
    assert (seen["physical"] or None) == walk["physical"], f"{design}: {seen}, not {walk['physical']}"
    assert (walk["physical"] or "in the caches") in seen["answer"], f"{design}: {seen['answer']}"
    assert seen["cost"].startswith(f"{walk['cycles']} cycles, "), f"{design}: {seen['cost']}"
    assert seen["bars"] > 0 or walk["cycles"] == 0, f"{design}: no bar in its time"


def places(browser):
    return browser.run("[...document.getElementById('place').options].map((option) => option.value).filter((value) => value)")


def choose(browser, place, value):
    browser.run(
        f"(() => {{ const at = document.getElementById({json.dumps(place)}); at.value = {json.dumps(value)}; "
        "at.dispatchEvent(new Event('change')); document.activeElement.blur(); })()"
    )


def type_address(browser, text):
    """Types an address, key by key, as somebody would."""
    browser.run("document.activeElement.blur()")
    browser.key("a", 65)
    assert browser.run("document.activeElement.id") == "address", "the key A goes to the address"
    browser.ask("Input.insertText", text=text)
    browser.key("Enter", 13)


def message(browser):
    return browser.run("document.getElementById('message').textContent")


def where(browser):
    step, of, cycle = browser.run("document.getElementById('where').textContent.match(/\\d+/g)")
    return int(step), int(of), int(cycle)


def stepping(browser):
    """Keys step: what is lit grows, time goes on, and in the end everything is lit."""
    browser.key("Home", 36)
    step, count, cycle = where(browser)
    assert step == 1 and count > 5, (step, count)
    lit = "document.querySelectorAll('.picture .s:not(.future)').length"
    before = browser.run(lit)
    for expected in range(2, count + 1):
        browser.key("ArrowRight", 39)
        step, _, now = where(browser)
        grown = browser.run(lit)
        assert step == expected and now >= cycle and grown > before, (step, expected, now, cycle, grown, before)
        current = browser.run(f"{COLUMNS}.map((column) => column.querySelectorAll('ol.steps > li.now').length)")
        assert all(current), f"step {step}: a column has no step: {current}"
        hidden = browser.run("[...document.querySelectorAll('ol.steps > li:not(.now)')].some((one) => one.offsetHeight > 0)")
        assert not hidden, "only the current steps are told"
        cycle, before = now, grown
    assert before == browser.run("document.querySelectorAll('.picture .s').length"), "something is never lit"
    browser.key("ArrowRight", 39)
    assert where(browser)[0] == count, "nothing follows the last step"
    browser.key("ArrowLeft", 37)
    assert where(browser)[0] == count - 1
    browser.key("End", 35)
    assert where(browser)[0] == count
    browser.run("document.getElementById('all').click(); document.activeElement.blur()")
    told = browser.run("[...document.querySelectorAll('ol.steps > li')].every((one) => one.offsetHeight > 0)")
    assert told, "not all steps are listed"
    browser.run("document.getElementById('all').click(); document.activeElement.blur()")
    browser.run("document.getElementById('play').click(); document.activeElement.blur()")
    browser.wait("document.getElementById('where').textContent.startsWith('Step 2 ')")
    browser.key(" ", 32)
    assert browser.run("document.getElementById('play').textContent") == "Play", "the space bar pauses"
    return count


def words_are_lit(browser, walks):
    """The words that the page lights are words of the loads, and the bytes are all there."""
    for design, walk in walks.items():
        loaded = [word for load in loads(walk) for word in load["loaded"]["words"]]
        words = browser.run(f"[...document.querySelectorAll('.column[data-design=\"{design}\"] .words code')].map((one) => one.textContent)")
        assert [int(word, 16) for word in words] == [int(word, 16) for word in loaded], design
        lit = browser.run(f"document.querySelectorAll('.column[data-design=\"{design}\"] .words code.lit').length")
        assert lit == sum(len(load.get("touched", [])) for load in loads(walk)), design


def loads(walk):
    def inside(steps):
        for step in steps:
            if "loaded" in step:
                yield step
            yield from inside(step.get("steps", []))

    for attempt in walk["attempts"]:
        yield from inside(attempt["steps"])


def addresses(browser, ambulator):
    """A typed address is translated as `explain-walk` does; others get a sentence and the nearest recorded one."""
    columns = shown(browser)
    command = next(iter(columns.values()))["command"]
    at = int(shlex.split(command)[shlex.split(command).index("--at") + 1], 16)
    typed = (at & ~0xFFF) + (0x928 if at & 0xFFF != 0x928 else 0x930)
    type_address(browser, f"{typed:x}".upper())
    walks = explained(ambulator, command, list(columns), f"{typed:#x}")
    for design, seen in shown(browser).items():
        assert seen["typed"] == walks[design]["physical"], f"{design}: {seen}, not {walks[design]['physical']}"
        assert seen["typed"] in message(browser), message(browser)
    before = shown(browser)
    for text, says in [("0x7000000000", "segmentation fault"), ("next", "not an address"), ("0x12345678901234567", "not an address")]:
        type_address(browser, text)
        assert says in message(browser), f"{text}: {message(browser)}"
        assert shown(browser) == before, "a wrong address changes nothing else"
    type_address(browser, "0x1000")
    browser.run("document.getElementById('nearest').click()")
    nearest = browser.run("document.getElementById('address').value")
    assert nearest in message(browser) and int(nearest, 16) > 0x1000, message(browser)


def keyboard(browser):
    """Everything can be reached and seen, and has a name."""
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(22):
        browser.key("Tab", 9)
        tag, outline = browser.run(
            "(() => { const at = document.activeElement, style = getComputedStyle(at); "
            "return [at.id || at.tagName, style.outlineStyle + ' ' + style.outlineWidth]; })()"
        )
        assert tag == "BODY" or outline.startswith(("solid 3", "auto")), f"focus on {tag} cannot be seen: {outline}"
        seen.append(tag)
    assert {"address", "first", "second", "place", "forward", "step"} <= set(seen), seen
    nameless = browser.run(
        """[...document.querySelectorAll('input, select, button, [role=region], svg')].filter((one) =>
        !one.getAttribute('aria-label') && !one.textContent.trim() && !(one.labels && one.labels.length)).length"""
    )
    assert nameless == 0, f"{nameless} controls or pictures have no name"


def appearance(browser):
    """Light, dark, projector, phone and print are readable."""
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('.picture .t')).fill]"
    seen = {}
    browser.key("End", 35)
    for scheme in ("light", "dark"):
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen[scheme] = [contrast_parts(colour) for colour in browser.run(colours)]
        assert contrast(*seen[scheme]) > 7, f"{scheme}: text of pictures has a contrast of {contrast(*seen[scheme]):.1f}"
        for level in browser.run("[...new Set([...document.querySelectorAll('.level')].map((one) => one.className))]"):
            pair = browser.run(
                f"(() => {{ const style = getComputedStyle(document.getElementsByClassName({json.dumps(level)})[0]); "
                "return [style.backgroundColor, style.color]; })()"
            )
            ratio = contrast(*map(contrast_parts, pair))
            assert ratio > 4.5, f"{scheme}: {level} has a contrast of {ratio:.1f}"
        browser.look(f"walks-{scheme}")
    assert luminance(seen["light"][0]) > 0.9 > 0.1 > luminance(seen["dark"][0])
    browser.size(1920, 1080)
    assert browser.run("parseFloat(getComputedStyle(document.body).fontSize)") >= 19, "too small for a lecture hall"
    browser.look("walks-hall")
    browser.size(390, 844, mobile=True)
    wide = browser.run("document.scrollingElement.scrollWidth")
    assert wide <= 390, f"the page is {wide} pixels wide on a phone of 390"
    browser.look("walks-phone")
    browser.size(1280, 900)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}], media="print")
    paper = [contrast_parts(colour) for colour in browser.run(colours)]
    assert luminance(paper[0]) > 0.9 and contrast(*paper) > 7, f"print is not dark on white: {paper}"
    listed = browser.run("[...document.querySelectorAll('ol.steps > li')].every((one) => one.offsetHeight > 0)")
    assert listed, "print lists every step"
    browser.ask("Emulation.setEmulatedMedia", features=[], media="")
    pdf = base64.b64decode(browser.ask("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF") and len(pdf) > 10_000
    if folder := os.environ.get("REPORT_SCREENSHOTS"):
        (pathlib.Path(folder) / "walks.pdf").write_bytes(pdf)


def make(ambulator, path, designs, *options):
    command = [ambulator, "explain-walk", "--design", ",".join(designs), "--html", path, "--no-progress", *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def clean(browser):
    assert not browser.requests(), f"the page asked for {browser.requests()}"
    assert not browser.complaints(), browser.complaints()


def few_designs(browser, ambulator, folder):
    designs = ["radix", "lvm", "ecpt", "nested"]
    page = make(ambulator, folder / "walks.html", designs, "--pages", "40", "--walks", "6")
    assert page.stat().st_size < 5e6, page.stat().st_size
    browser.open(page)
    compared = 0
    for number, place in enumerate(places(browser)):
        if number > 0:
            browser.key("n", 78)
        assert browser.run("document.getElementById('place').value") == place, "the key N goes to the next"
        if number % 3:
            continue
        for pair in (designs[:2], designs[2:]):
            choose(browser, "first", str(designs.index(pair[0])))
            choose(browser, "second", str(designs.index(pair[1])))
            columns = shown(browser)
            assert list(columns) == pair, columns.keys()
            walks = explained(ambulator, columns[pair[0]]["command"], pair)
            for design, seen in columns.items():
                check(design, seen, walks[design])
                compared += 1
            words_are_lit(browser, walks)
    choose(browser, "place", places(browser)[0])
    steps = stepping(browser)
    choose(browser, "first", "0")
    choose(browser, "second", "1")
    addresses(browser, ambulator)
    keyboard(browser)
    appearance(browser)
    choose(browser, "second", "")
    assert list(shown(browser)) == ["radix"]
    browser.look("walks-one")
    clean(browser)
    return compared, steps


def every_preset(browser, ambulator, folder):
    names = sorted(path.stem for path in (ROOT / "presets/designs").glob("*.toml"))
    for begin in range(0, len(names), TOGETHER):
        designs = names[begin : begin + TOGETHER]
        page = make(ambulator, folder / "presets.html", designs, "--pages", "1", "--walks", "1", *MACHINE)
        browser.open(page)
        walks = None
        for number, design in enumerate(designs):
            choose(browser, "second", "")
            choose(browser, "first", str(number))
            seen = shown(browser)[design]
            walks = walks or explained(ambulator, seen["command"], designs)
            check(design, seen, walks[design])
            browser.key("End", 35)
            assert browser.run("document.querySelectorAll('.picture .future').length") == 0, design
            browser.look(f"walks-{design}")
        clean(browser)
    return len(names)


def main():
    ambulator = str(sys.argv[1] if len(sys.argv) > 1 else TARGET / "release/ambulator")
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        browser = Browser(folder / "profile")
        try:
            browser.size(1280, 900)
            compared, steps = few_designs(browser, ambulator, folder)
            presets = every_preset(browser, ambulator, folder)
        finally:
            browser.close()
    print(f"{compared} translations of the page, {steps} steps by key and {presets} presets are those of explain-walk")
    print(f"no request, light, dark, phone, print and keyboard are well, in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
