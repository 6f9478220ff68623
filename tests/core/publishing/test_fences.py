"""Fences: a transaction that is committed again changes nothing, also over a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.queues import QueueSettings
from covey.core.errors import RefusedError
from covey.core.model.entry import Outcome
from covey.core.publishing import fences
from covey.core.publishing.fences import Fence, parse_fence
from tests.core.double import HeldStore, Person, Room, letter, places
from tests.core.storage.sqlite.support import House, Note


def commit(room: Room, person: Person, text: str, queue: str = "a") -> list[str]:
    """Send one message in a transaction with a fence; return what is done of it."""
    done: list[str] = []
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.send(places(f"/queue/{queue}"), letter(text, persistent=True))
    fence = parse_fence("admin", text)
    ended = room.broker.transactions.commit
    ended(person.session, "t", room.now, lambda: done.append(text), fence=fence)
    return done


def test_only_a_higher_number_of_a_name_is_committed() -> None:
    room = Room()
    person = room.enter()
    for text in ("q/0:5", "q/0:5", "q/0:4", "q/1:4", "q/0:6"):
        assert commit(room, person, text) == [text]
    assert person.read("/queue/a").names == ["q/0:5", "q/1:4", "q/0:6"]
    assert person.session.transactions == {}


def test_who_commits_again_is_answered_when_the_first_commit_is_safe() -> None:
    store = HeldStore()
    room = Room(store=store)
    first = commit(room, room.enter(), "q:1")
    room.broker.run(room.now)
    again = commit(room, room.enter(), "q:1")
    room.broker.run(room.now)
    assert (first, again) == ([], [])
    for _ in range(2):
        store.write()
        room.broker.run(room.now)
    assert (first, again, room.depth("a")) == (["q:1"], ["q:1"], 1)


def test_a_commit_that_waits_for_room_is_dropped_if_another_has_passed_meanwhile() -> None:
    room = Room(QueueSettings(id="a", quota_messages=1))
    first, second = room.enter(), room.enter()
    first.send("/queue/a", "full")
    waiting = [commit(room, first, "q:1"), commit(room, second, "q:1")]
    assert waiting == [[], []]
    reader = room.enter().read("/queue/a")
    for _ in range(3):
        for entry in list(reader.unsettled.values()):
            room.broker.host.queues["a"].settle(entry, Outcome.ACCEPTED, room.now)
        room.broker.run(room.now)
    assert (waiting, reader.names) == ([["q:1"], ["q:1"]], ["full", "q:1"])


def test_a_fence_is_remembered_over_a_restart(tmp_path: Path) -> None:
    house = House(tmp_path)
    for _ in range(2):
        transaction = house.broker.transactions.begin(house.session, "t")
        transaction.send(places("/queue/a"), Note(b"once"))
        fence = Fence("admin/q", 7)
        house.broker.transactions.commit(house.session, "t", house.now, fence=fence)
        house.rest()
        house = house.restart()
    assert house.queue("a").state.index.count == 1
    house.store.close()


def test_the_names_that_are_used_least_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "NAMES_MAX", 2)
    room = Room()
    person = room.enter()
    for text in ("a:1", "b:1", "a:2", "c:1", "a:2", "b:1"):
        commit(room, person, text)
    assert person.read("/queue/a").names == ["a:1", "b:1", "a:2", "c:1", "b:1"]


@pytest.mark.parametrize("text", ["", "q", ":1", "q:", "q:-1", "q:x", "q:" + "9" * 19, "q" * 300])
def test_what_is_no_fence_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="covey-fence is NAME:NUMBER"):
        parse_fence("admin", text)


def test_a_fence_is_for_sends_only_and_a_name_belongs_to_its_user() -> None:
    room = Room()
    person = room.enter()
    reader = person.read("/queue/a")
    person.send("/queue/a", "1")
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    with pytest.raises(RefusedError, match="sends only"):
        room.broker.transactions.commit(person.session, "t", room.now, fence=Fence("q", 1))
    assert list(reader.unsettled) == [1]
    assert parse_fence("alice", "q:1").name != parse_fence("bob", "q:1").name


def test_a_long_transaction_with_a_fence_is_carried_out_at_once() -> None:
    room = Room(limits={"work_portion": 2})
    person = room.enter()
    for _ in range(2):
        transaction = room.broker.transactions.begin(person.session, "t")
        for name in "12345":
            transaction.send(places("/queue/a"), letter(name))
        room.broker.transactions.commit(person.session, "t", room.now, fence=Fence("q", 1))
        assert (room.depth("a"), person.session.transactions) == (5, {})
