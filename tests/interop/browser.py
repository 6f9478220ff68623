"""A real Chromium, driven by playwright, that fails a test for anything a page must not do.

A page fails its test by an exception, by an error on its console, and by a violation of its
Content-Security-Policy. Where no Chromium is installed the tests say so and are skipped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess, Client

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    " --disable-component-update --disable-sync".split()
)
TIMEOUT_MS: Final = 15_000

# What a page may say while it works as it should: a stranger is one, and a broker may be away.
EXPECTED: Final = ("status of 401", "ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY")
VIOLATIONS: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation",
  (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the system's browser, or skip the test."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed: scripts/packages names it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        yield browser
        browser.close()


class Tab:
    """One page of a browser that is signed in at a broker."""

    def __init__(
        self, browser: Browser, address: str, *, scheme: str = "light", width: int = 1280
    ) -> None:
        height = 844 if width < 500 else 900
        self.context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light",
            viewport={"width": width, "height": height},
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(TIMEOUT_MS)
        self.page.add_init_script(VIOLATIONS)
        self.address = f"http://{address}"
        self.troubles: list[str] = []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", self._said)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not any(one in message.text for one in EXPECTED):
            self.troubles.append(message.text)

    def sign_in(self, name: str, password: str, place: str = "") -> None:
        """Open a place and sign in there."""
        self.page.goto(f"{self.address}/{place}")
        self.page.fill("input[name=name]", name)
        self.page.fill("input[name=password]", password)
        self.page.click("button.primary")
        self.page.wait_for_selector("nav.rail")

    def open(self, place: str) -> None:
        """Go to another place of the console."""
        self.page.goto(f"{self.address}/{place}")

    def check(self) -> None:
        """Fail if the page did anything that it must not do."""
        violations = self.page.evaluate("window.violations")
        assert not self.troubles and not violations, (self.troubles, violations)

    def close(self) -> None:
        """Check, and close."""
        self.check()
        self.context.close()


def address_of(broker: BrokerProcess) -> str:
    """Read where the page is out of the broker's welcome."""
    (line,) = [line for line in broker.welcome.splitlines() if line.split()[0] == "http"]
    return line.split()[1]


class Api:
    """What a program sees of the broker meanwhile."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._base = f"http://{address_of(broker)}/api/v1"

    def get(self, path: str) -> dict[str, object]:
        """Ask for something that is there."""
        answer = httpx.get(self._base + path, auth=(LOGIN, PASSCODE))
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()
        return found

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the rows of a list."""
        found = self.get(path)["items"]
        assert isinstance(found, list)
        return found

    def ask(self, method: str, path: str, body: object) -> None:
        """Change something."""
        answer = httpx.request(method, self._base + path, auth=(LOGIN, PASSCODE), json=body)
        assert answer.is_success, answer.text

    def bodies(self, queue: str) -> list[str]:
        """Return what a queue holds."""
        found = self.get(f"/queues/{queue}/messages")["items"]
        assert isinstance(found, list)
        return [message["body"] for message in found]

    def is_there(self, path: str) -> bool:
        """Return True if it can be shown."""
        return httpx.get(self._base + path, auth=(LOGIN, PASSCODE)).status_code == 200


def send(client: Client, queue: str, group: str, count: int = 1) -> None:
    """Send some messages of one group."""
    for _ in range(count):
        headers = {"destination": f"/queue/{queue}", "message_group": group}
        client.send("SEND", headers, b'{"amount": 7}')
    client.sync()


def press(page: Page, name: str) -> None:
    """Click the button of that name."""
    page.get_by_role("button", name=name, exact=True).click()


def told(page: Page, text: str) -> None:
    """Wait until the page has said so in its corner."""
    expect(page.locator(".toasts")).to_contain_text(text)


@pytest.fixture(scope="module", name="browser")
def started_browser() -> Iterator[Browser]:
    """A browser for the tests of one file."""
    with chromium() as found:
        yield found


@pytest.fixture(name="tab")
def opened_tab(browser: Browser, broker: BrokerProcess) -> Iterator[Tab]:
    """A page of the broker's console; it is checked at the end of the test."""
    found = Tab(browser, address_of(broker))
    yield found
    found.close()


@pytest.fixture(name="api")
def program(broker: BrokerProcess) -> Api:
    """A program that looks at the broker meanwhile."""
    return Api(broker)
