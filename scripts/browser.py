"""Headless Chromium, driven through a pipe, for the tests of pages.

Chromium comes from Debian's package; nothing else is needed. Screenshots go to `$REPORT_SCREENSHOTS`, if that is set.
"""

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

PATIENCE = 60


def chromium():
    """The browser, installed if it is missing."""
    names = ["chromium", "chromium-browser", "google-chrome"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found or not shutil.which("apt-get"):
        return found or sys.exit("please install chromium")
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False)
    command = [*sudo, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return shutil.which("chromium")


class Browser:
    """Chromium behind a pipe: messages of the DevTools protocol, each ended by a zero byte."""

    def __init__(self, folder):
        (self.reads, child_writes), (child_reads, self.writes) = os.pipe(), os.pipe()

        def pipes():
            # The browser reads from descriptor 3 and writes to 4; the pipe's own numbers may be these.
            read, write = os.dup2(child_reads, 103), os.dup2(child_writes, 104)
            os.dup2(read, 3)
            os.dup2(write, 4)

        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe",
            "--hide-scrollbars", "--no-first-run", "--disable-background-networking", f"--user-data-dir={folder}",
        ]
        self.process = subprocess.Popen(
            [chromium(), *options, "about:blank"], preexec_fn=pipes, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(child_reads)
        os.close(child_writes)
        self.rest, self.number, self.session, self.events = b"", 0, None, []
        os.set_blocking(self.reads, False)
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Network", "Log"]:
            self.ask(f"{domain}.enable")

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.writes, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            while b"\0" in self.rest:
                text, self.rest = self.rest.split(b"\0", 1)
                answer = json.loads(text)
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise RuntimeError(f"{method}: {answer['error']['message']}")
                    return answer["result"]
                self.events.append(answer)
            try:
                self.rest += os.read(self.reads, 1 << 20)
            except BlockingIOError:
                if self.process.poll() is not None:
                    raise RuntimeError("the browser has ended") from None
                time.sleep(0.005)
        raise RuntimeError(f"{method}: no answer in {PATIENCE} s")

    def run(self, script):
        """The value of a JavaScript expression."""
        answer = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']['exception'].get('description')}")
        return answer["result"].get("value")

    def wait(self, script):
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def drawn(self):
        """Waits until all figures are drawn."""
        self.wait("document.readyState === 'complete' && document.documentElement.dataset.done === 'yes'")
        error = self.run("document.documentElement.dataset.error || ''")
        assert not error, f"a figure failed: {error}"

    def open(self, path):
        self.events.clear()
        self.ask("Page.navigate", url=path.resolve().as_uri())
        self.drawn()

    def key(self, key, code):
        for kind in ["keyDown", "keyUp"]:
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def size(self, width, height, mobile=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)

    def look(self, name):
        """A screenshot of the whole page, if somebody wants them."""
        folder = os.environ.get("REPORT_SCREENSHOTS")
        if folder:
            os.makedirs(folder, exist_ok=True)
            shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True)
            (pathlib.Path(folder) / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def requests(self):
        """What the page has asked for, besides itself."""
        sent = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [url for url in sent[1:] if not url.startswith(("data:", "blob:"))]

    def complaints(self):
        said = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                said.append(event["params"]["exceptionDetails"]["exception"].get("description", "an exception"))
            if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
                said.append(event["params"]["entry"]["text"])
            if event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"):
                said.append(str(event["params"]["args"]))
        return said

    def close(self):
        try:
            self.session = None
            self.ask("Browser.close")
            self.process.wait(10)
        except (RuntimeError, subprocess.TimeoutExpired):
            self.process.kill()


def contrast_parts(colour):
    return [float(part) / 255 for part in re.findall(r"[\d.]+", colour)[:3]]


def luminance(colour):
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
