"""Lookout: a loop looks on where it pays, and rests where it does not, or others want the core."""

from __future__ import annotations

from covey.protocols.lookout import (
    LOOKS_COUNTED,
    REST_MAX_S,
    REST_S,
    STREAM_REST_S,
    STREAM_SIZE,
    TAKEN_MAX,
    TAKEN_REST_MAX_S,
    TRIES,
    Lookout,
    taken_away,
)

SMALL = 128


class Machine:
    """A lookout with its time, and with somebody who may take the core."""

    def __init__(self) -> None:
        self.now = 100.0
        self.taken = 0
        self.lookout = Lookout(lambda: self.taken)

    def looks(self) -> bool:
        """Read something small; say whether the loop looks on."""
        return self.lookout.begin(SMALL, self.now)

    def look_in_vain(self) -> int:
        """Read and find nothing after it until the loop rests; count the looks."""
        count = 0
        while self.looks():
            self.lookout.missed(self.now)
            count += 1
        return count

    def rest_s(self) -> float:
        """Let time pass until the loop looks again; return how long that was."""
        before = self.now
        while not self.looks():
            self.now += REST_S / 10
        self.lookout.missed(self.now)
        return self.now - before

    def rest_for_others(self) -> float:
        """Find something after each read, and lose the core each time; return the rest's length."""
        while self.looks():
            self.lookout.found()
            self.taken += 1
        before = self.now
        while not self.looks():
            self.now += REST_S / 10
        self.lookout.found()
        return self.now - before

    def pay(self, times: int) -> None:
        """Find something after each read."""
        for _ in range(times):
            assert self.looks()
            self.lookout.found()


def test_loop_goes_on_looking_while_looks_find_something() -> None:
    machine = Machine()
    machine.pay(10_000)
    assert machine.looks()


def test_loop_that_finds_nothing_soon_rests() -> None:
    machine = Machine()
    assert machine.look_in_vain() == 2
    machine.now += REST_S / 2
    assert not machine.looks()
    machine.now += REST_S
    assert machine.looks()


def test_loop_rests_when_fewer_than_half_of_its_looks_have_paid() -> None:
    machine = Machine()
    machine.pay(TRIES)
    assert machine.look_in_vain() == TRIES // 2 + 1
    machine.now += REST_MAX_S
    machine.pay(TRIES)
    for _ in range(100):
        machine.pay(1)
        assert machine.looks()
        machine.lookout.missed(machine.now)
    assert machine.looks(), "half of them is enough"


def test_each_rest_in_vain_is_longer_up_to_a_limit() -> None:
    machine = Machine()
    rests = []
    for _ in range(12):
        machine.look_in_vain()
        rests.append(machine.rest_s())
    assert rests == sorted(rests)
    assert rests[0] < 2 * REST_S
    assert REST_MAX_S * 0.99 < rests[-1] < REST_MAX_S * 1.01


def test_traffic_with_long_gaps_costs_a_few_looks_a_second() -> None:
    machine = Machine()
    looks = 0
    for _ in range(100_000):  # a hundred seconds of a message each millisecond
        if machine.looks():
            machine.lookout.missed(machine.now)
            looks += 1
        machine.now += 0.001
    assert looks < 25 * 100


def test_rests_are_short_again_once_looking_has_paid() -> None:
    machine = Machine()
    for _ in range(12):
        machine.look_in_vain()
        machine.rest_s()
    machine.look_in_vain()
    machine.now += REST_MAX_S
    machine.pay(TRIES)
    machine.look_in_vain()
    assert machine.rest_s() < 2 * REST_S


def test_nobody_looks_for_more_of_a_stream() -> None:
    machine = Machine()
    machine.pay(TRIES)
    assert not machine.lookout.begin(STREAM_SIZE, machine.now)
    assert not machine.looks(), "its answers are small reads"
    machine.now += STREAM_REST_S * 1.01
    assert machine.looks()


def test_stream_does_not_end_a_longer_rest() -> None:
    machine = Machine()
    for _ in range(12):
        machine.look_in_vain()
        machine.rest_s()
    machine.look_in_vain()
    machine.lookout.begin(STREAM_SIZE, machine.now)
    machine.now += STREAM_REST_S * 2
    assert not machine.looks()


def test_loop_whose_core_is_taken_often_rests_though_looking_pays() -> None:
    machine = Machine()
    rests = [machine.rest_for_others() for _ in range(12)]
    assert rests == sorted(rests)
    assert rests[0] < 2 * REST_S
    assert TAKEN_REST_MAX_S * 0.99 < rests[-1] < TAKEN_REST_MAX_S * 1.01


def test_rests_for_others_are_short_again_once_nobody_took_the_core() -> None:
    machine = Machine()
    for _ in range(12):
        machine.rest_for_others()
    machine.pay(2 * LOOKS_COUNTED)
    assert machine.rest_for_others() < 2 * REST_S


def test_core_that_is_taken_now_and_then_is_a_quiet_machines() -> None:
    machine = Machine()
    for _ in range(10):
        machine.pay(LOOKS_COUNTED)
        machine.taken += TAKEN_MAX


def test_what_was_taken_while_the_loop_rested_does_not_count() -> None:
    machine = Machine()
    machine.pay(3)
    machine.look_in_vain()
    machine.taken += 1000
    machine.now += REST_MAX_S
    machine.pay(LOOKS_COUNTED + 1)


def test_system_counts_how_often_it_took_the_core() -> None:
    assert 0 <= taken_away() <= taken_away()


def test_what_others_took_while_the_loop_was_at_work_does_not_count() -> None:
    machine = Machine()
    machine.pay(LOOKS_COUNTED // 2)
    for _ in range(3):
        machine.taken += 1000  # beside a stream, which keeps both cores busy
        machine.lookout.begin(STREAM_SIZE, machine.now)
        machine.now += STREAM_REST_S * 1.01
        machine.pay(LOOKS_COUNTED // 2)
    machine.taken += 1000  # in a gap
    machine.now += 1.0
    machine.pay(10 * LOOKS_COUNTED)
