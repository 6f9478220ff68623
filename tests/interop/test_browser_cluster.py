"""The console in a real Chromium: of two brokers on one PostgreSQL, and of two workers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.core.storage.postgres.server import Postgres, Server
from tests.e2e.cluster.nodes import Node, ending, owners, wait_until
from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess, running_broker
from tests.interop.browser import Tab, address_of, press, told
from tests.interop.test_browser_pages import PHONE, axe_finds

pytestmark = pytest.mark.interop

SPACES = ("default", "one")
PERMISSIONS = """
[[user]]
name = "admin"
password = "password"
roles = ["admin"]
[[user]]
name = "keeper"
password = "k"
[[permission]]
who = ["*"]
may = ["connect"]
[[permission]]
who = ["keeper"]
may = ["manage"]
on = "queue:**"
"""
WORKERS = """
[broker]
workers = 2
[[virtual_host]]
id = "one"
host_names = ["127.0.0.1"]
[[virtual_host]]
id = "two"
host_names = ["two.example"]
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.remove()


def row(page: Page, label: str, name: str) -> Locator:
    return page.get_by_label(label, exact=True).locator("tbody tr", has_text=name)


def owner(page: Page, space: str) -> Locator:
    return row(page, "Virtual hosts", space).locator("td").nth(1)


def test_virtual_hosts_move_and_brokers_drain(
    browser: Browser, tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    settings = f"balance_s = 0\n{PERMISSIONS}"
    nodes = [Node(tmp_path, postgres, name, spaces=SPACES, config=settings) for name in "ab"]
    with ending(nodes):
        brokers = [node.served() for node in nodes]
        wait_until(lambda: are_served(brokers[0], SPACES), *nodes)
        tab = Tab(browser, address_of(brokers[0]))
        tab.sign_in(LOGIN, PASSCODE, "#/cluster")
        page = tab.page
        first = str(owners(brokers[0])["one"])
        other = "b" if first == "a" else "a"
        expect(owner(page, "one")).to_have_text(first)
        expect(row(page, "Brokers", f"{other}127.0.0.1")).to_contain_text("serves")
        move(page, "one", other)
        wait_until(lambda: owners(brokers[0])["one"] == other, *nodes)
        expect(owner(page, "one")).to_have_text(other)
        drain(page, other)
        wait_until(lambda: set(owners(brokers[0]).values()) == {first}, *nodes)
        expect(owner(page, "default")).to_have_text(first)
        press(page, "Let it serve")
        told(page, f"Broker {other} may serve again")
        expect(page.get_by_role("button", name="Let it serve")).to_have_count(0)
        nodes[1].process.kill()
        nodes[1].process.wait()
        tab.open("#/cluster")
        expect(page.locator("main .notices")).to_contain_text("alone", timeout=20_000)
        tab.troubles = [one for one in tab.troubles if "503" not in one and "409" not in one]
        tab.close()


def are_served(broker: BrokerProcess, spaces: tuple[str, ...]) -> bool:
    known = owners(broker)
    return set(known) == set(spaces) and None not in known.values()


def test_a_broker_that_stands_by_shows_everything_too(
    browser: Browser, tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, name) for name in "ab"]
    with ending(nodes):
        brokers = {node.name: node.served() for node in nodes}
        wait_until(lambda: are_served(brokers["a"], ("default",)), *nodes)
        standby = "b" if owners(brokers["a"])["default"] == "a" else "a"
        tab = Tab(browser, address_of(brokers[standby]))
        tab.sign_in(LOGIN, PASSCODE, "#/cluster")
        expect(row(tab.page, "Brokers", "127.0.0.1")).to_have_count(2)
        tab.open("#/queues")  # the owner answers, through this one
        expect(tab.page.locator("main")).to_contain_text("There is no queue yet")
        tab.close()


def move(page: Page, space: str, to: str) -> None:
    row(page, "Virtual hosts", space).get_by_role("button", name="Move").click()
    expect(page.get_by_label("To broker")).to_have_value(to)  # the only other one
    press(page, f"Move {space}")
    told(page, f"{space} moves to {to}")


