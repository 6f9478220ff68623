"""Who waits behind a pattern is found, each once, and without asking every pattern."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.naming.pattern_index import PatternIndex
from tests.core.naming.test_pattern import pattern

PARTS = st.sampled_from(["a", "b", "*", "**", "a*", "{b|c}"])
PATTERNS = st.tuples(st.lists(PARTS, min_size=1, max_size=5), st.booleans())


def test_an_index_tells_each_waiting_value_once() -> None:
    index: PatternIndex[str] = PatternIndex()
    index.add(pattern("a.*"), "first")
    index.add(pattern("a.**"), "first")
    index.add(pattern("*.b"), "second")
    index.add(pattern("x.*"), "third")
    assert index.matching("a.b") == ["first", "second"]
    assert index.matching("x.b") == ["second", "third"]  # in the order they came
    assert index.matching("y.c") == []


def test_a_discarded_value_is_told_no_more() -> None:
    index: PatternIndex[str] = PatternIndex()
    index.add(pattern("a.*"), "one")
    index.add(pattern("a.*"), "two")
    index.discard(pattern("a.*"), "one")
    index.discard(pattern("a.*"), "one")
    index.discard(pattern("never.*"), "one")
    assert index.matching("a.b") == ["two"]
    index.discard(pattern("a.*"), "two")
    assert index.matching("a.b") == []


def test_those_that_came_later_are_told_alone() -> None:
    index: PatternIndex[str] = PatternIndex()
    for name in ("one", "two", "three"):
        index.add(pattern("a.*"), name)
    before = index.last
    assert index.newer("a.b", before) == []
    index.discard(pattern("a.*"), "two")
    index.add(pattern("a.*"), "two")
    index.add(pattern("a.*"), "one")  # it is there already, and keeps its place
    index.add(pattern("a.**"), "four")
    index.add(pattern("x.*"), "five")
    assert sorted(index.newer("a.b", before)) == ["four", "two"]
    assert index.newer("a.b", before + 1) == ["four"]
    assert sorted(index.newer("a.b", 0)) == ["four", "one", "three", "two"]


def test_the_rule_for_zero_parts_tells_patterns_apart() -> None:
    index: PatternIndex[str] = PatternIndex()
    index.add(pattern("a.**"), "one or more")
    index.add(pattern("a.**", zero=True), "any number")
    assert index.matching("a") == ["any number"]


@settings(deadline=None)
@given(
    st.lists(PATTERNS, max_size=12),
    st.lists(st.sampled_from(["a", "b", "c", "ab"]), min_size=1, max_size=6),
    st.sets(st.integers(0, 11)),
)
def test_the_tree_agrees_with_asking_every_pattern(
    given: list[tuple[list[str], bool]], levels: list[str], discarded: set[int]
) -> None:
    patterns = [pattern(".".join(parts), zero=zero) for parts, zero in given]
    index: PatternIndex[int] = PatternIndex()
    for number, each in enumerate(patterns):
        index.add(each, number)
    for number in discarded & set(range(len(patterns))):
        index.discard(patterns[number], number)
    name = ".".join(levels)
    kept = [number for number in range(len(patterns)) if number not in discarded]
    assert index.matching(name) == [number for number in kept if patterns[number].matches(name)]
    for number in kept:
        index.discard(patterns[number], number)
    assert index._root.is_empty and index._root_of_zero.is_empty


def test_ten_thousand_patterns_cost_a_new_name_little() -> None:
    index: PatternIndex[int] = PatternIndex()
    for number in range(10_000):
        index.add(pattern(f"a.*.{number}.**"), number)
    begun = time.perf_counter()
    for number in range(0, 10_000, 100):
        assert index.matching(f"a.b.{number}.c") == [number]
    assert time.perf_counter() - begun < 1  # a tenth of a second each when all of them are asked
