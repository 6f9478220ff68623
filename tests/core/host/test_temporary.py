"""Whose a temporary destination is, and who may do what with it."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from covey.core.host.temporary import (
    ENDED,
    NOBODY,
    SENDABLE_MAX,
    UNKNOWN,
    admitted,
    check_readable,
    claim,
    owner_of,
)
from covey.core.naming.destination import Destination, Kind
from covey.core.session import TEMPORARY_MAX
from tests.core.double import Room, places


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("/queue/temp.default.23.x", 23),
        ("/topic/temp.default.23.a.b", 23),
        ("/queue/temp", NOBODY),
        ("/queue/temperature.x", NOBODY),
        ("/dsub/temp.default.23.x", NOBODY),
        ("/queue/temp.x", UNKNOWN),
        ("/queue/temp.other.23.x", UNKNOWN),
        ("/queue/temp.default.x.y", UNKNOWN),
        ("/queue/temp.**", UNKNOWN),
        ("/queue/**", NOBODY),
    ],
)
def test_the_name_says_whose_it_is(text: str, owner: int) -> None:
    (destination,) = places(text)
    assert owner_of(destination, "default", "") == owner


@pytest.mark.parametrize(
    ("name", "owner"), [("23-ab", 23), ("23-ac", ENDED), ("23", ENDED), ("-ab", UNKNOWN)]
)
def test_a_name_of_an_earlier_run_is_nobody_s_any_more(name: str, owner: int) -> None:
    (destination,) = places(f"/queue/temp.default.{name}.x")
    assert owner_of(destination, "default", "ab") == owner


def test_an_answer_to_who_asked_an_earlier_run_reaches_nobody_else() -> None:
    room = Room()
    room.broker.run_mark = "new"
    asker, server = room.enter(), room.enter()
    assert asker.session.own_id == f"{asker.session.id}-new"
    asker.read(f"/queue/temp.default.{asker.session.own_id}.x")
    old = places(f"/queue/temp.default.{asker.session.id}-old.x")
    assert admitted(server.session, old, "default", room.broker.sessions) == ()
    with pytest.raises(RefusedError, match="no other"):
        check_readable(asker.session, old[0], "default")


def test_only_the_owner_may_read() -> None:
    room = Room()
    first, second = room.enter(), room.enter()
    name = Destination(Kind.QUEUE, f"temp.default.{first.session.id}.x")
    check_readable(first.session, name, "default")
    assert name in first.session.temporary
    with pytest.raises(RefusedError, match="no other"):
        check_readable(second.session, name, "default")


def test_a_target_that_is_gone_is_left_out() -> None:
    room = Room()
    first, second = room.enter(), room.enter()
    targets = places(f"/queue/temp.default.{first.session.id}.x,/queue/a")
    assert admitted(second.session, targets, "default", room.broker.sessions) == targets[1:]
    first.read(f"/queue/temp.default.{first.session.id}.x")
    assert admitted(second.session, targets, "default", room.broker.sessions) == targets
    room.broker.drop(first.session, room.now)
    assert admitted(second.session, targets, "default", room.broker.sessions) == targets[1:]


def test_what_was_allowed_is_remembered_within_bounds() -> None:
    session = Room().enter().session
    for number in range(3 * SENDABLE_MAX):
        admitted(session, (Destination(Kind.QUEUE, f"q{number}"),), "default", {})
    assert len(session.sendable) <= SENDABLE_MAX


def test_a_session_that_names_a_new_one_for_each_request_does_not_remember_them_all() -> None:
    room = Room()
    person = room.enter()
    prefix = f"/queue/temp.default.{person.session.id}"
    person.read(f"{prefix}.kept")
    for number in range(5000):
        (place,) = places(f"{prefix}.{number}")
        claim(person.session, place)
    assert len(person.session.temporary) <= TEMPORARY_MAX
    assert places(f"{prefix}.kept")[0] in person.session.temporary
