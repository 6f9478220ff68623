"""Every page of the console in a real Chromium, while messages move over both protocols.

axe looks at each page in both schemes; a phone shows it without scrolling sideways.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from string import ascii_lowercase

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from proton import Message

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess, running_broker
from tests.interop.amqp import connected
from tests.interop.browser import Tab, address_of

pytestmark = pytest.mark.interop

# Where to go, and what is to be seen there.
PAGES = {
    "#/": "Messages a second",
    "#/queues": "moving",
    "#/queues/moving": "Hottest groups",
    "#/queues/moving/consumers": "Credit",
    "#/queues/moving/messages": "Number",
    "#/queues/moving/policy": "groups.strategy",
    "#/queues/moving/trace": "Event",
    "#/topics": "prices.eu",
    "#/subscriptions": "No durable subscription",
    "#/connections": "What blocks it",
    "#/cluster": "This broker is no part of a cluster",
    "#/users": "May somebody do something?",
    "#/configuration": "broker.id",
    "#/definitions": "Everything that was declared",
    "#/jobs": "Nothing runs",
}
PHONE = 360
# Presses keys as soon as the page has its frame, and tells which of them have changed something.
# The window's name holds the keys, since that outlives a reload.
PRESS = """
new MutationObserver((_, watcher) => {
  if (!document.querySelector("nav.rail a[aria-current]")) return;
  watcher.disconnect();
  const seen = () => JSON.stringify([location.hash, document.documentElement.dataset.scheme,
    document.querySelectorAll("dialog").length, document.activeElement.tagName]);
  window.changers = window.name.split(" ").filter((key) => {
    const before = seen();
    document.body.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
    const has = seen() !== before;
    document.querySelector("dialog")?.remove();
    document.activeElement.blur();
    return has;
  });
}).observe(document, {childList: true, subtree: true, attributes: true});
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker in which messages move all the time, over STOMP and over AMQP."""
    with running_broker(tmp_path_factory.mktemp("console")) as process:
        ended = threading.Event()
        movers = [threading.Thread(target=move, args=(process, ended)) for move in (stomp, amqp)]
        for mover in movers:
            mover.start()
        yield process
        ended.set()
        for mover in movers:
            mover.join(10)


def stomp(broker: BrokerProcess, ended: threading.Event) -> None:
    """Send to groups and to a topic; take some of it, and keep some."""
    with broker.client() as sender, broker.client() as reader:
        reader.subscribe("/queue/moving", id="reader", ack="client", credit="10,0")
        for number in count():
            headers = {"destination": "/queue/moving", "message_group": f"group-{number % 12}"}
            sender.send("SEND", headers, b'{"number": 1}')
            sender.send("SEND", {"destination": "/topic/prices.eu"}, b"42")
            if ended.wait(0.1):
                return


def amqp(broker: BrokerProcess, ended: threading.Event) -> None:
    """Send to another group."""
    with connected(broker) as client:
        sender = client.create_sender("/queue/moving")
        while not ended.wait(0.2):
            sender.send(Message("x", group_id="over-amqp"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_shows_its_matter_and_axe_finds_nothing(
    browser: Browser, broker: BrokerProcess, scheme: str
) -> None:
    tab = Tab(browser, address_of(broker), scheme=scheme)
    tab.open("#/")
    assert axe_finds(tab, "the form") == []
    tab.sign_in(LOGIN, PASSCODE)
    found = []
    for place, text in PAGES.items():
        tab.open(place)
        expect(tab.page.locator("main").get_by_text(text).first).to_be_visible()
        found += axe_finds(tab, place)
    assert found == []
    tab.close()


def axe_finds(tab: Tab, place: str) -> list[str]:
    violations = Axe().run(tab.page).response["violations"]
    return [
        f"{place}: {one['id']}: {[node['html'][:120] for node in one['nodes'][:3]]}"
        for one in violations
    ]


def test_a_phone_shows_each_page_without_scrolling_sideways(
    browser: Browser, broker: BrokerProcess
) -> None:
    tab = Tab(browser, address_of(broker), width=PHONE)
    tab.sign_in(LOGIN, PASSCODE)
    wide = []
    for place, text in PAGES.items():
        tab.open(place)
        expect(tab.page.locator("main").get_by_text(text).first).to_be_visible()
        width = tab.page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE:
            wide.append((place, width))
    assert wide == []
    tab.close()


def test_numbers_move_without_a_reload(browser: Browser, broker: BrokerProcess) -> None:
    tab = Tab(browser, address_of(broker))
    tab.sign_in(LOGIN, PASSCODE, "#/queues/moving")
    page = tab.page
    expect(page.get_by_role("button", name="over-amqp")).to_be_visible()
    value = page.locator(".figure", has_text="Messages").first.locator(".value")
    before = int(value.inner_text().replace(",", ""))
    page.wait_for_function(
        "([node, before]) => Number(node.textContent.replace(',', '')) > before + 5",
        arg=[value.element_handle(), before],
    )
    tab.open("#/queues/moving/trace")
    expect(page.get_by_role("cell", name="enqueue").first).to_be_visible()
    tab.close()


def test_keys_lead_everywhere(browser: Browser, broker: BrokerProcess) -> None:
    tab = Tab(browser, address_of(broker))
    tab.sign_in(LOGIN, PASSCODE)
    page = tab.page
    expect(page.locator("main h1")).to_have_text("Overview")
    for keys, title in (("gq", "Queues"), ("gc", "Connections"), ("go", "Overview")):
        page.keyboard.press(keys[0])
        page.keyboard.press(keys[1])
        expect(page.locator("main h1")).to_have_text(title)
    page.keyboard.press("/")
    page.keyboard.type("mov")
    page.keyboard.press("Enter")
    expect(page.locator("main tbody tr")).to_have_count(1)
    page.locator("main h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("find a queue")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("d")
    expect(page.locator("html")).to_have_attribute("data-scheme", "dark")
    tab.close()


def test_no_key_alone_leads_away_in_the_first_second_of_a_page(tab: Tab) -> None:
    tab.sign_in(LOGIN, PASSCODE)
    tab.page.add_init_script(PRESS)
    every = [chr(code) for code in range(33, 127) if chr(code) != "g"]
    assert changers(tab, [*every, "Enter", "Escape", "Tab", "ArrowUp", "F2"]) == ["/", "?", "d"]
    # The very first key is a case of its own: there was none before it.
    assert [key for key in ascii_lowercase if changers(tab, [key])] == ["d"]


def changers(tab: Tab, keys: list[str]) -> list[str]:
    """Load the page anew and press keys at once; return those that have changed something."""
    tab.page.evaluate("(keys) => { window.name = keys; }", " ".join(keys))
    tab.page.reload()
    tab.page.wait_for_function("() => window.changers")
    found: list[str] = tab.page.evaluate("window.changers")
    return found


def test_an_address_leads_to_the_very_place(browser: Browser, broker: BrokerProcess) -> None:
    tab = Tab(browser, address_of(broker))
    tab.sign_in(LOGIN, PASSCODE, "#/queues/moving/messages?group=group-3")
    page = tab.page
    expect(page.get_by_label("Group", exact=True)).to_have_value("group-3")
    expect(page.locator("tbody tr").first).to_contain_text("group-3")
    expect(page.locator("tbody tr", has_text="group-4")).to_have_count(0)
    tab.open("#/queues/moving?group=group-3")  # a group has one, too
    expect(page.get_by_role("dialog").get_by_role("button", name="Park")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/queues/moving$"))
    page.get_by_label("Find groups").fill("group-1")
    page.reload()
    expect(page.get_by_label("Find groups")).to_have_value("group-1")
    expect(page.get_by_role("button", name="group-11", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="group-3", exact=True)).to_have_count(0)
    tab.close()


@pytest.mark.slow
def test_fifty_thousand_queues_are_searched_sorted_and_paged(
    browser: Browser, tmp_path: Path
) -> None:
    config = '[store]\nkind = "memory"\n'
    with running_broker(tmp_path, config=config) as broker, broker.client() as client:
        for number in range(50_000):
            client.send("SEND", {"destination": f"/queue/many.{number:05d}"}, b"x")
            if number % 1000 == 999:
                client.sync()
        tab = Tab(browser, address_of(broker))
        tab.sign_in(LOGIN, PASSCODE, "#/queues")
        page = tab.page
        expect(page.locator(".pager")).to_contain_text("1 to 50 of 50,000")
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".pager")).to_contain_text("51 to 100 of 50,000")
        expect(page.locator("tbody tr").first).to_contain_text("many.00050")
        page.get_by_label("Search queues").fill("49999")
        expect(page.locator(".pager")).to_contain_text("1 to 1 of 1")
        tab.close()


def test_five_thousand_groups_are_drawn_and_filtered(browser: Browser, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as client:
        for number in range(5000):
            headers = {"destination": "/queue/wide", "message_group": f"g{number}"}
            client.send("SEND", headers, b"x")
        client.sync()
        tab = Tab(browser, address_of(broker))
        tab.sign_in(LOGIN, PASSCODE, "#/queues/wide")
        page = tab.page
        expect(page.locator(".map canvas[data-tiles='5000']")).to_be_visible()
        page.get_by_label("Find groups").fill("g499")
        expect(page.locator(".map canvas[data-tiles='11']")).to_be_visible()
        page.get_by_role("button", name="parked").click()
        expect(page.locator(".map canvas[data-tiles='0']")).to_be_visible()
        tab.close()
