"""The store's book of queues: those that end, come back, or never were to stay."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.broker.broker import Broker
from covey.core.host import queue_factory as numbers
from covey.core.management.admin import Admin
from covey.core.management.reload import reconfigure
from covey.core.storage.memory import MemoryStore
from tests.core.storage.sqlite.support import ADMIN, House, Note, bodies, small_windows

BODY = b"x" * 100
LATER_MS = 10**15


def _assert_new_alone_is_kept(house: House) -> None:
    """Look after a restart for the one message that was confirmed."""
    assert house.receipts == ["new"]
    house = house.restart()
    reader = house.reader("a")
    house.rest()
    assert bodies(reader) == [b"new"]
    house.store.close()


def test_a_message_to_a_queue_that_was_just_deleted_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.send("a", b"old")
    house.rest()
    house.send("a", b"deleted before the disk has it")
    house.host.delete_queue("a", "deleted")
    house.send("a", b"new", receipt="new")  # the same turn, so one commit
    house.rest()
    _assert_new_alone_is_kept(house)


def test_a_message_that_waited_for_room_in_a_deleted_queue_is_kept(tmp_path: Path) -> None:
    full = QueueSettings(id="a", quota_messages=1)
    house = House(tmp_path, Settings(queue=(full,)))
    house.send("a", b"old")
    house.rest()
    house.send("a", b"new", receipt="new")
    house.rest()
    assert house.receipts == []
    house.host.delete_queue("a", "deleted")
    house.rest()
    _assert_new_alone_is_kept(house)


def test_a_delayed_message_to_a_queue_that_was_just_deleted_is_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    for body in (b"old", b"new"):
        note = Note(body)
        note.due_ms = LATER_MS
        house.publish("a", note, body.decode())
        house.rest()
        if body == b"old":
            house = house.restart()  # so that it is in the tables
            house.host.delete_queue("a", "deleted")
    assert house.receipts == ["new"]
    house = house.restart()
    assert house.queue("a").timers.delayed.count == 1
    house.store.close()


def test_numbers_of_queues_that_ended_for_good_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "REMEMBERED_MAX", 1)
    house = House(tmp_path)
    for name in ("a", "b", "temp.default.1.x", "c", "temp.default.1.y", "d"):
        house.send(name, b"x")
        house.rest()
        house.host.delete_queue(name, "deleted")
        house.rest()
    house.send("e", b"y")
    house.rest()
    house = house.restart()
    assert max(record.number for record in house.store.queues()) < 5
    house = house.restart()
    assert list(house.host.queues) == ["e"]
    assert house.queue("e").state.index.count == 1
    house.store.close()


def test_a_temporary_queue_keeps_nothing_whatever_its_policy_becomes(tmp_path: Path) -> None:
    house = House(tmp_path)
    name = f"temp.default.{house.session.id}.x"
    policy = QueueSettings(id="**", nak_limit=3)
    house.send(name, b"x")
    reconfigure([house.broker], Settings(queue=(policy,)), house.now)
    house.send(name, b"y")
    house.rest()
    assert house.queue(name).settings.nak_limit == 3
    admin = Admin(house.broker, house.host, ADMIN)
    admin.update("queue", name, {"qpid.max_count": 9}, house.now)
    house.rest()
    house = house.restart()
    assert (list(house.store.messages()), house.store.queues()) == ([], [])
    house.store.close()


@pytest.mark.parametrize("name", ["a", "temp.default.1.x"])
def test_deleted_queue_leaves_nothing_in_the_scratch_file(tmp_path: Path, name: str) -> None:
    house = House(tmp_path, small_windows(len(BODY), 10 * len(BODY)))
    for _ in range(300):
        house.send(name, BODY, persistent=False)
    house.rest()
    assert house.queue(name).storage_state.out
    house.host.delete_queue(name, "deleted")
    house.rest()
    house.store.close()
    with closing(sqlite3.connect(tmp_path / "scratch.db")) as scratch:
        assert scratch.execute("select count(*) from spilled").fetchone() == (0,)


def test_named_records_come_back_and_whoever_made_them_is_answered_when_they_are_safe(
    tmp_path: Path,
) -> None:
    house = House(tmp_path)
    ledger = house.broker.commits.ledger
    ledger.put("default", "kind", "a", "1")
    ledger.put("default", "kind", "b", "2")
    ledger.take_away("default", "kind", "b")
    ledger.put("default", "another", "a", "3")
    house.broker.promises.after(house.session, lambda: house.receipts.append("safe"))
    assert house.receipts == []
    house.rest()
    assert house.receipts == ["safe"]
    ledger = house.restart().broker.commits.ledger
    assert ledger.records_of("default", "kind") == {"a": "1"}
    assert ledger.records_of("default", "another") == {"a": "3"}
    assert ledger.records_of("other", "kind") == {}


def test_without_a_store_named_records_last_as_long_as_the_process() -> None:
    broker = Broker(Settings(), MemoryStore(), {})
    session = broker.open(broker.host, ADMIN, 0.0)
    answered: list[str] = []
    broker.commits.ledger.put("default", "park", "a", "1")
    broker.promises.after(session, lambda: answered.append("at once"))
    assert answered == ["at once"]
    assert broker.commits.ledger.records_of("default", "park") == {"a": "1"}
