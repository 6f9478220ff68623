"""Offsets: where to begin and end, what is lost, how a batch is cut."""

from __future__ import annotations

import pytest

from covey.pipeline.datasource.offsets import (
    EARLIEST,
    LATEST,
    Figures,
    Range,
    lag_of,
    limited,
    losses,
    not_beyond,
    ranges,
    resolve,
    rows_of_bytes,
    split,
)
from covey.pipeline.errors import PipelineError


def figures(first: int, end: int, retained_from: int = 1, size_bytes: int = 0) -> Figures:
    return Figures(first, end, retained_from, end - first, size_bytes)


KNOWN = {"a": figures(5, 11), "b": figures(1, 1)}


def test_a_target_is_not_passed_and_a_queue_that_vanished_before_it_was_begun_is_left_out() -> None:
    target = {"a": 5, "b": 5, "gone": 9}
    assert not_beyond(target, {"a": 8, "b": 3, "new": 4}, {"a": 1, "c": 2}) == {
        "a": 5,
        "b": 3,
        "c": 2,
    }


def test_words_and_their_numbers_mean_the_ends_of_each_queue() -> None:
    assert resolve("startingOffsets", EARLIEST, KNOWN) == {"a": 5, "b": 1}
    assert resolve("startingOffsets", LATEST, KNOWN) == {"a": 11, "b": 1}
    assert resolve("startingOffsets", {"a": -2, "b": -1}, KNOWN) == {"a": 5, "b": 1}
    assert resolve("startingOffsets", {"a": 7, "b": 0}, KNOWN) == {"a": 7, "b": 0}


@pytest.mark.parametrize("given", [{"a": 1}, {"a": 1, "b": 1, "c": 1}])
def test_numbers_must_be_given_for_the_queues_that_are_read(given: dict[str, int]) -> None:
    with pytest.raises(PipelineError, match=r"startingOffsets: .*[bc]$"):
        resolve("startingOffsets", given, KNOWN)


def test_numbers_that_others_consumed_are_no_loss() -> None:
    assert losses({"a": 2}, {"a": figures(5, 11)}) == []


def test_what_went_unsettled_is_a_loss_with_its_range() -> None:
    (text,) = losses({"a": 2, "b": 1}, {"a": figures(5, 11, retained_from=5), "b": KNOWN["b"]})
    assert text == "queue a no longer has all messages from 2 to 4"
    assert losses({"a": 5}, {"a": figures(5, 11, retained_from=5)}) == []


def test_a_queue_whose_numbers_began_anew_is_a_loss_and_is_read_from_its_beginning() -> None:
    anew = {"a": figures(1, 4)}
    (text,) = losses({"a": 50}, anew)
    assert "made anew" in text
    assert ranges({"a": 50}, {"a": 4}, anew) == [Range("a", 1, 4)]


def test_a_limit_is_shared_by_what_waits_and_starves_nobody() -> None:
    known = {"long": figures(1, 1001), "short": figures(1, 3)}
    end = {"long": 1001, "short": 3}
    assert limited({"long": 1, "short": 1}, known, end, 100) == {"long": 100, "short": 2}
    assert limited({"long": 1, "short": 1}, known, end, 5000) == end


def test_a_limit_does_not_count_numbers_that_are_gone() -> None:
    assert limited({"a": 1}, {"a": figures(901, 1001)}, {"a": 1001}, 10) == {"a": 911}


def test_a_limit_of_bytes_goes_by_the_mean_size() -> None:
    assert rows_of_bytes([figures(1, 11, size_bytes=1000)], 250) == 2
    assert rows_of_bytes([figures(1, 11, size_bytes=1000)], 1) == 1


def test_a_small_batch_is_one_range_and_a_large_one_is_cut_for_each_core() -> None:
    assert split([Range("a", 1, 100)], 0, 8) == [(Range("a", 1, 100),)]
    pieces = split([Range("a", 1, 20_001)], 0, 2)
    assert pieces == [(Range("a", 1, 10_001),), (Range("a", 10_001, 20_001),)]
    assert split([], 0, 2) == []


def test_partitions_asked_for_cover_every_number_once() -> None:
    pieces = split([Range("a", 1, 8), Range("b", 3, 4)], 5, 1)
    for queue, numbers in (("a", range(1, 8)), ("b", range(3, 4))):
        mine = [one for task in pieces for one in task if one.queue == queue]
        covered = [number for one in mine for number in range(one.first, one.end)]
        assert covered == list(numbers)
    assert len(pieces) == 5


def test_many_small_queues_share_a_task_and_a_large_one_is_cut_beside_them() -> None:
    small = [Range(f"q{number}", 1, 2) for number in range(10_000)]
    tasks = split(small, 0, 2)
    assert [len(task) for task in tasks] == [5000, 5000]
    assert [one for task in tasks for one in task] == small
    mixed = split([*small, Range("large", 1, 30_001)], 0, 4)
    assert [(len(task), sum(one.rows for one in task)) for task in mixed] == [
        (10_000, 10_000),
        (1, 10_000),
        (1, 10_000),
        (1, 10_000),
    ]


def test_lag_is_what_a_query_has_still_to_read_by_queue() -> None:
    ours = {"endOffset": '{"a": 4, "b": 9}', "latestOffset": '{"a": 10, "b": 9, "new": 3}'}
    parsed = {"endOffset": {"a": 1}, "latestOffset": {"a": 2}}
    kafka = {"endOffset": '{"t": {"0": 1}}', "latestOffset": '{"t": {"0": 5}}'}
    rate = {"endOffset": "17", "latestOffset": "18"}
    assert lag_of({"sources": [ours, kafka, rate, parsed]}) == {"a": 7, "b": 0, "new": 3}
    assert lag_of({"sources": [{"endOffset": None, "latestOffset": None}]}) == {}
    assert lag_of({}) == {}
