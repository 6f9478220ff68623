"""All or nothing, in order, and safe before anybody is told so."""

from __future__ import annotations

import pytest

from covey.config.queues import GroupSettings, QueueSettings
from covey.core.errors import RefusedError
from covey.core.model.entry import Outcome
from covey.core.publishing.publishing import ENDED_AT_ONCE
from tests.core.double import START_S, HeldStore, Room, letter, places
from tests.core.support import groups_shown


def test_a_message_is_done_only_when_the_store_has_it() -> None:
    store = HeldStore()
    room = Room(store=store)
    person = room.enter()
    reader = person.read("/queue/a")
    store.write()
    done = person.send("/queue/a", "x", persistent=True)
    assert (done, reader.names) == ([], [])
    store.write()
    room.broker.run(room.now)
    assert (done, reader.names) == (["x"], ["x"])


def test_sends_and_settlements_of_a_transaction_are_one_batch() -> None:
    store = HeldStore()
    room = Room(store=store)
    person = room.enter()
    person.send("/queue/in", "in", persistent=True)
    reader = person.read("/queue/in")
    store.write()
    room.broker.run(room.now)
    store.write()
    transaction = room.broker.transactions.begin(person.session, "t")
    transaction.settle(reader.entries[0], Outcome.ACCEPTED, 1.0)
    transaction.send(places("/queue/out"), letter("out", persistent=True))
    done: list[str] = []
    room.broker.transactions.commit(person.session, "t", room.now, lambda: done.append("t"))
    assert (len(store.stored), len(store.deleted), done) == (2, 1, [])
    room.broker.transactions.begin(person.session, "t")  # the name is free at once
    room.broker.run(room.now)
    assert len(store.tickets) == 1
    store.write()
    assert done == ["t"]


def test_a_refused_target_refuses_them_all() -> None:
    room = Room(QueueSettings(id="full", quota_messages=1, full_policy="reject"))
    person = room.enter()
    person.send("/queue/full", "1")
    reader = person.read("/topic/t")
    with pytest.raises(RefusedError, match="queue full is full"):
        person.send("/queue/a,/topic/t,/queue/full", "2")
    assert (room.depth("a"), reader.names) == (0, [])


def test_a_waiting_composite_is_put_nowhere_until_all_have_room() -> None:
    room = Room(QueueSettings(id="full", quota_messages=1))
    person, other = room.enter(), room.enter()
    person.send("/queue/full", "1")
    done = person.send("/queue/a,/queue/full", "2")
    assert (done, room.depth("a"), person.session.is_blocked) == ([], 0, True)
    reader = other.read("/queue/full")
    other.settle(reader)
    assert (done, room.depth("a"), person.session.is_blocked) == (["2"], 1, False)


def test_work_moves_on_to_the_next_full_queue() -> None:
    room = Room(
        QueueSettings(id="one", quota_messages=1), QueueSettings(id="two", quota_messages=1)
    )
    person, other = room.enter(), room.enter()
    person.send("/queue/one,/queue/two", "1")
    done = person.send("/queue/one,/queue/two", "2")
    one = other.read("/queue/one", "1")
    other.settle(one)
    assert (done, room.depth("one")) == ([], 0)
    two = other.read("/queue/two", "2")
    other.settle(two)
    assert done == ["2"]
    assert (one.names, two.names) == (["1", "2"], ["1", "2"])


def test_a_transaction_counts_as_a_whole_against_a_quota() -> None:
    room = Room(QueueSettings(id="a", quota_messages=2))
    person, other = room.enter(), room.enter()
    person.send("/queue/a", "0")
    transaction = room.broker.transactions.begin(person.session, "t")
    for name in ("1", "2"):
        transaction.send(places("/queue/a"), letter(name))
    room.broker.transactions.commit(person.session, "t", START_S)
    assert (room.depth("a"), person.session.is_blocked) == (1, True)
    other.settle(other.read("/queue/a"))
    assert not person.session.is_blocked


def test_a_session_that_goes_takes_its_waiting_work_along() -> None:
    room = Room(QueueSettings(id="a", quota_messages=1))
    person, third = room.enter(), room.enter()
    person.send("/queue/a", "1")
    assert person.send("/queue/a", "2") == []
    done = third.send("/queue/a", "3")
    room.broker.drop(person.session, room.now)
    reader = third.read("/queue/a")
    third.settle(reader)
    assert (done, reader.names) == (["3"], ["1", "3"])


