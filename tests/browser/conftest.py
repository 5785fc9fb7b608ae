"""Headless Chromium, driven by Selenium: what a page does in a browser. `python3 scripts/test_pages.py` runs it."""

import base64
import json
import shutil
import subprocess
import time
from contextlib import ExitStack
from importlib.resources import files

import pytest
from serving import service

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


class Browser:
    """A browser with a clean profile that notes its console and every request."""

    def __init__(self, profile):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def screen(self, width=1280, scheme="light"):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script):
        """The value of a JavaScript expression."""
        return self.driver.execute_script(f"return {script}")

    def text(self, selector):
        """What stands in the first such element."""
        return self.run(f"document.querySelector({json.dumps(selector)}).textContent")

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def count(self, selector):
        return self.run(f"document.querySelectorAll({json.dumps(selector)}).length")

    def open(self, address, selector="body", count=1):
        """Wait until so many such elements are on this page."""
        self.driver.get(address)
        self.until(f"document.querySelectorAll({json.dumps(selector)}).length >= {count}")

    def says(self, words, selector="body"):
        """Wait until these words are in an element of this kind."""
        shown = f"[...document.querySelectorAll({json.dumps(selector)})].some((e) => e.textContent.includes"
        return self.until(f"{shown}({json.dumps(words)}))")

    def until(self, script, seconds=20.0):
        """Wait until the expression is true, and return it."""
        end = time.monotonic() + seconds
        while not (found := self.run(script)):
            if time.monotonic() > end:
                pytest.fail(f"not true after {seconds} s: {script}")
            time.sleep(0.05)
        return found

    def console(self):
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that were asked since the last call."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith(("data:", "chrome"))]

    def barriers(self):
        """What axe calls serious or critical."""
        self.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text())
        run = "const done = arguments[0]; axe.run().then((r) => done(r.violations))"
        found = self.driver.execute_async_script(run)
        return [(v["id"], v["nodes"][0]["html"][:200]) for v in found if v["impact"] in {"serious", "critical"}]

    def picture(self, top=0, height=None):
        """The whole page as a PNG, or its part that begins `top` pixels down."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": top, "width": size["width"], "height": height or size["height"] - top, "scale": 1}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        return base64.b64decode(shot["data"])


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    pytest.importorskip("selenium")
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        pytest.skip("no chromium and chromedriver")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


@pytest.fixture
def browser(chromium):
    """The one browser, in which no page of an earlier test asks its service any more."""
    chromium.open("about:blank")
    chromium.console()
    chromium.screen()
    return chromium


@pytest.fixture
def serve():
    """Start the service with these settings; returns its address."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(service(stderr=subprocess.DEVNULL, **settings)).url
