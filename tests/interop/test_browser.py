"""The console in a real Chromium: signing in, each page with a live load, hostile names."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess
from tests.interop.browser import Tab

pytestmark = pytest.mark.interop

HOSTILE = "<img src=x onerror=\"document.title='taken over'\"><script>document.title='too'</script>"


def figure(page: Page, label: str) -> str:
    card = page.locator(".figure", has_text=label).first
    return card.locator(".value").inner_text()


def test_a_stranger_signs_in_looks_and_signs_out(tab: Tab, broker: BrokerProcess) -> None:
    page = tab.page
    page.goto(f"{tab.address}/#/queues")
    page.fill("input[name=name]", LOGIN)
    page.fill("input[name=password]", "guessed")
    page.click("button.primary")
    expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")
    page.fill("input[name=password]", PASSCODE)
    page.click("button.primary")
    expect(page.locator("main h1")).to_have_text("Queues")  # where one wanted to go
    page.reload()
    expect(page.locator("main h1")).to_have_text("Queues")  # and stays signed in
    page.get_by_role("button", name=re.compile("Sign out")).click()
    expect(page.locator("input[name=password]")).to_be_visible()
    page.reload()
    expect(page.locator("input[name=password]")).to_be_visible()


def test_a_group_appears_moves_and_shows_why_it_waits(tab: Tab, broker: BrokerProcess) -> None:
    with broker.client() as client:
        headers = {"destination": "/queue/seen", "message_group": "first"}
        client.send("SEND", headers, b"x")
        tab.sign_in(LOGIN, PASSCODE, "#/queues/seen")
        page = tab.page
        expect(page.get_by_role("button", name="first", exact=True)).to_be_visible()
        expect(page.locator(".map canvas")).to_be_visible()
        client.send("SEND", headers | {"message_group": "second"}, b"x")
        expect(page.get_by_role("button", name="second", exact=True)).to_be_visible()
        page.locator(".map canvas").hover(position={"x": 20, "y": 20})
        expect(page.locator(".card > .tip:not(.hidden)")).to_contain_text(
            "no consumer reads this queue"
        )


def test_no_name_becomes_markup(tab: Tab, broker: BrokerProcess) -> None:
    with broker.client(**{"client-id": HOSTILE}) as client:
        headers = {"destination": "/queue/seen", "message_group": HOSTILE, "p": HOSTILE}
        client.send("SEND", headers, HOSTILE.encode())
        client.subscribe("/queue/seen", ack="client", credit="1,0", id=HOSTILE)
        tab.sign_in(LOGIN, PASSCODE, "#/queues/seen")
        page = tab.page
        expect(page.get_by_role("button", name=HOSTILE, exact=True)).to_be_visible()
        for place in ("consumers", "messages", "trace"):
            tab.open(f"#/queues/seen/{place}")
            expect(page.locator("main .card").first).to_be_visible()
        tab.open("#/connections")
        expect(page.get_by_role("link", name=HOSTILE).first).to_be_visible()
        expect(page).to_have_title("Connections · Covey")
        assert page.locator("main img, main script").count() == 0