def test_a_later_refusal_is_the_waiting_senders_own() -> None:
    room = Room(QueueSettings(id="a", quota_messages=1))
    person, other = room.enter(), room.enter()
    host = room.broker.host
    host.make_durable("d")
    person.send("/queue/a", "1")
    done = person.send("/queue/a,/dsub/d", "2")
    host.delete_durable("d")
    other.settle(other.read("/queue/a"))
    assert done == []
    assert person.kicks == ["there is no durable subscription d"]
    assert other.kicks == []


def test_a_slow_subscriber_blocks_its_own_producers_only() -> None:
    room = Room()
    slow, producer, bystander = room.enter(), room.enter(), room.enter()
    reader = slow.read("/topic/a", credit=0)
    producer.send("/topic/a", "1", size=700 * 1024)
    bystander.send("/topic/b", "2", size=700 * 1024)
    assert (producer.session.is_blocked, bystander.session.is_blocked) == (True, False)
    reader.window.grant(1, 0)
    assert not producer.session.is_blocked


@pytest.mark.parametrize("mirrored", [True, False])
def test_a_mirrored_queues_policy_holds_for_its_topics_slow_subscribers(*, mirrored: bool) -> None:
    room = Room(QueueSettings(id="a", mirrored=mirrored, slow_consumer_policy="queue"))
    slow, producer = room.enter(), room.enter()
    slow.read("/topic/a", credit=0)
    producer.send("/topic/a", "1", size=700 * 1024)
    assert producer.session.is_blocked is not mirrored


def test_dead_letters_keep_the_name_of_their_queue() -> None:
    room = Room(QueueSettings(id="a.b", dlq="dead.*", dlq_expired=True))
    person = room.enter()
    person.send("/queue/a.b", "x", expires_ms=1)
    assert room.depth("dead.a.b") == 1


@pytest.mark.parametrize("name", ["dead/letters", "/queue/dead%2fletters"])
def test_a_dead_letter_queue_has_the_name_its_readers_use(name: str) -> None:
    room = Room(QueueSettings(id="a", dlq=name, dlq_expired=True))
    person = room.enter()
    person.send("/queue/a", "x", expires_ms=1)
    reader = person.read("/queue/dead/letters")
    assert reader.names == ["x"]


def test_a_dead_letter_is_kept_whatever_its_group_would_be_there() -> None:
    dead = QueueSettings(id="dead", groups=GroupSettings(header="name"))
    room = Room(QueueSettings(id="a", dlq="dead", nak_limit=1), dead)
    person = room.enter()
    reader = person.read("/queue/a")
    for name in ("x" * 2000, "short"):
        person.send("/queue/a", name)
    person.settle(reader, Outcome.FAILED)
    assert room.depth("a") == 0
    assert room.depth("dead") == 2
    groups = groups_shown(room.broker.host.queues["dead"])
    assert [each["group"] for each in groups] == ["short"]


def test_a_dead_letter_queue_that_was_deleted_is_made_again_for_the_next_dead_message() -> None:
    room = Room(QueueSettings(id="a", dlq="dead", dlq_expired=True), limits={"auto_create": False})
    room.broker.host.queue("a")
    person = room.enter("nobody who may create")
    for name in ("x", "y"):
        person.send("/queue/a", name, expires_ms=1)
        assert room.depth("dead") == 1, name
        room.broker.host.delete_queue("dead", "an operator did")


def test_a_dead_letter_finds_its_queue_even_if_there_are_as_many_queues_as_may_be() -> None:
    room = Room(QueueSettings(id="a", dlq="dead", dlq_expired=True), limits={"queues_max": 2})
    person = room.enter()
    person.send("/queue/a", "x", expires_ms=int(room.broker.clock.wall_ms) + 500)
    person.send("/queue/b", "other")
    room.wait(1.0)
    assert (room.depth("a"), room.depth("dead")) == (0, 1)
    with pytest.raises(RefusedError, match="queues_max"):
        person.send("/queue/c", "one too many")


def test_very_many_producers_that_wait_too_long_are_ended_in_portions() -> None:
    room = Room(QueueSettings(id="a", quota_messages=1))
    room.enter().send("/queue/a", "first")
    people = [room.enter() for _ in range(ENDED_AT_ONCE + 3)]
    for person in people:
        person.session.patience_s = 2.0
        person.send("/queue/a", "waits")
    room.broker.tick(room.now + 3.0)
    assert sum(bool(person.kicks) for person in people) == ENDED_AT_ONCE
    assert room.broker.tick(room.now + 3.0) > room.now + 3.0
    assert all(person.kicks for person in people)
