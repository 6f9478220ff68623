"""Where names go on counting, and what happens to those that were forgotten."""

from __future__ import annotations

import pytest

from covey.core.host import queue_factory as numbers
from covey.core.host.queue_factory import Numbers


def test_a_name_goes_on_where_it_stopped_and_a_new_one_begins_at_one() -> None:
    known = Numbers()
    assert known.keep("a", 8) == ""
    assert (known.take("a"), known.take("b")) == (8, 1)


def test_a_forgotten_name_begins_above_all_it_ever_gave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "REMEMBERED_MAX", 2)
    known = Numbers()
    known.keep("a", 8)
    known.keep("b", 5)
    assert known.keep("c", 3) == "a"
    assert (known.take("a"), known.take("new"), known.take("b")) == (8, 8, 5)


def test_a_restart_brings_names_and_the_floor_back() -> None:
    known = Numbers()
    known.recall("a", 4, is_floor=False)
    known.recall("", 9, is_floor=True)
    known.recall("", 7, is_floor=True)
    assert (known.take("a"), known.take("b")) == (4, 9)
