"""Batches: what they hold when they meet, and what an emptied queue takes along."""

from __future__ import annotations

from covey.core.storage.changes import Changes
from covey.core.storage.packing import place_of
from tests.core.storage.sqlite.support import Note


def test_a_batch_that_names_rows_says_so() -> None:
    assert not Changes().names_rows
    for change in ("moves", "retries", "emptied"):
        changes, later = Changes(), Changes()
        if change == "emptied":
            later.empty(1)
        else:
            getattr(later, change)[1] = 2
        changes.add(later)
        assert changes.names_rows


def test_what_is_emptied_takes_with_it_what_came_before_and_nothing_else() -> None:
    mine, other = place_of(1, 5), place_of(2, 5)
    changes, later = Changes(), Changes()
    for place in (mine, other):
        changes.arrive(place, "", Note(b"x"))
        changes.spill(place, Note(b"x"))
        changes.ids[place] = b"digest"
        changes.retries[place] = changes.moves[place] = 1
        changes.deletions.append(place)
        changes.unspills.append(place)
    changes.forget_ids(1, 3)
    later.empty(1)
    later.arrive(mine, "", Note(b"later"))
    later.ids[place_of(1, 1)] = b"digest"
    changes.add(later)
    assert (changes.emptied, changes.forgotten) == ({1}, {})
    assert set(changes.arrivals) == {mine, other}
    assert set(changes.ids) == {place_of(1, 1), other}
    for left in (changes.spills, changes.retries, changes.moves):
        assert set(left) == {other}
    assert (changes.deletions, changes.unspills) == ([other], [other])


def test_ids_forgotten_are_not_written() -> None:
    changes, later = Changes(), Changes()
    for queue, number in ((1, 1), (1, 2), (2, 1)):
        changes.ids[place_of(queue, number)] = b"digest"
    later.forget_ids(1, 2)
    changes.add(later)
    assert list(changes.ids) == [place_of(1, 2), place_of(2, 1)]
