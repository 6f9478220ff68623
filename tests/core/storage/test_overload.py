"""Overload: who waits for the disk or for memory, and who need not."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from covey.config.settings import BrokerSettings, Settings, StoreSettings
from covey.core.broker.broker import Broker
from covey.core.model.entry import Outcome
from covey.core.naming.destination import Destination, Kind
from covey.core.storage.overload import MESSAGE_COST
from tests.core.storage.sqlite.support import House, Note

BODY = b"x" * 1000
ROOM_FOR_TWO = StoreSettings(unwritten_max=2 * (len(BODY) + MESSAGE_COST))


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, Settings(store=ROOM_FOR_TWO))


def test_who_sends_more_than_the_disk_takes_waits_and_goes_on(house: House) -> None:
    house.send("a", BODY)
    house.rest()
    for _ in range(3):
        house.send("a", BODY)
    assert not house.session.is_blocked
    house.send("a", BODY, receipt="fourth")
    late = "the disk is behind: more than 4.0 KiB are to be written"
    assert house.session.blocked_on == late
    assert house.queue("a").state.index.count == 4  # the last one is not among them
    house.send("a", BODY, persistent=False)  # others' messages are none of the disk's business
    house.rest()
    assert not house.session.is_blocked
    assert house.receipts == ["fourth"]
    assert house.broker.commits.overload.unwritten == 0
    assert not house.broker.commits.overload.is_shut
    house.store.close()


def test_what_is_not_persistent_does_not_wait_for_a_disk_that_is_behind(house: House) -> None:
    other = house.broker.open(house.host, house.session.identity, 0.0)
    for _ in range(4):
        house.send("a", BODY)
    house.session, first = other, house.session
    house.send("a", BODY, persistent=False)
    assert first.is_blocked and not other.is_blocked
    house.rest()
    house.store.close()


def test_everybody_waits_for_memory_that_the_disk_does_not_free(tmp_path: Path) -> None:
    windows = BrokerSettings(memory_window_queue=0, memory_window_total=0)
    house = House(tmp_path, Settings(broker=windows, store=ROOM_FOR_TWO))
    house.send("a", b"first", persistent=False)
    house.rest()
    large = b"x" * 300_000  # beyond what is put out at a time
    house.send("a", large, persistent=False)
    house.broker.run(0.0)
    house.send("a", b"next", persistent=False)
    assert house.session.is_blocked
    house.rest()
    assert not house.session.is_blocked
    assert house.broker.commits.overload.spilling_bytes == 0
    house.store.close()


def test_everybody_waits_while_memory_is_short_and_queues_hold_messages(tmp_path: Path) -> None:
    limits = BrokerSettings(memory_limit=1000, memory_alarm_percent=50)
    house = House(tmp_path, Settings(broker=limits))
    broker = house.broker
    broker.rounds.weigh(900)
    house.send("a", BODY, persistent=False)
    assert not house.session.is_blocked  # waiting would have freed nothing
    house.rest()
    broker.rounds.weigh(501)
    house.send("a", BODY, persistent=False)
    assert house.session.blocked_on == "memory: 501 bytes are used, 500 bytes may be"
    broker.rounds.weigh(600)
    assert house.session.is_blocked
    broker.rounds.weigh(500)
    house.rest()
    assert not house.session.is_blocked
    house.store.close()


def test_while_there_is_memory_nobody_goes_through_all_queues(tmp_path: Path) -> None:
    limits = BrokerSettings(memory_limit=1000, memory_alarm_percent=50)
    house = House(tmp_path, Settings(broker=limits))
    brokers = house.broker.shared.brokers
    brokers.append(cast(Broker, None))  # who looks at it fails
    for used in (0, 1, 499, 500):
        house.broker.rounds.weigh(used)
    with pytest.raises((AttributeError, TypeError)):
        house.broker.rounds.weigh(501)
    brokers.pop()
    house.store.close()


def test_messages_of_a_durable_subscription_are_messages_too(tmp_path: Path) -> None:
    limits = BrokerSettings(memory_limit=1000, memory_alarm_percent=50)
    house = House(tmp_path, Settings(broker=limits))
    house.host.make_durable("d")
    place = (Destination(Kind.DSUB, "d"),)
    house.broker.publishing.publish(house.session, place, Note(BODY))
    house.rest()
    house.broker.rounds.weigh(501)
    house.broker.publishing.publish(house.session, place, Note(BODY))
    assert house.session.is_blocked
    house.rest()
    house.store.close()


def test_one_cause_that_ends_does_not_end_another(house: House) -> None:
    commits = house.broker.commits
    for _ in range(4):
        house.send("a", BODY)
    assert "behind" in house.session.blocked_on
    commits.pressed("the disk is full")
    house.rest()  # the disk has caught up, and is still full
    assert house.session.blocked_on == "the disk is full"
    commits.pressed("")
    house.rest()
    assert not house.session.is_blocked
    assert house.queue("a").state.index.count == 4
    house.store.close()


def test_a_session_that_is_gone_is_not_remembered(house: House) -> None:
    house.broker.commits.pressed("the disk is full")
    house.send("a", BODY)
    session = house.session
    house.broker.drop(session, 0.0)
    house.broker.commits.pressed("")
    house.rest()
    assert session.is_blocked  # nobody told it: it is gone
    assert "a" not in house.host.queues or not house.queue("a").state.index.count
    house.store.close()


ALARMS = {
    "disk": lambda broker, is_on: broker.commits.pressed("the disk is full" if is_on else ""),
    "memory": lambda broker, is_on: broker.rounds.weigh(900 if is_on else 100),
}


@pytest.mark.parametrize("alarm", ALARMS)
def test_whoever_connects_anew_for_each_message_waits_with_the_first(
    tmp_path: Path, alarm: str
) -> None:
    limits = BrokerSettings(memory_limit=1000, memory_alarm_percent=50)
    house = House(tmp_path, Settings(broker=limits))
    house.send("a", BODY)
    house.rest()
    ALARMS[alarm](house.broker, True)
    for name in ("new", "a"):  # a queue that is not there yet, and one that takes all
        for _ in range(3):
            house.session = house.broker.open(house.host, house.session.identity, 0.0)
            house.send(name, BODY, receipt=name)
            house.rest()
            assert house.session.is_blocked and house.receipts == []
            house.broker.drop(house.session, 0.0)
    house.session = house.broker.open(house.host, house.session.identity, 0.0)
    house.send("a", BODY, receipt="patient")
    ALARMS[alarm](house.broker, False)
    house.rest()
    assert house.receipts == ["patient"]
    assert house.queue("a").state.index.count == 2
    house.store.close()


def test_those_who_wait_for_a_cause_that_ended_go_on_past_those_who_wait_for_another(
    tmp_path: Path,
) -> None:
    limits = BrokerSettings(memory_limit=1000, memory_alarm_percent=50)
    house = House(tmp_path, Settings(broker=limits))
    house.send("a", BODY)
    house.rest()
    house.broker.commits.pressed("the disk is full")
    house.broker.rounds.weigh(900)
    keeping = house.session
    house.send("a", BODY)
    house.session = house.broker.open(house.host, keeping.identity, 0.0)
    house.send("a", BODY, persistent=False)
    assert keeping.is_blocked and house.session.is_blocked
    house.broker.rounds.weigh(100)
    house.rest()
    assert keeping.blocked_on == "the disk is full"
    assert not house.session.is_blocked
    house.store.close()


def test_a_transaction_that_only_settles_waits_for_no_alarm(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.send("a", BODY)
    house.rest()
    reader = house.reader("a")
    house.rest()
    house.broker.commits.pressed("the disk is full")
    transaction = house.broker.transactions.begin(house.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    house.broker.transactions.commit(house.session, "t", 0.0, lambda: house.receipts.append("t"))
    house.rest()
    assert house.receipts == ["t"] and not house.session.is_blocked
    house.store.close()


def test_a_transaction_waits_whole_and_is_taken_whole(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.broker.commits.pressed("the disk is full")
    transaction = house.broker.transactions.begin(house.session, "t")
    for name in ("a", "b"):
        transaction.send((Destination(Kind.QUEUE, name),), Note(BODY))
    house.broker.transactions.commit(house.session, "t", 0.0, lambda: house.receipts.append("t"))
    house.rest()
    assert house.session.is_blocked and house.receipts == []
    house.broker.commits.pressed("")
    house.rest()
    assert house.receipts == ["t"]
    assert [house.queue(name).state.index.count for name in ("a", "b")] == [1, 1]
    house.store.close()


@pytest.mark.parametrize("end", ["settled", "enough"])
def test_while_memory_is_short_nothing_is_read_for_a_queue_whose_readers_hold_much(
    tmp_path: Path, end: str
) -> None:
    windows = {"memory_window_queue": 2000, "memory_window_total": 2000}
    limits = BrokerSettings.model_validate(windows | {"memory_limit": 1000})
    house = House(tmp_path, Settings(broker=limits))
    for number in range(2000):
        house.send("a", b"%1000d" % number)
    house.rest()
    state = house.queue("a").storage_state
    assert state.out > 1900
    house.broker.rounds.weigh(900)
    reader = house.reader("a", 10_000)
    for _ in range(5):
        house.rest()
        house.broker.rounds.weigh(900)
    held = len(reader.unsettled)
    assert 0 < held < 1000  # a page or two
    if end == "enough":
        house.broker.rounds.weigh(100)
        house.rest()
        house.broker.rounds.weigh(100)
        house.rest()
    else:
        while len(reader.entries) < 2000:
            before = len(reader.entries)
            for entry in list(reader.unsettled.values()):
                house.settle(entry)
            house.rest()
            house.broker.rounds.weigh(900)
            assert len(reader.entries) > before
    assert len(reader.entries) == 2000
    house.store.close()
