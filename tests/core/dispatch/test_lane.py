"""The lane: a FIFO through its entries, and returns at their place."""

from __future__ import annotations

from covey.core.dispatch.index import Index
from covey.core.dispatch.lane import Lane
from covey.core.model.entry import ACQUIRED, GONE, PENDING, Entry
from tests.doubles import Letter


class Filled:
    def __init__(self, count: int) -> None:
        self.lane = Lane("g")
        self.index = Index()
        self.entries = [Entry(seq, Letter(), self.lane, PENDING) for seq in range(1, count + 1)]
        for entry in self.entries:
            self.lane.append(entry)
            self.index.add(entry)

    def take(self) -> int:
        head = self.lane.find_head(self.index)
        assert head is not None
        self.lane.pop(head, self.index)
        head.state = ACQUIRED
        return head.seq

    def give_back(self, seq: int) -> None:
        entry = self.entries[seq - 1]
        entry.state = PENDING
        self.lane.put_back(entry)

    def drop(self, seq: int) -> None:
        entry = self.entries[seq - 1]
        entry.state = GONE
        self.index.remove(seq)
        if entry is not self.lane.first:
            self.lane.bury(entry)


def test_messages_leave_in_the_order_they_came() -> None:
    filled = Filled(3)
    assert [filled.take() for _ in range(3)] == [1, 2, 3]
    assert filled.lane.find_head(filled.index) is None


def test_a_returned_message_goes_back_to_its_place() -> None:
    filled = Filled(4)
    assert [filled.take() for _ in range(3)] == [1, 2, 3]
    filled.give_back(3)
    filled.give_back(1)
    assert [filled.take() for _ in range(3)] == [1, 3, 4]


def test_a_gone_entry_is_passed_wherever_it_stands() -> None:
    filled = Filled(4)
    filled.take()
    filled.give_back(1)
    for seq in (1, 3):
        filled.drop(seq)
    assert [filled.take() for _ in range(2)] == [2, 4]


def test_relink_keeps_the_living_and_the_end_stays_open() -> None:
    filled = Filled(5)
    for seq in (1, 2, 5):
        filled.drop(seq)
    filled.lane.relink(filled.index)
    late = Entry(6, Letter(), filled.lane, PENDING)
    filled.index.add(late)
    filled.lane.append(late)
    assert [filled.take() for _ in range(3)] == [3, 4, 6]


def test_an_emptied_lane_can_be_filled_again() -> None:
    filled = Filled(1)
    filled.take()
    late = Entry(2, Letter(), filled.lane, PENDING)
    filled.index.add(late)
    filled.lane.append(late)
    assert filled.take() == 2
