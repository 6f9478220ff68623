"""How long ago a number was given, told from one note a second."""

from __future__ import annotations

from covey.core.queue.counters import NOTES_MAX, Ages


def test_the_age_of_a_number_is_that_of_the_first_note_above_it() -> None:
    ages = Ages()
    ages.note(11, 100.0)  # 1..10 by 100
    ages.note(21, 105.0)  # 11..20 by 105
    assert ages.age(10, 110.0) == 10.0
    assert ages.age(11, 110.0) == 5.0
    assert ages.age(20, 110.0) == 5.0


def test_the_last_of_a_burst_is_as_old_as_the_last_note_however_long_nothing_comes() -> None:
    ages = Ages()
    assert ages.age(1, 50.0) == 0.0
    ages.note(2, 50.0)
    ages.note(9, 50.4)  # too soon, and then silence
    assert ages.age(8, 3650.0) == 3600.0


def test_notes_are_at_least_a_second_apart_and_only_when_something_came() -> None:
    ages = Ages()
    ages.note(2, 10.0)
    ages.note(3, 10.5)  # too soon: 2 counts with the next note
    ages.note(3, 11.5)
    ages.note(3, 20.0)  # nothing came
    assert ages.age(2, 30.0) == 18.5


def test_notes_are_bounded_and_the_newest_stay_exact() -> None:
    ages = Ages()
    total = NOTES_MAX * 5
    for second in range(1, total):
        ages.note(second * 10, float(second))
    assert len(ages._times) <= NOTES_MAX
    assert ages.age((total - 1) * 10 - 1, float(total)) == 1.0
    old = ages.age(5, float(total))
    assert 0 < old <= total
