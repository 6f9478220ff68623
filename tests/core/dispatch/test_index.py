"""The index: by number, in order, and small again after everything is gone."""

from __future__ import annotations

from covey.core.dispatch.index import PAGE_SIZE, Index
from covey.core.dispatch.lane import Lane
from covey.core.model.entry import PENDING, Entry
from tests.doubles import Letter

LANE = Lane("g")


def filled(*numbers: int) -> Index:
    index = Index()
    for seq in numbers:
        index.add(Entry(seq, Letter(), LANE, PENDING))
    return index


def test_an_entry_is_found_by_its_number_until_it_is_removed() -> None:
    index = filled(1, 2)
    entry = index.get(2)
    assert entry is not None and entry.seq == 2
    index.remove(2)
    assert index.get(2) is None
    assert index.count == 1


def test_a_walk_is_in_order_over_gaps_of_whole_pages() -> None:
    numbers = [3, PAGE_SIZE - 1, PAGE_SIZE, 40 * PAGE_SIZE + 7]
    assert [entry.seq for entry in filled(*numbers)] == numbers


def test_at_or_after_finds_the_next_one_whatever_was_removed_between() -> None:
    index = filled(*range(1, 3 * PAGE_SIZE))
    for seq in range(5, 2 * PAGE_SIZE + 5):
        index.remove(seq)
    found = index.at_or_after(5)
    assert found is not None and found.seq == 2 * PAGE_SIZE + 5
    assert index.at_or_after(3 * PAGE_SIZE) is None


def test_a_page_in_the_middle_of_the_number_starts_at_its_first_place() -> None:
    index = filled(PAGE_SIZE + 2)
    found = index.at_or_after(200)
    assert found is not None and found.seq == PAGE_SIZE + 2


def test_empty_pages_are_let_go() -> None:
    index = filled(*range(1, 20 * PAGE_SIZE))
    for seq in range(1, 20 * PAGE_SIZE):
        index.remove(seq)
    assert index.count == 0
    assert len(index._pages) == 1
    index.add(Entry(30 * PAGE_SIZE, Letter(), LANE, PENDING))
    assert [entry.seq for entry in index] == [30 * PAGE_SIZE]
