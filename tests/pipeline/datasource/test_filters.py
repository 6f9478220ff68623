"""Filters pushed down let too much through, never too little."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from covey.core.selector import compile_selector
from covey.pipeline.datasource.filters import push
from covey.pipeline.datasource.offsets import Range

GROUP = ("group_id",)


def lets_through(one: Filter, headers: dict[str, str], group_header: str = "") -> bool:
    """Ask the broker's own selector."""
    return compile_selector(push([one], group_header).selector("")).matches(headers.get)


@pytest.mark.parametrize("header", ["message_group", "JMSXGroupID"])
@pytest.mark.parametrize(
    ("one", "yes", "no"),
    [
        (EqualTo(GROUP, "it's"), "it's", "its"),
        (In(GROUP, ("a", "b")), "b", "c"),
        (StringStartsWith(GROUP, "50%_\\"), "50%_\\x", "50xx"),
    ],
)
def test_a_group_is_found_under_any_of_its_headers(
    header: str, one: Filter, yes: str, no: str
) -> None:
    assert lets_through(one, {header: yes})
    assert not lets_through(one, {header: no})
    assert not lets_through(one, {})


def test_a_queue_s_own_group_header_is_asked_alone() -> None:
    assert lets_through(EqualTo(GROUP, "a"), {"region": "a"}, "region")
    assert not lets_through(EqualTo(GROUP, "a"), {"message_group": "a"}, "region")
    assert push([EqualTo(GROUP, "a")], "no-identifier").selectors == ()


def test_numbers_narrow_a_range() -> None:
    whole = Range("q", 1, 100)
    seq = ("seq",)
    assert push([GreaterThan(seq, 5), LessThan(seq, 9)], "").narrowed(whole) == Range("q", 6, 9)
    some = push([GreaterThanOrEqual(seq, 5), LessThanOrEqual(seq, 9)], "").narrowed(whole)
    assert some == Range("q", 5, 10)
    assert push([EqualTo(seq, 7)], "").narrowed(whole) == Range("q", 7, 8)


def test_queues_are_left_out_only_if_every_filter_allows_it() -> None:
    queue = ("queue",)
    pushed = push([In(queue, ("a", "b")), EqualTo(queue, "b")], "")
    assert [name for name in "abc" if pushed.admits(name)] == ["b"]


@pytest.mark.parametrize(
    "one",
    [
        Not(EqualTo(GROUP, "a")),
        In(GROUP, tuple(str(number) for number in range(99))),
        EqualTo(("redelivered",), True),
        In(GROUP, ("a", None)),
    ],
)
def test_what_the_broker_cannot_do_is_left_to_spark(one: Filter) -> None:
    assert push([one], "").selector("") == ""
    assert push([one], "").selector("x = 1") == "(x = 1)"
