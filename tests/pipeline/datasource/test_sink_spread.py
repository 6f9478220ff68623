"""Groups that two tasks have sent are noticed, also by a sample of very many."""

from __future__ import annotations

import pyarrow as pa

from covey.pipeline.datasource.sink import NAMES_MAX, Groups, complaint, groups_in, sampled


def groups(*names: str, queue: str = "orders") -> Groups:
    return frozenset((queue, name) for name in names)


def test_groups_are_told_by_queue_and_rows_without_one_are_not() -> None:
    queues = pa.array(["a", "a", "b", "b", "b"])
    found = groups_in(queues, pa.array(["x", "x", "x", None, ""]))
    assert found == {("a", "x"), ("b", "x")}
    assert groups_in(pa.array(["a"]), pa.array([17])) == {("a", "17")}


def test_a_group_of_two_tasks_is_named() -> None:
    said = complaint([groups("a", "b"), groups("b", "c"), groups("b", queue="other")])
    assert "order is not kept: b of orders. Bring" in said
    many = groups(*"abcdef")
    assert "a of orders, b of orders, c of orders and 3 more" in complaint([many, many])


def test_groups_that_are_together_are_no_cause_for_complaint() -> None:
    assert complaint([groups("a"), groups("b"), groups("a", queue="other")]) == ""


def test_samples_of_very_many_groups_meet() -> None:
    first = groups(*[f"g{number}" for number in range(4 * NAMES_MAX)])
    second = groups(*[f"g{number}" for number in range(2 * NAMES_MAX, 6 * NAMES_MAX)])
    assert len(sampled(first)) == NAMES_MAX
    assert complaint([sampled(first), sampled(second)])
