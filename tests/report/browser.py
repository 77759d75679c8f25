"""Headless Chromium for the tests of pages: offline, of a chosen theme and width, and it tells what a page asked for.

Selenium drives it: Debian's chromium-driver is of the version of Debian's chromium, and no browser is downloaded.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from selenium.webdriver.chrome.options import Options

Theme = Literal["light", "dark"]
#: set to `required`, a test that finds no browser fails; else it is skipped
VARIABLE = "GEMMSIM_BROWSER"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip
#: height of a screen by its width, in CSS pixels
SCREENS = {390: 844, 1280: 900}
#: seconds until the charts of a page must be drawn
PATIENCE = 60.0
LOOK = (Path(__file__).parent / "look.js").read_text()


def programs() -> tuple[str, str] | None:
    """Chromium and its driver; None where one of them is missing."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    driver = shutil.which("chromedriver")
    return (chromium, driver) if chromium and driver else None


def missing() -> str:
    """Why no page can be opened; empty if one can."""
    try:
        import selenium  # noqa: F401
    except ModuleNotFoundError:
        return "no selenium: pip install 'gemmsim[test]'"
    return "" if programs() else "no chromium with chromedriver on PATH: apt-get install chromium chromium-driver"


class Browser:
    """One browser with one page in it, which is opened anew only where another page or width is asked for."""

    def __init__(self, driver: Chrome) -> None:
        self._driver = driver
        self._shown: tuple[Path, int] | None = None
        self._asked: list[str] = []
        self._said: list[str] = []

    def show(self, page: Path, width: int, theme: Theme = "light") -> None:
        """A file on a screen of this width, its charts drawn."""
        self.theme(theme)
        if self._shown == (page, width):
            return
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=SCREENS[width], deviceScaleFactor=1,
                 mobile=width < 600)  # fmt: skip
        self._driver.get("about:blank")
        self.requests(), self.complaints()  # those of the page before
        self._asked, self._said = [], []
        self._driver.get(page.as_uri())
        self._wait()
        self._shown = (page, width)

    def _wait(self) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self._driver, PATIENCE, 0.05).until(lambda _: self.look("drawn"))

    def theme(self, name: Theme, media: Literal["", "print"] = "") -> None:
        """What prefers-color-scheme says, and whether the page takes the screen for paper."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.cdp("Emulation.setEmulatedMedia", media=media, features=features)

    def requests(self) -> list[str]:
        """Addresses that the page has asked for, its own first."""
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        self._asked += [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return self._asked

    def complaints(self) -> list[str]:
        """Errors and warnings on the page's console."""
        entries = self._driver.get_log("browser")
        self._said += [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]
        return self._said

    def look(self, name: str) -> Any:
        """What a function of look.js finds on the page."""
        return self._driver.execute_script(f"{LOOK}\nreturn {name}();")

    def press(self, *keys: str) -> None:
        """Keys, one after the other, on what has the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self._driver, duration=0).send_keys(*keys).perform()

    def pdf(self) -> bytes:
        """The page on paper."""
        return base64.b64decode(self.cdp("Page.printToPDF", printBackground=True)["data"])

    def cdp(self, command: str, **arguments: Any) -> Mapping[str, Any]:
        """A command of the Chrome DevTools Protocol."""
        answer: Mapping[str, Any] = self._driver.execute_cdp_cmd(command, arguments)
        return answer


@contextmanager
def browser() -> Iterator[Browser]:
    """A new browser with an empty profile and no network; gone at the end."""
    from selenium.webdriver import Chrome
    from selenium.webdriver.chrome.service import Service

    os.environ["SE_OFFLINE"] = "true"  # Selenium looks for no driver and no browser but these
    found = programs()
    assert found is not None
    with tempfile.TemporaryDirectory(prefix="gemmsim-browser-", ignore_cleanup_errors=True) as folder:
        driver = Chrome(_options(found[0], folder), Service(found[1]))
        try:
            here = Browser(driver)
            here.cdp("Network.enable")
            here.cdp("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0,
                     uploadThroughput=0)  # fmt: skip
            yield here
        finally:
            driver.quit()


def _options(chromium: str, folder: str) -> Options:
    from selenium.webdriver.chrome.options import Options

    options = Options()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={folder}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return options
