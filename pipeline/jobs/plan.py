"""plan: which group policy would have served this traffic best?

Recorded arrivals are replayed with the broker's own strategies, once for each scenario: policy x
number of consumers x speed (`plan_rehearsal`).

The recommendation of a queue ranks its policies by their mean over all scenarios: order losses
first (there must be none), then the time until all was done, then the 95th percentile of the wait,
then groups moved. Figures within `NOISE` of the best count as equal. So a policy does not win by a
hair and cost a thousand moved groups.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from covey.core.events.event import EventKind
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.messages import messages, with_service
from covey.pipeline.event_log.reader import check_input, kind_is, lasting, read_log
from covey.pipeline.job import Job, Task, numbers_of, whole_numbers_of
from covey.pipeline.jobs.plan_rehearsal import (
    PLAN_ARROW,
    RESULT_FIELDS,
    Policy,
    Scenario,
    default_policies,
    rehearse,
)
from covey.pipeline.report import Report, compared

NOISE: Final = 0.05
NOISE_S: Final = 0.01  # and no difference below this is felt by anybody
PANELS: Final = {
    "makespan_s": "all done, s",
    "wait_p95_s": "wait p95, s",
    "balance": "busiest / mean",
    "moved_up": "moved: joined",
    "moved_down": "moved: left",
    "entries_max": "entries kept",
}
UNGROUPED_SHOWN: Final = 10
QUEUES_MAX: Final = 200  # a report nobody reads; name the queues that matter instead


@dataclass(frozen=True, slots=True)
class Standing:
    """How a policy did: the means of its results over all scenarios."""

    policy: str
    means: dict[str, float]


def standings(rows: list[dict[str, Any]]) -> list[Standing]:
    """Rank the policies of one queue, the best first; equal ones stay in their order."""
    found = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        mine = [row for row in rows if row["policy"] == policy]
        means = {name: sum(row[name] for row in mine) / len(mine) for name in RESULT_FIELDS}
        found.append(Standing(policy, means))
    makespan = min(one.means["makespan_s"] for one in found)
    wait = min(one.means["wait_p95_s"] for one in found)

    def rank(one: Standing) -> tuple[float, ...]:
        means = one.means
        return (
            means["order_lost"],
            _steps(means["makespan_s"], makespan),
            _steps(means["wait_p95_s"], wait),
            means["moved_up"] + means["moved_down"],
            means["entries_max"],
        )

    return sorted(found, key=rank)


def _steps(value: float, best: float) -> int:
    """Say how many steps of noise a value is above the best."""
    return int((value - best) / max(best * NOISE, NOISE_S))


def run(task: Task) -> int:
    """Try every scenario and recommend a policy for each queue."""
    options = task.options
    scenarios = [
        Scenario(policy, consumers, speed, options.credit)
        for policy, consumers, speed in product(options.policies, options.consumers, options.speed)
    ]
    task.progress.step("reading the log")
    events = lasting(read_log(task.spark, options.input))
    queues, ungrouped = queues_of(events)
    if not queues:
        raise PipelineError(f"--input {options.input}: no message of a group came in this log")
    if len(queues) > QUEUES_MAX:
        raise PipelineError(f"--input has {len(queues)} queues, plan takes {QUEUES_MAX}")
    task.progress.step(f"{len(scenarios)} scenarios of {len(queues)} queues")
    grouped = events.where(F.col("queue").isin(*queues))
    results = rehearse(arrivals_of(grouped), queues, scenarios)
    tried = [str(policy) for policy in options.policies]
    results.sort(key=lambda row: tried.index(row["policy"]))  # Spark gives them in any order
    _write_table(results, options.out / "plan")
    report = Report("Plan: group policies compared")
    report.text(f"Input: {options.input}")
    toml = []
    for queue in queues:
        rows = [row for row in results if row["queue"] == queue]
        ranking = standings(rows)
        places = {one.policy: place for place, one in enumerate(ranking)}
        rows.sort(key=lambda row: (row["consumers"], row["speed"], places[row["policy"]]))
        toml.append(Policy.parse(ranking[0].policy).toml(queue))
        task.progress.answer(_show(report, queue, ranking, rows))
    if ungrouped:
        sentence = f"plan: no policy is needed where no message has a group: {_listed(ungrouped)}"
        report.text(sentence)
        task.progress.answer(sentence)
    text = "\n".join(dict.fromkeys(toml))  # two hosts may have a queue of one name
    report.heading("Configuration")
    report.code(text)
    report.write(options.out / "plan.html")
    task.progress.answer(f"\n{text}")
    return 0


def queues_of(events: DataFrame) -> tuple[dict[str, int], list[str]]:
    """Return the queues to which groups came, with how many messages, and the others, by name."""
    arrived = events.where(kind_is(EventKind.ENQUEUE)).groupBy("queue")
    counted = arrived.agg(F.count("*"), F.count_if(F.col("group_id") != ""))
    rows = sorted(counted.collect())
    return {row[0]: row[1] for row in rows if row[2]}, [row[0] for row in rows if not row[2]]


def _listed(queues: list[str]) -> str:
    more = f" and {len(queues) - UNGROUPED_SHOWN:,} more" if queues[UNGROUPED_SHOWN:] else ""
    return ", ".join(queues[:UNGROUPED_SHOWN]) + more


def _write_table(results: list[dict[str, Any]], directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(results, PLAN_ARROW), directory / "plan.parquet")


def arrivals_of(events: DataFrame) -> DataFrame:
    """Return what arrived at each queue, in an order that runs do not mix up."""
    arrived = with_service(messages(events)).where("enqueued is not null")
    return arrived.select(
        "queue",
        F.col("enqueued").alias("at"),
        "service",
        "group_id",
        F.struct("enqueued", "run", "seq").alias("order"),
    )


def _show(report: Report, queue: str, ranking: list[Standing], rows: list[dict[str, Any]]) -> str:
    best = ranking[0]
    means = best.means
    sentence = (
        f"plan: {queue}: {best.policy}: {means['makespan_s']:.1f} s until all was done,"
        f" wait p95 {means['wait_p95_s']:.3f} s, balance {means['balance']:.2f},"
        f" groups moved {means['moved_up']:.0f} up {means['moved_down']:.0f} down,"
        f" order lost {means['order_lost']:.0f}, {means['entries_max']:.0f} entries"
    )
    report.heading(f"Queue {queue}")
    report.verdict(sentence, is_good=means["order_lost"] == 0)
    names = [one.policy for one in ranking]
    panels = {title: [one.means[name] for one in ranking] for name, title in PANELS.items()}
    report.figure(compared(names, panels), "means over all scenarios, the recommended policy first")
    shown = ("policy", "consumers", "speed", *RESULT_FIELDS)
    titles = [PANELS.get(name, name.replace("_s", ", s").replace("_", " ")) for name in shown]
    report.table(titles, [[row[name] for name in shown] for row in rows])
    return sentence


def _consumers(text: str) -> list[int]:
    return whole_numbers_of("--consumers", text)


def _speeds(text: str) -> list[float]:
    return numbers_of("--speed", text)


def _credit(text: str) -> int:
    found = whole_numbers_of("--credit", text)
    if len(found) > 1:
        raise PipelineError(f"--credit {text}: one number is meant")
    return found[0]


def _policies(text: str) -> list[Policy]:
    return [Policy.parse(part) for part in text.split(",")]


def add_options(parser: ArgumentParser) -> None:
    """Add what to try."""
    parser.add_argument(
        "--policies",
        type=_policies,
        default=default_policies(),
        metavar="P,P",
        help=f"strategies, with their size behind a colon (default {default_policies()})",
    )
    parser.add_argument(
        "--consumers", type=_consumers, default="4,8", metavar="N,N", help="how many (default 4,8)"
    )
    parser.add_argument(
        "--speed",
        type=_speeds,
        default="1",
        metavar="F,F",
        help="arrivals come so many times faster than recorded (default 1)",
    )
    parser.add_argument(
        "--credit", type=_credit, default=10, metavar="N", help="messages a consumer may hold (10)"
    )


JOB: Final = Job(
    "compare group policies on recorded traffic and recommend one", add_options, check_input, run
)
