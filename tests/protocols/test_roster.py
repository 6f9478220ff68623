"""An address may have only so many connections that have not logged in."""

from __future__ import annotations

from covey.protocols.roster import Strangers
from tests.protocols.support import SilentEngine


def test_an_address_is_refused_once_it_has_enough_strangers() -> None:
    strangers = Strangers(2)
    engines = [SilentEngine() for _ in range(3)]
    assert [strangers.admit("a", engine) for engine in engines] == [True, True, False]
    assert strangers.admit("b", engines[2])


def test_a_login_makes_room() -> None:
    strangers = Strangers(1)
    first, second = SilentEngine(), SilentEngine()
    assert strangers.admit("a", first)
    first.is_stranger = False
    assert strangers.admit("a", second)


def test_an_end_makes_room_and_leaves_nothing_behind() -> None:
    strangers = Strangers(1)
    first, second = SilentEngine(), SilentEngine()
    assert strangers.admit("a", first)
    strangers.forget("a", first)
    assert strangers._by_address == {}
    assert strangers.admit("a", second)
    strangers.forget("b", second)
