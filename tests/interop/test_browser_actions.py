"""What can be done in the console, in a real Chromium, and what it does to the broker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.support import LOGIN, PASSCODE, BrokerProcess, running_broker
from tests.interop.browser import Api, Tab, address_of, press, send, told

pytestmark = pytest.mark.interop

CONFIG = """
[[user]]
name = "admin"
password = "password"
roles = ["admin"]
[[user]]
name = "keeper"
password = "k"
[[user]]
name = "guest"
password = "g"
[[permission]]
who = ["*"]
may = ["connect"]
[[permission]]
who = ["keeper"]
may = ["manage", "browse"]
on = "queue:kept.*"
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("actions"), config=CONFIG) as process:
        yield process


def test_a_queue_is_declared_changed_paused_and_deleted(tab: Tab, api: Api) -> None:
    tab.sign_in(LOGIN, PASSCODE, "#/queues")
    page = tab.page
    press(page, "Declare a queue")
    page.get_by_label("Name", exact=True).fill("made.here")
    page.get_by_label("Group strategy").select_option("lru")
    page.get_by_label("Most messages").fill("20")
    press(page, "Declare")
    told(page, "made.here is declared")
    assert api.get("/queues/made.here")["strategy"] == "lru"
    expect(page.locator("h1").first).to_have_text("made.here")
    press(page, "Change")
    page.get_by_label("Arguments").fill("qpid.max_count = 30")
    page.get_by_role("dialog").get_by_role("button", name="Change").click()
    told(page, "made.here is changed")
    assert "'qpid.max_count': 30" in str(api.get("/queues/made.here")["arguments"])
    press(page, "Pause")
    page.get_by_label("Who waits").select_option("out")
    page.get_by_label("Reason").fill("stock-taking")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("main .notice")).to_contain_text("Consumers wait")
    expect(page.locator("main .notice")).to_contain_text("by admin, stock-taking")
    assert api.get("/queues/made.here")["paused"] == "out"
    press(page, "Resume")
    expect(page.locator("main .notice")).to_be_hidden()
    assert api.get("/queues/made.here")["paused"] == ""
    tab.open("#/queues/made.here/policy")
    expect(page.locator("tr", has_text="quota_messages")).to_contain_text("declared")
    press(page, "Delete")
    expect(page.get_by_role("dialog")).to_contain_text("Queue made.here goes for good")
    press(page, "Delete made.here")
    told(page, "made.here is deleted")
    assert not api.is_there("/queues/made.here")


def test_what_is_refused_is_told_in_the_form(tab: Tab, api: Api) -> None:
    tab.sign_in(LOGIN, PASSCODE, "#/queues")
    page = tab.page
    press(page, "Declare a queue")
    page.get_by_label("Name", exact=True).fill("made.wrong")
    page.get_by_label("Other arguments").fill("covey.no_such_option = 1")
    press(page, "Declare")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no_such_option")
    assert not api.is_there("/queues/made.wrong")
    tab.troubles = [one for one in tab.troubles if "400" not in one]  # the refusal itself


def test_groups_are_parked_let_go_on_and_closed(tab: Tab, broker: BrokerProcess, api: Api) -> None:
    with broker.client() as client:
        send(client, "acted", "g", 3)
        tab.sign_in(LOGIN, PASSCODE, "#/queues/acted")
        page = tab.page
        press(page, "g")
        page.get_by_role("dialog").get_by_role("button", name=re.compile("^Park")).click()
        page.get_by_label("Reason").fill("checked by hand")
        press(page, "Park g")
        expect(page.get_by_role("button", name="Unpark")).to_be_visible()
        assert api.get("/queues/acted/groups/g")["parked"] is True
        press(page, "Unpark")
        expect(page.get_by_role("dialog")).to_contain_text("no consumer reads this queue")
        assert api.get("/queues/acted/groups/g")["parked"] is False
        press(page, "Purge group")
        press(page, "Purge g")
        told(page, "Group g: 3 messages dropped.")
        assert api.get("/queues/acted")["messages"] == 0
        tab.troubles = [one for one in tab.troubles if "404" not in one]
        send(client, "acted", "g", 3)
        client.subscribe("/queue/acted", id="one", ack="client", credit="1,0")
        client.frame()
        page.keyboard.press("Escape")
        press(page, "g")
        page.get_by_role("dialog").get_by_role("button", name="Close group").click()
        told(page, "taken from its owner")


