"""The collector: no walk is long, and nothing that has ended stays for ever.

Each test has a process of its own: the interpreter has one garbage collector for everything.
"""

from __future__ import annotations

import gc
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from covey.core.jobs.turn_length import TurnLengths
from covey.server.collector import OLD_MAX, PATIENCE, SHORT_S, THRESHOLDS, Collector
from tests.doubles import Heard

MANY = 500_000
EVERY_S = 60.0
YOUNG_MAX = (THRESHOLDS[0] + 1) * (THRESHOLDS[1] + 2)


class Ring:
    """A cycle of one."""

    def __init__(self) -> None:
        self.myself = self


class Case:
    """A collector at work, and the time."""

    def __init__(self) -> None:
        self.lengths = TurnLengths(lambda: self.now, Heard())
        self.collector = Collector(self.lengths)
        self.now = 1.0
        self.collector.begin(self.now)

    def pass_by(self, seconds: float, busy_share: float = 0.0) -> None:
        """Let time pass, with so much of each second in turns."""
        for _ in range(int(seconds)):
            self.lengths.begin("STOMP")
            self.now += busy_share
            self.lengths.end()
            self.now += 1.0 - busy_share
            self.collector.look(self.now, EVERY_S)


def alone(find: Callable[[], object]) -> object:
    """Return what `find` finds in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(find).result()


def most_to_walk() -> int:
    """Return how many objects a collection may have to walk while very many are made."""
    Case()
    kept: list[list[int]] = []
    most = 0
    for number in range(MANY):
        kept.append([number])
        if number % 1000 == 0:
            most = max(most, len(gc.get_objects()))
    return most


def most_to_walk_in_turnover() -> int:
    """Return the same while an old object goes for each new one, in turns of a millisecond."""
    line = deque([number] for number in range(MANY))
    case = Case()
    most = 0
    for start in range(0, MANY, 1000):
        case.lengths.begin("STOMP")
        for number in range(start, start + 1000):
            line.append([number])
            line.popleft()
        case.now += 0.001
        most = max(most, len(gc.get_objects()))
        case.lengths.end()
    return most


def dropped_ring(case: Case) -> weakref.ref[Ring]:
    """Return a cycle that was frozen, and then dropped."""
    ring = Ring()
    gc.freeze()
    found = weakref.ref(ring)
    del ring
    gc.collect()
    assert found() is not None
    return found


def lives_after(seconds: float, busy_share: float, whole_s: float) -> bool:
    """Return whether a dropped cycle is still there."""
    case = Case()
    ring = dropped_ring(case)
    case.collector.whole_s = whole_s
    case.pass_by(seconds, busy_share)
    return ring() is not None


def lives_while_quiet() -> list[bool]:
    """Look just before the time has come, and after."""
    return [lives_after(seconds, 0.0, 1.0) for seconds in (EVERY_S - 2, EVERY_S + 1)]


def lives_while_busy() -> list[bool]:
    """Look before patience ends, and after."""
    return [lives_after(PATIENCE * EVERY_S + more, 0.5, 1.0) for more in (-2, 1)]


def lives_while_busy_and_small() -> list[bool]:
    """Look where a walk holds nobody up."""
    return [lives_after(EVERY_S + 1, 0.5, SHORT_S / 2)]


def test_no_walk_is_long_however_many_objects_there_are() -> None:
    assert 0 < int(str(alone(most_to_walk))) < OLD_MAX + 2 * YOUNG_MAX < MANY


def test_no_walk_is_long_while_a_long_line_moves_on() -> None:
    assert 0 < int(str(alone(most_to_walk_in_turnover))) < OLD_MAX + 2 * YOUNG_MAX < MANY


def test_what_was_frozen_and_dropped_is_found_in_a_quiet_moment() -> None:
    assert alone(lives_while_quiet) == [True, False]


def test_a_broker_without_a_quiet_moment_waits_long_but_not_for_ever() -> None:
    assert alone(lives_while_busy) == [True, False]


def test_a_short_walk_needs_no_quiet_moment() -> None:
    assert alone(lives_while_busy_and_small) == [False]