def drain(page: Page, node: str) -> None:
    row(page, "Brokers", f"{node}127.0.0.1").get_by_role("button", name="Drain").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"Broker {node} gives away")
    press(page, f"Drain {node}")
    told(page, f"Broker {node} drains")
    expect(row(page, "Brokers", f"{node}127.0.0.1")).to_contain_text("drains")
    # The last one cannot drain: the broker refuses, and the form says why.
    other = "b" if node == "a" else "a"
    expect(page.get_by_role("dialog")).to_have_count(0)
    row(page, "Brokers", f"{other}127.0.0.1").get_by_role("button", name="Drain").click()
    press(page, f"Drain {other}")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no other node")
    page.keyboard.press("Escape")


def test_both_schemes_a_phone_and_the_overview_show_the_cluster(
    browser: Browser, tmp_path: Path, server: Server
) -> None:
    postgres = Postgres(server)
    nodes = [Node(tmp_path, postgres, name, spaces=SPACES, config=PERMISSIONS) for name in "ab"]
    with ending(nodes):
        brokers = [node.served() for node in nodes]
        wait_until(lambda: are_served(brokers[0], SPACES), *nodes)
        tab = Tab(browser, address_of(brokers[0]))
        tab.sign_in(LOGIN, PASSCODE, "#/cluster")
        expect(row(tab.page, "Brokers", "b127.0.0.1")).to_be_visible()
        look_around(tab)
        tab.troubles = [one for one in tab.troubles if "503" not in one]  # while one moves
        tab.close()
        keeper_sees_none_of_it(browser, brokers[0])


def look_around(tab: Tab) -> None:
    page = tab.page
    assert axe_finds(tab, "cluster") == []
    page.keyboard.press("d")
    assert axe_finds(tab, "cluster, dark") == []
    page.set_viewport_size({"width": PHONE, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE
    page.set_viewport_size({"width": 1280, "height": 900})
    tab.open("#/")
    expect(row(page, "Virtual hosts", "one")).to_be_visible()
    expect(row(page, "Brokers", "b127.0.0.1")).to_be_visible()
    assert axe_finds(tab, "overview of a cluster") == []
    page.get_by_label("Virtual host", exact=True).select_option("one")
    expect(page.locator("main h1")).to_have_text("Overview of one")
    expect(page).to_have_url(re.compile(r"#/@one\.example/$"))


def keeper_sees_none_of_it(browser: Browser, broker: BrokerProcess) -> None:
    tab = Tab(browser, address_of(broker))
    tab.sign_in("keeper", "k", "#/cluster")
    expect(tab.page.locator("main")).to_contain_text("you may not see it")
    expect(tab.page.locator("nav.rail a.item", has_text="Cluster")).to_have_count(0)
    tab.close()


def test_workers_are_shown_and_each_virtual_host_can_be_looked_at(
    browser: Browser, tmp_path: Path
) -> None:
    with running_broker(tmp_path, config=WORKERS) as broker:
        with broker.client(host="two.example") as client:
            client.send("SEND", {"destination": "/queue/of.two", "message_group": "g"}, b"x")
            client.sync()
        tab = Tab(browser, address_of(broker))
        tab.sign_in(LOGIN, PASSCODE, "#/cluster")
        page = tab.page
        expect(page.locator("main")).to_contain_text("2 workers")
        expect(owner(page, "two")).to_have_text("1")
        expect(row(page, "Virtual hosts", "two").locator("td").nth(2)).to_have_text("1")
        page.get_by_role("link", name="two", exact=True).click()
        expect(page.locator("main h1")).to_have_text("Overview of two")
        page.get_by_role("link", name="of.two").click()
        expect(page.get_by_role("button", name="g", exact=True)).to_be_visible()
        expect(page).to_have_url(re.compile(r"#/@two\.example/queues/of\.two$"))
        page.reload()  # the address says which virtual host is meant
        expect(page.get_by_role("button", name="g", exact=True)).to_be_visible()
        tab.open("#/@nobody.example/queues")
        expect(page.locator("main")).to_contain_text("No virtual host has the host name nobody")
        tab.close()
