"""Recovery: what a restart brings back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.config.settings import Settings, VirtualHostSettings
from covey.core.broker.broker import Broker
from covey.core.events.event import EventKind
from covey.core.host import queue_factory as numbers
from covey.core.management.admin import Admin
from covey.core.model.entry import Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.queue.policy import change_policy
from covey.core.selector import compile_selector
from covey.core.storage.store import QueueRecord
from tests.core.storage.sqlite.support import ADMIN, House, Note, bodies, snapshot
from tests.core.support import depth, groups_shown


def test_backlog_comes_back_in_order_with_its_groups(tmp_path: Path) -> None:
    house = House(tmp_path)
    for number in range(10):
        house.send("a", b"%d" % number, group=("even", "odd")[number % 2])
        house.send("b", b"%d" % number)
    house.rest()
    house = house.restart()
    assert {each["group"]: each["messages"] for each in groups_shown(house.queue("a"))} == {
        "even": 5,
        "odd": 5,
    }
    readers = [house.reader("a"), house.reader("b")]
    house.rest()
    got = bodies(readers[0])
    assert [body for body in got if int(body) % 2] == [b"1", b"3", b"5", b"7", b"9"]
    assert [body for body in got if int(body) % 2 == 0] == [b"0", b"2", b"4", b"6", b"8"]
    assert bodies(readers[1]) == [b"%d" % number for number in range(10)]
    house.store.close()


def test_accounts_of_a_queue_add_up_over_a_restart(tmp_path: Path) -> None:
    house = House(tmp_path)
    for _ in range(5):
        house.send("a", b"x")
    reader = house.reader("a", count=1)
    house.rest()
    house.settle(reader.entries[0])
    house.rest()
    house = house.restart()
    house.send("a", b"y")
    reader = house.reader("a", count=1)
    house.rest()
    house.settle(reader.entries[0])
    assert Admin(house.broker, house.host, ADMIN).purge("a", house.now).count == 4
    counts = house.queue("a").counters
    assert (counts.restored, counts.enqueued, counts.acked, counts.dropped) == (4, 1, 1, 4)
    house.store.close()


def test_delivery_count_survives(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a", 2)
    house.send("a", b"poison")
    house.send("a", b"unlucky")
    house.rest()
    house.settle(reader.entries[0], Outcome.FAILED)
    house.queue("a").leave(reader, 0.0)
    house.rest()
    house = house.restart()
    reader = house.reader("a")
    house.rest()
    assert [entry.deliveries for entry in reader.entries] == [1, 1]
    house.store.close()


def test_expiry_survives(tmp_path: Path) -> None:
    house = House(tmp_path)
    note = Note(b"short-lived")
    note.expires_ms = 5000
    house.publish("a", note)
    house.send("a", b"lasting")
    house.rest()
    house = house.restart()
    house.now = 10.0
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"lasting"]
    assert house.queue("a").counters.expired == 1
    house.store.close()


def test_expired_backlog_goes_to_its_dead_letter_queue_with_its_body(tmp_path: Path) -> None:
    settings = Settings(queue=(QueueSettings(id="a", dlq="dead", dlq_expired=True),))
    house = House(tmp_path, settings)
    note = Note(b"too late")
    note.expires_ms = 5000
    house.publish("a", note)
    house.rest()
    house = house.restart()
    house.now = 10.0
    house.queue("a").mark()
    house.rest()
    reader = house.reader("dead")
    house.rest()
    assert bodies(reader) == [b"too late"]
    assert depth(house.queue("a")) == 0
    house.store.close()


def test_mark_of_what_a_queue_dropped_survives(tmp_path: Path) -> None:
    house = House(tmp_path)
    for number in range(5):
        house.send("a", b"%d" % number)
        house.send("b", b"%d" % number)
    house.rest()
    queue = house.queue("a")
    dropped = queue.state.index.get(3)
    assert dropped is not None
    queue.drop(dropped, EventKind.DROP)
    reader = house.reader("b", 1)
    house.rest()
    house.settle(reader.entries[0])
    house.rest()
    for _ in ("restarted", "restarted again"):
        house = house.restart()
        assert house.queue("a").dropped_to == 3
        assert house.queue("b").dropped_to == 0  # what was settled is no loss
    house.store.close()


def test_mark_of_dropped_messages_that_were_not_kept_rides_with_the_next_change(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    house.send("a", b"1", persistent=False)
    house.send("a", b"2")
    house.rest()
    queue = house.queue("a")
    ticket = house.broker.promises.ticket
    dropped = queue.state.index.get(1)
    assert dropped is not None
    queue.drop(dropped, EventKind.DROP)
    house.rest()
    assert house.broker.promises.ticket == ticket  # no commit for it alone
    reader = house.reader("a")
    house.rest()
    house.settle(reader.entries[0])
    house.rest()
    house = house.restart()
    assert house.queue("a").dropped_to == 1
    house.store.close()


def test_declared_queue_comes_back_with_its_policy(tmp_path: Path) -> None:
    house = House(tmp_path)
    queue = house.queue("a")
    policy = QueueSettings(id="a", quota=4096, groups=GroupSettings(strategy="simple"))
    change_policy(queue, policy, house.settings.broker, 0.0)
    house.host.declare(queue)
    house.rest()
    house = house.restart()
    assert "a" in house.host.queues
    assert "a" in house.host.declared
    assert house.host.queues["a"].settings == policy
    assert house.host.queues["a"].has_quota
    house.store.close()


@pytest.mark.parametrize("restarts", [False, True])
def test_a_change_means_the_same_before_and_after_a_restart(
    tmp_path: Path, *, restarts: bool
) -> None:
    house = House(tmp_path)
    Admin(house.broker, house.host, ADMIN).declare("a", {}, house.now)
    house.rest()
    house = house.restart() if restarts else house
    wish = {"qpid.group_header_key": "G", "covey.groups.consumers_before_dispatch": 2}
    Admin(house.broker, house.host, ADMIN).update("queue", "a", wish, house.now)
    groups = house.host.queues["a"].settings.groups
    assert (groups.strategy, groups.time_before_dispatch_ms) == ("consistent-hash", 1000)
    house.store.close()


def test_a_stored_option_that_is_no_more_says_nothing(tmp_path: Path) -> None:
    house = House(tmp_path)
    queue = house.queue("a")
    number = queue.storage_state.number
    old = '{"id":"a","nak_limit":3,"bygone":1,"groups":{"strategy":"lru","bygone":true}}'
    house.store.define(QueueRecord(number, "default", "queue", "a", 1, True, old))
    house.rest()
    house = house.restart()
    settings = house.host.queues["a"].settings
    assert (settings.nak_limit, settings.groups.strategy) == (3, "lru")
    house.store.close()


def test_swept_queue_goes_on_counting_after_a_restart(tmp_path: Path) -> None:
    house = House(tmp_path)
    reader = house.reader("a")
    house.send("a", b"x")
    house.rest()
    house.settle(reader.entries[0])
    house.host.delete_queue("a", "swept")
    house.rest()
    house = house.restart()
    assert "a" not in house.host.queues
    house.send("a", b"y")
    house.rest()
    (entry,) = house.queue("a").state.index
    assert entry.seq > 1
    house = house.restart()
    assert [record.name for record in house.store.queues()] == ["a"]
    house.store.close()


def test_deleted_queue_does_not_come_back(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.send("a", b"x")
    house.send("b", b"y")
    house.rest()
    house.host.delete_queue("a", "deleted")
    house.rest()
    house = house.restart()
    assert list(house.host.queues) == ["b"]
    assert depth(house.queue("b")) == 1
    assert depth(house.queue("a")) == 0
    house.store.close()


def test_messages_of_a_queue_whose_row_is_lost_are_told_of_and_become_no_others(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    house.send("a", b"x")
    house.send("lost", b"y")
    house.rest()
    house.store.close()
    with closing(sqlite3.connect(tmp_path / "covey.db")) as database, database:
        database.execute("delete from queues where name = 'lost'")
    house = House(tmp_path, house.settings)
    (told,) = house.store.damages
    assert told == "queue number 2: its name is lost; 1 messages of it stay on the disk"
    house.send("new", b"z", receipt="z")
    house.rest()
    assert house.receipts == ["z"]
    house = house.restart()
    assert {name: depth(queue) for name, queue in house.host.queues.items()} == {
        "a": 1,
        "new": 1,
    }
    house.store.close()


def test_forgotten_names_start_at_the_floor_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "REMEMBERED_MAX", 1)
    house = House(tmp_path)
    for name in ("a", "b"):
        for _ in range(5):
            house.send(name, b"", persistent=False)
        house.rest()
        house.host.delete_queue(name, "swept")
    house.rest()
    house = house.restart()
    house.send("a", b"", persistent=False)
    house.rest()
    (entry,) = house.queue("a").state.index
    assert entry.seq >= 6
    house.store.close()


def test_durable_subscription_comes_back_with_topics_selector_and_messages(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    durable = house.host.make_durable("d")
    durable.binding.selector = compile_selector("size > 2")
    durable.binding.not_from = "c"
    places = (
        Destination(Kind.TOPIC, "news"),
        Destination(Kind.TOPIC, "prices.*", is_pattern=True),
    )
    house.host.bind(durable, places)
    for name, body in (("news", b"long"), ("news", b"x"), ("prices.ibm", b"also long")):
        house.broker.publishing.publish(house.session, (Destination(Kind.TOPIC, name),), Note(body))
    house.rest()
    house = house.restart()
    assert house.host.durables["d"].destinations == places
    assert house.host.durables["d"].binding.not_from == "c"
    for name in ("news", "prices.msft", "other"):
        for body in (b"later", b"y"):
            house.broker.publishing.publish(
                house.session, (Destination(Kind.TOPIC, name),), Note(body)
            )
    house.rest()
    queue = house.host.durables["d"].queue
    assert depth(queue) == 4
    house.store.close()


def test_changed_and_destroyed_durable_subscriptions_stay_so(tmp_path: Path) -> None:
    house = House(tmp_path)
    news = (Destination(Kind.TOPIC, "news"),)
    for name in ("kept", "destroyed"):
        house.host.bind(house.host.make_durable(name), news)
    house.broker.publishing.publish(house.session, news, Note(b"x"))
    house.rest()
    kept = house.host.durables["kept"]
    kept.binding.selector = compile_selector("size > 1")
    house.host.bind(kept, news)
    house.host.delete_durable("destroyed")
    house.rest()
    house = house.restart()
    assert list(house.host.durables) == ["kept"]
    selector = house.host.durables["kept"].binding.selector
    assert selector is not None and selector.text == "size > 1"
    assert list(house.host.queues) == []
    assert len(list(house.store.messages())) == 1
    house.store.close()


def test_queues_of_one_name_in_two_hosts_stay_apart(tmp_path: Path) -> None:
    hosts = tuple(VirtualHostSettings(id=name, host_names=(name,)) for name in ("one", "two"))
    house = House(tmp_path, Settings(virtual_host=hosts))
    house.send("a", b"of one")
    house.rest()
    again = house.restart()
    assert list(again.broker.host.queues) == ["a"]
    other = Broker(again.broker.settings, again.store, space="two")
    assert list(other.host.queues) == []  # whatever else a store holds
    again.store.close()


def test_host_that_left_the_configuration_keeps_its_messages_on_disk(tmp_path: Path) -> None:
    hosts = tuple(VirtualHostSettings(id=name, host_names=(name,)) for name in ("one", "two"))
    house = House(tmp_path, Settings(virtual_host=hosts))
    house.send("a", b"of one")
    house.rest()
    house.store.close()
    without = House(tmp_path, Settings(virtual_host=hosts[1:]))
    assert without.host.queues == {}
    without.send("a", b"of two")
    without.rest()
    without.store.close()
    again = House(tmp_path, Settings(virtual_host=hosts))
    other = Broker(again.broker.settings, again.store, space="two")
    assert [depth(each.host.queue("a")) for each in (again.broker, other)] == [1, 1]
    again.store.close()


def test_the_rest_of_a_group_goes_on_to_follow_its_dead_message(tmp_path: Path) -> None:
    policy = QueueSettings(id="q", dlq="dead", dead_letter_rest=True)
    house = House(tmp_path / "live", Settings.model_validate({"queue": [policy, QueueSettings()]}))
    for number in range(6):
        house.send("q", str(number).encode(), "a" if number != 3 else "b")
    reader = house.reader("q", 1)
    house.rest()
    house.broker.jobs.portion = 1
    house.settle(reader.entries[0], Outcome.REJECTED)
    house.rest()
    assert house.broker.jobs.is_any
    again = House(snapshot(tmp_path / "live", tmp_path / "copy"), house.settings)
    house.store.close()
    again.broker.jobs.portion = 1
    after = again.reader("q")
    dead = again.reader("dead")
    again.rest()
    while again.broker.jobs.is_any:
        again.broker.go_on(again.now)
        again.rest()
    assert bodies(after) == [b"3"]
    assert bodies(dead) == [b"0", b"1", b"2", b"4", b"5"]
    assert not again.host.queue_factory.dying.queues()
    again.store.close()
