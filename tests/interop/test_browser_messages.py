"""What can be done about messages and groups in the console, in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess, running_broker
from tests.interop.browser import Api, Tab, press, send, told

pytestmark = pytest.mark.interop

CONFIG = """
[[queue]]
id = "mortal.*"
dlq = "dlq.*"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("messages"), config=CONFIG) as process:
        yield process


def test_a_message_is_sent_and_looked_at(tab: Tab, broker: BrokerProcess, api: Api) -> None:
    with broker.client() as client:
        send(client, "looked", "first")
        tab.sign_in(LOGIN, PASSCODE, "#/queues/looked/messages")
        page = tab.page
        press(page, "Send a message")
        page.get_by_label("Group", exact=False).last.fill("second")
        page.get_by_label("Body").fill('{"amount": 12, "deep": {"a": 1}}')
        page.get_by_label("Properties").fill("tenant = acme")
        press(page, "Send")
        told(page, "Sent as")
        row = page.locator("tbody tr", has_text="second")
        expect(row).to_be_visible()
        row.get_by_role("button").first.click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("tenant")
        expect(dialog.locator("pre")).to_contain_text('"deep": {\n    "a": 1')
        dialog.get_by_role("button", name="Hex").click()
        expect(dialog.locator("pre")).to_contain_text("7b 22 61 6d")
        page.keyboard.press("Escape")
        page.get_by_label("Selector").fill("tenant = 'acme'")
        press(page, "Look")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.get_by_label("Selector").fill("tenant = ")
        press(page, "Look")
        expect(page.locator("main").get_by_role("alert")).to_contain_text("selector")
        tab.troubles = [one for one in tab.troubles if "400" not in one]


def choose(page: Page, *numbers: int) -> None:
    for number in numbers:
        page.get_by_label(f"Choose message {number}", exact=True).check()


def test_messages_are_chosen_and_dead_lettered_retried_moved_and_deleted(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    with broker.client() as client:
        for number in range(6):
            headers = {"destination": "/queue/mortal.a", "message_group": "ab"[number % 2]}
            client.send("SEND", headers, str(number).encode())
        client.sync()
    tab.sign_in(LOGIN, PASSCODE, "#/queues/mortal.a/messages")
    page = tab.page
    choose(page, 1, 2, 3)
    press(page, "Dead-letter")
    page.get_by_label("Reason").fill("no such customer")
    press(page, "Dead-letter 3 messages")
    told(page, "3 messages dead-lettered.")
    expect(page.locator("tbody tr")).to_have_count(3)
    choose(page, 4)
    page.get_by_label("Messages", exact=True).get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_contain_text("message 4 of mortal.a, for good")
    press(page, "Delete message 4")
    told(page, "1 message dropped.")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_label("All shown").check()
    expect(page.get_by_text("2 chosen")).to_be_visible()
    press(page, "Move")
    page.get_by_label("To queue").fill("mortal.b")
    press(page, "Move 2 messages")
    told(page, "2 messages moved.")
    assert (api.bodies("mortal.a"), api.bodies("mortal.b")) == ([], ["4", "5"])
    tab.open("#/queues/dlq.mortal.a/messages")
    row = page.locator("tbody tr").first
    expect(row).to_contain_text("no such customer (by admin)")
    assert page.get_by_role("button", name="Dead-letter").count() == 0  # it has no dlq itself
    row.get_by_role("button", name="1", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("mortal.a, number 1, group a")
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    press(page, "Retry message 1")
    told(page, "1 message retried.")
    assert api.bodies("mortal.a") == ["0"]
    press(page, "Retry dead letters …")
    page.get_by_role("dialog").get_by_label("Only of group").fill("b")
    press(page, "Retry")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert (api.bodies("mortal.a"), api.bodies("dlq.mortal.a")) == (["0", "1"], ["2"])


def test_a_group_is_dead_lettered_retried_and_moved_as_a_whole(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    with broker.client() as client:
        send(client, "mortal.c", "g", 2)
    tab.sign_in(LOGIN, PASSCODE, "#/queues/mortal.c")
    page = tab.page
    press(page, "g")
    dialog = page.get_by_role("dialog").first
    expect(dialog.get_by_role("button", name="Purge group")).to_be_visible()
    assert dialog.get_by_role("button", name="Retry").count() == 0  # these are no dead letters
    press(page, "Dead-letter")
    press(page, "Dead-letter g")
    told(page, "Group g: 2 messages dead-lettered.")
    expect(dialog).to_contain_text("no message")
    press(page, "Close")
    tab.open("#/queues/dlq.mortal.c")
    press(page, "g")
    expect(dialog).to_contain_text("dead-lettered by admin")
    press(page, "Retry")
    press(page, "Retry g")
    told(page, "Group g: 2 messages retried.")
    press(page, "Close")
    tab.open("#/queues/mortal.c")
    press(page, "g")
    press(page, "Move")
    page.get_by_label("To queue").fill("mortal.d")
    press(page, "Move g")
    told(page, "Group g: 2 messages moved.")
    assert api.get("/queues/mortal.d/groups/g")["messages"] == 2
    tab.troubles = [one for one in tab.troubles if "404" not in one]  # of groups that went
