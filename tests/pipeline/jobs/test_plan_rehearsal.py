"""All scenarios are played, each once, by tasks of about the same size."""

from __future__ import annotations

import pyarrow as pa

from covey.pipeline.jobs.plan_rehearsal import (
    Policy,
    Scenario,
    Slice,
    deal_queue,
    play_dealt,
    slices_of,
)


def test_a_task_plays_its_slice_of_the_scenarios() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"queue": ["q"] * 3, "at": [5.0, 6.0, 7.0], "service": [0.5] * 3}
        | {"group_id": ["a", "b", "a"]}
    )
    scenarios = [Scenario(Policy.parse("simple"), count, 1.0, 1) for count in (1, 2, 3)]
    slices = [Slice("p", 0, 1), Slice("q", 0, 2), Slice("q", 1, 2)]
    dealt = list(deal_queue(iter([batch]), slices))
    assert [row["share"][0].as_py() for row in dealt] == [1, 2]
    (played,) = play_dealt(iter(dealt[1:]), slices, scenarios)
    (row,) = played.to_pylist()
    assert (row["queue"], row["policy"], row["consumers"]) == ("q", "simple", 2)
    assert (row["messages"], row["makespan_s"]) == (3, 2.5)
    assert list(deal_queue(iter([]), slices)) == []


def test_a_long_queue_is_cut_into_more_slices() -> None:
    slices = slices_of({"long": 900, "short": 100}, 16, 8)
    assert slices == [Slice("long", part, 8) for part in range(8)] + [Slice("short", 0, 1)]
    assert len(slices_of({"only": 5}, 3, 8)) == 3