def test_a_queue_is_rebalanced_and_purged_and_a_consumer_retired(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    api.ask("PUT", "/queues/emptied", {"arguments": {"covey.groups.strategy": "lru"}})
    with broker.client() as client, broker.client() as reader, broker.client() as other:
        reader.subscribe("/queue/emptied", id="worker", ack="client", credit="2,0")
        reader.sync()
        send(client, "emptied", "g")
        send(client, "emptied", "h", 2)
        tab.sign_in(LOGIN, PASSCODE, "#/queues/emptied/consumers")
        page = tab.page
        press(page, "Rebalance")
        told(page, "No group of emptied would move")
        other.subscribe("/queue/emptied", id="second", ack="client", credit="0,0")
        expect(page.locator("tbody tr")).to_have_count(2)
        press(page, "Rebalance")
        expect(page.get_by_role("dialog")).to_contain_text("1 group of 2 would get another owner")
        press(page, "Move 1 group")
        told(page, "1 group shared out anew")
        page.get_by_role("button", name="Retire").first.click()
        press(page, "Retire 1")
        expect(page.locator("tbody")).to_contain_text("retires")
        press(page, "Purge")
        expect(page.get_by_role("dialog")).to_contain_text("1 message of queue emptied")
        press(page, "Purge emptied")
        told(page, "1 message dropped")
        assert api.get("/queues/emptied")["messages"] == 2  # what the consumer holds stays


def test_topics_connections_and_browsers_come_and_go(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    tab.sign_in(LOGIN, PASSCODE, "#/topics")
    page = tab.page
    press(page, "Make a topic")
    page.get_by_label("Name", exact=True).fill("made.topic")
    press(page, "Make")
    expect(page.locator("tbody")).to_contain_text("made.topic")
    press(page, "Publish")
    page.get_by_label("Body").fill("42")
    page.get_by_role("dialog").get_by_role("button", name="Publish").click()
    told(page, "Published as")
    press(page, "Forget")
    press(page, "Forget made.topic")
    expect(page.locator("main")).to_contain_text("There is no topic yet")
    with broker.client(**{"client-id": "closed-soon"}) as client:
        tab.open("#/connections?search=closed-soon")
        press(page, "Close")
        page.get_by_role("dialog").get_by_role("button", name=re.compile("Close ")).click()
        told(page, "is closed")
        assert b"closed by admin" in client.until_closed()


def set_and_remove_a_policy(page: Page, api: Api) -> None:
    press(page, "Set a policy")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Queues").fill("short.**")
    add = dialog.get_by_label("Add a setting")
    add.select_option("quota_messages")
    dialog.get_by_label("quota_messages").first.fill("-5")
    press(page, "Set")
    expect(dialog.get_by_role("alert")).to_contain_text("quota_messages")
    dialog.get_by_label("quota_messages").first.fill("5")
    add.select_option("groups.strategy")
    dialog.get_by_label("groups.strategy").first.select_option("lru")
    add.select_option("dlq_expired")
    dialog.get_by_label("dlq_expired").first.select_option("true")
    add.select_option("durable")
    press(page, "Take durable away")
    press(page, "Set")
    told(page, "Policy short.** is set")
    row = page.get_by_label("Policies", exact=True).locator("tr", has_text="short.**")
    expect(row).to_contain_text("run time")
    api.ask("PUT", "/queues/short.one", {"arguments": {}})
    assert api.get("/queues/short.one")["strategy"] == "lru"
    (policy,) = [one for one in api.items("/policies") if one["name"] == "short.**"]
    given = {"quota_messages": 5, "dlq_expired": True, "groups": {"strategy": "lru"}}
    assert policy["settings"] == given
    row.get_by_role("button", name="Change").click()
    expect(dialog.get_by_label("quota_messages").first).to_have_value("5")
    press(page, "Take quota_messages away")
    dialog.get_by_role("button", name="Set").click()
    expect(row).not_to_contain_text("quota_messages")
    expect(row).to_contain_text("dlq_expired = true")
    row.get_by_role("button", name="Remove").click()
    press(page, "Remove short.**")
    expect(row).to_have_count(0)


def test_permissions_are_asked_about_and_the_configuration_is_reloaded(
    tab: Tab, broker: BrokerProcess, api: Api
) -> None:
    tab.sign_in(LOGIN, PASSCODE, "#/users")
    page = tab.page
    page.get_by_label("User", exact=True).select_option("keeper")
    page.get_by_label("Verb").select_option("manage")
    page.get_by_label("Destination").fill("/queue/kept.a")
    press(page, "Ask")
    expect(page.get_by_text("rule 2: keeper may manage, browse on queue:kept.*")).to_be_visible()
    page.get_by_label("Verb").select_option("send")
    press(page, "Ask")
    expect(page.get_by_text("no rule allows it")).to_be_visible()
    press(page, "Set a user")
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name").fill("fresh")
    dialog.get_by_label("Password").fill("f")
    press(page, "Set")
    told(page, "User fresh is set")
    row = page.locator("tr", has_text="fresh")
    expect(row).to_contain_text("run time")
    with broker.client(login="fresh", passcode="f"):
        pass  # who was set at run time gets in
    row.get_by_role("button", name="Remove").click()
    press(page, "Remove fresh")
    expect(row).to_have_count(0)
    tab.open("#/configuration")
    set_and_remove_a_policy(page, api)
    file = broker.folder / "covey.toml"
    file.write_text(CONFIG + "[broker]\nunsettled_max = 77\n")
    press(page, "Reload")
    page.get_by_role("dialog").get_by_role("button", name="Reload").click()
    expect(page.locator(".notice")).to_contain_text("broker.unsettled_max: 100000 -> 77")
    page.get_by_label("Find settings").fill("unsettled_max")
    row = page.locator("tr", has_text="broker.unsettled_max")
    expect(row).to_contain_text(f"{file.name}:")
    file.write_text(CONFIG + "[broker]\nno_such_thing = 1\n")
    press(page, "Reload")
    page.get_by_role("dialog").get_by_role("button", name="Reload").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("no_such_thing")
    page.keyboard.press("Escape")
    tab.troubles = [one for one in tab.troubles if "400" not in one]


def test_definitions_go_out_and_come_in(tab: Tab, api: Api) -> None:
    tab.sign_in(LOGIN, PASSCODE, "#/definitions")
    page = tab.page
    with page.expect_download() as download:
        press(page, "Export")
    assert '"version": 1' in Path(download.value.path()).read_text()
    press(page, "Paste")
    page.get_by_label("Definitions, as JSON").fill('{"queues": [{"name": "brought.in"}]}')
    press(page, "Look at it")
    row = page.get_by_role("dialog").locator("tbody tr")
    expect(row).to_contain_text("queue brought.in")
    expect(row).to_contain_text("new")
    assert not api.is_there("/queues/brought.in")  # it is only looked at
    press(page, "Import")
    told(page, "1 entry imported")
    assert api.is_there("/queues/brought.in")
    press(page, "Paste")
    changed = '{"queues": [{"name": "brought.in", "arguments": {"qpid.max_count": 7}}]}'
    page.get_by_label("Definitions, as JSON").fill(changed)
    press(page, "Look at it")
    expect(row).to_contain_text("qpid.max_count: nothing → 7")
    page.keyboard.press("Escape")
    press(page, "Paste")
    page.get_by_label("Definitions, as JSON").fill("{")
    press(page, "Look at it")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_have_text("That is not JSON.")


def test_who_keeps_some_queues_sees_those_and_buttons_that_work(
    browser: Browser, broker: BrokerProcess
) -> None:
    with broker.client() as client:
        send(client, "kept.mine", "g")
        send(client, "secret", "g")
        tab = Tab(browser, address_of(broker))
        tab.sign_in("keeper", "k")
        page = tab.page
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.locator("nav.rail a.item")).to_have_count(1)  # no overview, no users
        page.get_by_role("link", name="kept.mine").click()
        expect(page.get_by_role("button", name="Purge")).to_be_visible()
        assert page.get_by_role("button", name="Delete").count() == 0  # destroy is not allowed
        assert page.get_by_role("button", name="Send a message").count() == 0
        tab.open("#/queues/secret")
        expect(page.locator("main .notice")).to_contain_text("may not manage queue:secret")
        tab.open("#/queues")  # it asks for the other one no more
        expect(page.locator("tbody tr")).to_have_count(1)
        tab.troubles = [one for one in tab.troubles if "403" not in one]
        tab.close()
        tab = Tab(browser, address_of(broker))
        tab.sign_in("guest", "g")
        expect(tab.page.locator("main")).to_contain_text("may not manage anything")
        tab.close()


def test_the_page_comes_back_by_itself_when_the_broker_does(
    browser: Browser, tmp_path: Path
) -> None:
    with running_broker(tmp_path) as first:
        tab = Tab(browser, address_of(first))
        with first.client() as client:
            headers = {"destination": "/queue/stays", "message_group": "g", "persistent": "true"}
            client.send("SEND", headers, b"x")
            client.sync()
        tab.sign_in(LOGIN, PASSCODE, "#/queues/stays")
        page = tab.page
        expect(page.locator(".status")).to_have_text("live")
        port = address_of(first).rpartition(":")[2]
    expect(page.locator(".status")).to_contain_text("reconnecting")
    with running_broker(tmp_path, arguments=("--http", f"127.0.0.1:{port}")):
        expect(page.locator(".status")).to_have_text("live", timeout=20_000)
        expect(page.get_by_role("button", name="g", exact=True)).to_be_visible()
        expect(page).to_have_url(re.compile("#/queues/stays$"))
        tab.close()
