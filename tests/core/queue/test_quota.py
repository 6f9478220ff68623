"""Quotas by messages and by bytes, and what each policy does at the limit."""

from __future__ import annotations

import pytest

from covey.config.queues import QueueSettings
from covey.core.errors import RefusedError
from covey.core.model.entry import Outcome
from covey.core.queue.queue import Queue
from covey.core.queue.quota import has_room, oldest_available, take_room, why_full
from tests.core.double import Room
from tests.core.support import depth


def queue(held: int = 2, *, credit: int = 0, **options: object) -> Queue:
    """Make a queue that holds so many messages of ten bytes; `credit` of them are acquired."""
    settings = QueueSettings.model_validate({"id": "a", **options})
    room = Room(settings)
    person = room.enter()
    person.read("/queue/a", credit=credit)
    for number in range(held):
        person.send("/queue/a", str(number), size=10)
    return room.broker.host.queues["a"]


def test_a_queue_without_limits_has_no_quota() -> None:
    assert not queue().has_quota
    assert queue(quota=100).has_quota and queue(quota_messages=5).has_quota


def test_what_fits_exactly_is_fine() -> None:
    assert has_room(queue(quota=30), 1, 10)
    assert not has_room(queue(quota=30), 1, 11)
    assert has_room(queue(quota_messages=3), 1, 0)
    assert not has_room(queue(quota_messages=3), 2, 0)


def test_what_can_never_fit_is_refused() -> None:
    with pytest.raises(RefusedError, match="can never fit queue a, whose quota is 30 bytes"):
        has_room(queue(quota=30), 1, 31)
    with pytest.raises(RefusedError, match="3 messages"):
        has_room(queue(quota_messages=3), 4, 0)


def test_reject_says_no_with_the_figures() -> None:
    full = queue(quota=20, quota_messages=9, full_policy="reject")
    with pytest.raises(RefusedError) as caught:
        has_room(full, 1, 1)
    assert caught.value.text == why_full(full)
    assert caught.value.text == (
        "queue a is full: it holds 2 messages, 20 bytes, its quota is 9 messages and 20 bytes"
    )


def test_looking_for_room_drops_nothing() -> None:
    full = queue(quota_messages=2, full_policy="drop head")
    assert has_room(full, 1, 10)
    assert depth(full) == 2


def test_drop_head_gives_up_the_oldest_that_are_free() -> None:
    full = queue(3, credit=1, quota_messages=3, full_policy="drop head")
    assert take_room(full, 10)
    assert [entry.seq for entry in full.state.index] == [1, 3]
    assert full.counters.dropped == 1


def test_drop_head_gives_up_what_waits_for_its_retry_like_anything_older() -> None:
    full = queue(3, credit=1, quota_messages=3, full_policy="drop head", redelivery_delay_ms=500)
    assert take_room(full, 10)
    (held,) = [entry for entry in full.state.index if entry.holder is not None]
    full.settle(held, Outcome.FAILED, 0.0)
    oldest = oldest_available(full)
    assert oldest is held


def test_drop_head_cannot_give_up_what_consumers_hold() -> None:
    full = queue(2, credit=2, quota_messages=2, full_policy="drop head")
    with pytest.raises(RefusedError):
        has_room(full, 1, 1)


def test_drop_head_gives_up_as_many_as_the_newcomer_needs() -> None:
    full = queue(3, quota=30, full_policy="drop head")
    assert has_room(full, 1, 25)
    assert take_room(full, 25)
    assert full.size == 0


def test_drop_tail_gives_up_the_newcomer() -> None:
    full = queue(2, quota_messages=2, full_policy="drop tail")
    assert has_room(full, 1, 1)
    assert not take_room(full, 1)
    counts = full.counters
    assert (counts.enqueued, counts.dropped, depth(full)) == (3, 1, 2)
