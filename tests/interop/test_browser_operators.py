"""What an operator meets on a bad day, in a real Chromium: alarms, long jobs, logins that end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess, running_broker
from tests.interop.browser import Api, Tab, address_of, press, send, told
from tests.interop.test_browser_pages import PHONE, axe_finds

pytestmark = pytest.mark.interop

CONFIG = """
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
on = "**"
[[queue]]
id = "mortal"
dlq = "dlq.mortal"
[[queue]]
id = "narrow"
quota_messages = 1
"""
DEEP = 150_000  # messages: some seconds of work, one a turn
LONG = "orders.of.a.department.with.a.very.long.name." + 40 * "x" + ".at.its.end"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("operators"), config=CONFIG) as process:
        yield process


def test_a_login_that_ends_in_the_middle_of_a_form_keeps_what_was_typed(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    api.ask("PUT", "/queues/typed", {})
    tab.sign_in(LOGIN, PASSCODE, "#/queues/typed/messages")
    page = tab.page
    press(page, "Send a message")
    page.get_by_label("Body").fill("a long story")
    for session in api.items("/sessions"):
        api.ask("DELETE", f"/sessions/{session['name']}", None)
    again = page.get_by_role("dialog", name="Sign in")
    expect(again).to_be_visible()  # the live page hears of it by itself
    assert again.get_by_label("Name").input_value() == LOGIN
    again.get_by_label("Password").fill("wrong")
    press(page, "Sign in")
    expect(again.get_by_role("alert")).to_have_text("Wrong name or password.")
    again.get_by_label("Password").fill(PASSCODE)
    press(page, "Sign in")
    expect(again).to_have_count(0)
    expect(page.get_by_label("Body")).to_have_value("a long story")
    press(page, "Send")
    told(page, "Sent as")
    assert api.bodies("typed") == ["a long story"]
    expect(page.locator(".status")).to_have_text("live")


def test_somebody_else_who_signs_in_there_gets_nothing_of_the_form(tab: Tab, api: Api) -> None:
    api.ask("PUT", "/queues/typed.too", {})
    tab.sign_in(LOGIN, PASSCODE, "#/queues/typed.too")
    page = tab.page
    press(page, "Send a message")
    page.get_by_label("Body").fill("not for keeper")
    for session in api.items("/sessions"):
        api.ask("DELETE", f"/sessions/{session['name']}", None)
    again = page.get_by_role("dialog", name="Sign in")
    again.get_by_label("Name").fill("keeper")
    again.get_by_label("Password").fill("k")
    press(page, "Sign in")
    expect(page.get_by_role("button", name="Sign out keeper")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("main h1")).to_have_text("typed.too")
    assert page.get_by_role("button", name="Send a message").count() == 0  # keeper may not
    tab.open("#/topics")
    press(page, "Make a topic")
    page.get_by_label("Name", exact=True).fill("kept.topic")
    press(page, "Make")
    expect(page.get_by_role("button", name="Forget")).to_be_visible()
    assert page.get_by_role("button", name="Publish", exact=True).count() == 0
    tab.open("#/queues")
    expect(page.locator("tbody")).to_contain_text("typed")
    assert page.get_by_role("button", name="Declare a queue").count() == 0
    tab.open("#/users")
    expect(page.get_by_label("Permissions", exact=True).last).to_contain_text("keeper")
    assert page.get_by_role("button", name=re.compile("^Set a")).count() == 0
    tab.open("#/configuration")
    expect(page.get_by_role("button", name="Set a policy")).to_be_visible()


def test_a_long_job_shows_how_far_it_is_and_can_be_stopped(
    browser: Browser, tmp_path: Path
) -> None:
    config = "[broker]\nwork_portion = 1\n"
    with running_broker(tmp_path, config=config) as broker, broker.client() as client:
        headers = {"destination": "/queue/deep", "message_group": "g", "persistent": "true"}
        for _ in range(DEEP):
            client.send("SEND", headers, b"x")
        client.sync()
        tab = Tab(browser, address_of(broker))
        tab.sign_in(LOGIN, PASSCODE, "#/queues/deep?group=g")
        page = tab.page
        press(page, "Move")
        page.get_by_label("To queue").fill("elsewhere")
        press(page, "Move g")
        expect(page.get_by_role("dialog").last).to_contain_text("You may leave this form")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        tab.open("#/jobs")
        row = page.locator("tbody tr", has_text="move")
        expect(row).to_contain_text(f"of {DEEP:,}")
        expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", re.compile(r"\d"))
        row.get_by_role("button", name="Stop").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        told(page, "The job is stopped")
        expect(page.locator("main")).to_contain_text("Nothing runs")
        left = Api(broker).get("/queues/deep")["messages"]
        assert isinstance(left, int)
        assert 0 < left < DEEP
        tab.close()


def test_subscriptions_browsers_and_permissions_go(
    browser: Browser, tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    with broker.client() as client:
        client.subscribe("/topic/kept", persistent="true", id="billing")
    tab.sign_in(LOGIN, PASSCODE, "#/subscriptions")
    page = tab.page
    press(page, "Destroy")
    press(page, "Destroy billing")
    told(page, "Subscription billing is destroyed")
    assert not api.is_there("/subscriptions/billing")
    for session in api.items("/sessions"):
        if session["user"] == "keeper":
            api.ask("DELETE", f"/sessions/{session['name']}", None)
    other = Tab(browser, address_of(broker))
    other.sign_in("keeper", "k")
    tab.open("#/users")
    page.locator("tr", has_text="keeper").get_by_role("button", name="Sign out").click()
    page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
    told(page, "keeper is signed out")
    expect(other.page.get_by_label("Password")).to_be_visible()
    other.close()
    press(page, "Set a permission")
    dialog = page.get_by_role("dialog")
    for label, value in (("Name", "extra"), ("Who", "role:staff"), ("May", "browse")):
        dialog.get_by_label(label, exact=True).fill(value)
    press(page, "Set")
    row = page.locator("tr", has_text="extra")
    expect(row).to_contain_text("role:staff")
    assert api.get("/permissions/extra")["may"] == ["browse"]
    row.get_by_role("button", name="Remove").click()
    press(page, "Remove extra")
    expect(row).to_have_count(0)
    assert not api.is_there("/permissions/extra")


def test_a_blocked_producer_is_found_from_the_overview(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    with broker.client(**{"client-id": "waits"}) as client:
        client.subscribe("/queue/other", id="reads", ack="client", credit="3,0")
        for _ in range(2):
            client.send("SEND", {"destination": "/queue/narrow", "message_group": "g"}, b"x")
        tab.sign_in(LOGIN, PASSCODE)
        page = tab.page
        page.get_by_role("link", name="1 producer blocked").click()
        expect(page.locator("tbody tr").first).to_contain_text("queue narrow is full")
        page.get_by_role("link", name=re.compile("waits")).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("queue narrow is full")
        expect(dialog.locator("tbody tr")).to_contain_text("other")
        expect(dialog.locator("tbody tr")).to_contain_text("0 of 100,000")
        assert axe_finds(tab, "a connection") == []
        page.go_back()
        expect(dialog).to_have_count(0)
        page.go_back()
        expect(page.locator("main h1")).to_have_text("Overview")
        page.go_forward()
        expect(page.locator("main h1")).to_have_text("Connections")


def test_a_disk_alarm_is_on_top_with_what_to_do(browser: Browser, tmp_path: Path) -> None:
    config = '[store]\ndisk_free_min = "900000G"\n'
    with running_broker(tmp_path, config=config) as broker:
        for scheme in ("light", "dark"):
            tab = Tab(browser, address_of(broker), scheme=scheme)
            tab.sign_in(LOGIN, PASSCODE)
            alarm = tab.page.get_by_role("alert").filter(has_text="Producers wait")
            expect(alarm).to_contain_text("Free some room on the disk")
            expect(alarm.get_by_role("link", name="Who waits")).to_be_visible()
            assert axe_finds(tab, f"an alarm, {scheme}") == []
            tab.close()


def test_a_queue_that_is_not_there_says_so_until_it_is(tab: Tab, api: Api) -> None:
    tab.sign_in(LOGIN, PASSCODE, "#/queues/comes.later")
    page = tab.page
    expect(page.locator("main .notice")).to_contain_text("there is no queue comes.later")
    expect(page.get_by_role("link", name="Consumers")).to_be_hidden()
    api.ask("PUT", "/queues/comes.later", {})
    expect(page.get_by_role("link", name="Consumers")).to_be_visible()
    expect(page.locator("main .notice")).to_be_hidden()
    tab.troubles = [one for one in tab.troubles if "404" not in one]


def test_long_names_fit_a_phone_and_are_told_whole(
    browser: Browser, broker: BrokerProcess, api: Api
) -> None:
    with broker.client(**{"client-id": LONG}) as client:
        send(client, LONG, LONG)
        client.subscribe(f"/queue/{LONG}", id=LONG, ack="client", credit="1,0")
        tab = Tab(browser, address_of(broker), width=PHONE)
        tab.sign_in(LOGIN, PASSCODE, "#/queues")
        page = tab.page
        link = page.get_by_role("link", name=LONG, exact=True)
        expect(link).to_contain_text(" … ")
        expect(page.locator("td.name", has=link)).to_have_attribute("title", LONG)
        places = ["#/", "#/queues", "#/connections", "#/users"]
        places += [f"#/queues/{LONG}{part}" for part in ("", "/consumers", "/messages", "/trace")]
        for place in places:
            tab.open(place)
            page.wait_for_load_state("networkidle" if place == "#/users" else "load")
            expect(page.locator("main h1").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth") == PHONE, place
        tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_forms(browser: Browser, broker: BrokerProcess, scheme: str) -> None:
    with broker.client() as client:
        send(client, "mortal", "formed")
        tab = Tab(browser, address_of(broker), scheme=scheme)
        tab.sign_in(LOGIN, PASSCODE, "#/queues/mortal")
        page = tab.page
        found = []
        page.get_by_role("button", name="formed", exact=True).click()
        expect(page.get_by_role("dialog").get_by_role("button", name="Park")).to_be_visible()
        found += axe_finds(tab, "a group")
        page.keyboard.press("Escape")
        for place, button in (
            ("#/queues", "Declare a queue"),
            ("#/queues/mortal", "Send a message"),
            ("#/queues/mortal", "Pause"),
            ("#/queues/mortal", "Purge"),
            ("#/queues/mortal", "Change"),
            ("#/users", "Set a permission"),
            ("#/configuration", "Set a policy"),
            ("#/definitions", "Paste"),
        ):
            tab.open(place)
            press(page, button)
            expect(page.get_by_role("dialog")).to_be_visible()
            if button == "Set a policy":
                page.get_by_label("Add a setting").select_option("dlq")
            found += axe_finds(tab, button)
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
        assert found == []
        tab.close()
