"""plan: which group policy would have served this traffic best?

Recorded arrivals are replayed with the broker's own strategies, once for each scenario: policy x
number of consumers x speed (`plan_rehearsal`).

The recommendation of a queue ranks its policies by their mean over all scenarios: order losses
first (there must be none), then the time until all was done, then the 95th percentile of the wait,
then groups moved. Figures within `NOISE` of the best count as equal. So no policy wins by a tiny
difference in time if it moves a thousand groups more.
"""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from covey.core.events.event import EventKind
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.messages import messages, with_service
from covey.pipeline.event_log.reader import (
    add_log_options,
    check_input,
    kind_is,
    lasting,
    read_log,
)
from covey.pipeline.job import Job, Task, numbers_of, whole_numbers_of
from covey.pipeline.jobs.plan_rehearsal import (
    PLAN_ARROW,
    RESULT_FIELDS,
    Policy,
    Scenario,
    default_policies,
    rehearse,
)
from covey.pipeline.places import url_of
from covey.pipeline.report import Report, compared

NOISE: Final = 0.05
NOISE_S: Final = 0.01  # nor does a smaller difference count: nobody feels it
PANELS: Final = {
    "makespan_s": "all done, s",
    "wait_p95_s": "wait p95, s",
    "balance": "busiest / mean",
    "moved_up": "moved: joined",
    "moved_down": "moved: left",
    "entries_max": "entries kept",
}
SHOWN: Final = {
    **PANELS,
    "moves": "moves",
    "redelivered": "redelivered",
    "order_lost": "order lost",
}
MEANINGS: Final = {
    "makespan_s": "seconds from the first arrival until the last message was done",
    "wait_p95_s": "one message in twenty waited longer than this for its delivery",
    "balance": "how much more the busiest consumer did than the mean; 1 is even",
    "moved_up": "groups that changed their consumer after one joined",
    "moved_down": "groups that changed their consumer after one left",
    "entries_max": "owners, buckets or ring points that the policy had to remember",
    "moves": "changes of a group's consumer altogether",
    "redelivered": "messages that were delivered again, since their consumer left with them",
    "order_lost": "messages that were delivered before an earlier one of their group; must be 0",
}
REASONS: Final = {
    "order_lost": "messages out of order:",
    "makespan_s": "all is done after",
    "wait_p95_s": "19 of 20 messages wait less than",
    "moved_up": "groups that move when a consumer joins:",
    "moved_down": "groups that move when a consumer leaves:",
    "entries_max": "entries to remember:",
}
UNGROUPED_SHOWN: Final = 10
QUEUES_MAX: Final = 200  # nobody reads a longer report; an option names the queues that matter


@dataclass(frozen=True, slots=True)
class Standing:
    """How a policy did: the means of its results over all scenarios."""

    policy: str
    means: dict[str, float]


def standings(rows: list[dict[str, Any]]) -> list[Standing]:
    """Rank the policies of one queue, the best first; equal policies keep their order."""
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
    """Return by how many steps of noise a value is above the best."""
    return int((value - best) / max(best * NOISE, NOISE_S))


def run(task: Task) -> int:
    """Try every scenario and recommend a policy for each queue."""
    options = task.options
    scenarios = [
        Scenario(policy, consumers, speed, options.credit)
        for policy, consumers, speed in product(options.policies, options.consumers, options.speed)
    ]
    task.progress.step("reading the log")
    events = lasting(read_log(task.spark, options))
    queues, ungrouped, unread = queues_of(events)
    if unread:
        sentence = f"plan: nobody consumed, so there is nothing to go by: {_listed(unread)}"
        task.progress.answer(sentence)
    if unread and not queues:
        raise PipelineError("--input: of no queue with groups a message was consumed in this log")
    if not queues:
        raise PipelineError(f"--input {options.input}: no message of a group came in this log")
    if len(queues) > QUEUES_MAX:
        raise PipelineError(f"--input has {len(queues)} queues, plan takes {QUEUES_MAX}")
    task.progress.step(f"{len(scenarios)} scenarios of {len(queues)} queues")
    grouped = events.where(F.col("queue").isin(*queues))
    results = rehearse(arrivals_of(grouped), queues, scenarios)
    tried = [str(policy) for policy in options.policies]
    results.sort(key=lambda row: tried.index(row["policy"]))  # Spark gives them in any order
    frame = task.spark.createDataFrame(pa.Table.from_pylist(results, PLAN_ARROW))
    frame.coalesce(1).write.mode("overwrite").parquet(url_of(options.out / "plan"))
    report = Report("Plan: which group policy would serve best")
    toml = []
    for queue in queues:
        rows = [row for row in results if row["queue"] == queue]
        ranking = standings(rows)
        places = {one.policy: place for place, one in enumerate(ranking)}
        rows.sort(key=lambda row: (row["consumers"], row["speed"], places[row["policy"]]))
        toml.append(Policy.parse(ranking[0].policy).toml(queue))
        task.progress.answer(_show(report, queue, ranking, rows))
    if unread:
        report.text(f"Nobody consumed, so there is nothing to go by: {_listed(unread)}.")
    if ungrouped:
        sentence = f"plan: no policy is needed where no message has a group: {_listed(ungrouped)}"
        report.text(sentence)
        task.progress.answer(sentence)
    text = "\n".join(dict.fromkeys(toml))  # two hosts may have a queue of the same name
    report.heading("Configuration to paste")
    report.code(text)
    report.heading("Words")
    report.terms({title: MEANINGS[name] for name, title in SHOWN.items()})
    report.text(f"Input: {options.table or options.input}")
    report.write(options.out, "plan")
    task.progress.answer(f"\n{text}")
    return 0


def queues_of(events: DataFrame) -> tuple[dict[str, int], list[str], list[str]]:
    """Return the queues that got messages with groups, each with the number of its messages.

    Also return the names of queues that got no groups, and of queues that had no consumer.
    """
    counted = (
        events.where(kind_is(EventKind.ENQUEUE, EventKind.DELIVER))
        .groupBy("queue")
        .agg(
            F.count_if(kind_is(EventKind.ENQUEUE)),
            F.count_if(kind_is(EventKind.ENQUEUE) & (F.col("group_id") != "")),
            F.count_if(kind_is(EventKind.DELIVER)),
        )
    )
    rows = [row for row in sorted(counted.collect()) if row[1]]
    return (
        {row[0]: row[1] for row in rows if row[2] and row[3]},
        [row[0] for row in rows if not row[2]],
        [row[0] for row in rows if row[2] and not row[3]],
    )


def _listed(queues: list[str]) -> str:
    more = f" and {len(queues) - UNGROUPED_SHOWN:,} more" if queues[UNGROUPED_SHOWN:] else ""
    return ", ".join(queues[:UNGROUPED_SHOWN]) + more


def arrivals_of(events: DataFrame) -> DataFrame:
    """Return what arrived at each queue, in an order that holds across runs."""
    arrived = with_service(messages(events), is_kept=True).where("enqueued is not null")
    return arrived.select(
        "queue",
        F.col("enqueued").alias("at"),
        "service",
        "group_id",
        F.struct("enqueued", "origin", "seq").alias("order"),
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
    report.lead(f"{reason_of(ranking)} {growth_of(best.policy, rows)}".strip())
    names = [one.policy for one in ranking]
    panels = {title: [one.means[name] for one in ranking] for name, title in PANELS.items()}
    report.figure(
        compared(names, panels),
        "Means over all scenarios; in every panel less is better. The recommended policy is green.",
    )
    if means["order_lost"]:
        report.verdict("Every policy lost the order of some messages.", is_good=False)
    for consumers, speed in dict.fromkeys((row["consumers"], row["speed"]) for row in rows):
        mine = [row for row in rows if (row["consumers"], row["speed"]) == (consumers, speed)]
        _show_scenario(report, mine, consumers, speed, best.policy)
    report.text(sentence.removeprefix("plan: "))
    if rows[0]["windows"] > 1:
        worst = max(row["wait_error_s"] for row in rows)
        report.text(
            f"The queue is long: {rows[0]['windows']} windows of it were played,"
            f" {rows[0]['messages']:,} messages. Waits are means over them, with a standard error"
            f" of {worst:.3g} s at most."
        )
    return sentence


def _show_scenario(
    report: Report, rows: list[dict[str, Any]], consumers: int, speed: float, recommended: str
) -> None:
    """Show all policies under the same load, so that they can be compared."""
    best, *others = standings(rows)
    times = "as recorded" if speed == 1 else f"{speed:g} times as fast"
    is_best = best.policy == recommended or any(
        one.policy == recommended and not reason_between(best, one) for one in others
    )
    rest = "the recommended policy is best here, too" if is_best else f"{best.policy} is best here"
    report.text(f"With {consumers} consumers, arrivals {times}: {rest}.")
    report.table(
        ("policy", *SHOWN.values()),
        [[row["policy"], *(row[name] for name in SHOWN)] for row in rows],
        {title: MEANINGS[name] for name, title in SHOWN.items()},
        recommended,
    )


def reason_of(ranking: list[Standing]) -> str:
    """Say why the first policy is recommended: in which figure the next one is worse."""
    best, *others = ranking
    if not others:
        return f"{best.policy} is the only policy that was tried."
    worse = next((one for one in others if reason_between(best, one)), None)
    if worse is None:
        return f"{best.policy} is recommended, but any policy that was tried would do as well."
    alike = [one.policy for one in others[: others.index(worse)]]
    reason = f"Use {best.policy}: {reason_between(best, worse)} with {worse.policy}, the next best."
    return f"{reason} As good: {', '.join(alike)}." if alike else reason


def reason_between(best: Standing, other: Standing) -> str:
    """Say in which figure a policy is better than another; "" if it is in none."""
    for name, words in REASONS.items():
        mine, theirs = best.means[name], other.means[name]
        shown = _figure(name, mine), _figure(name, theirs)
        is_felt = not name.endswith("_s") or _steps(theirs, mine) > 0
        if mine < theirs and is_felt and shown[0] != shown[1]:
            return f"{words} {shown[0]} instead of {shown[1]}"
    return ""


def growth_of(policy: str, rows: list[dict[str, Any]]) -> str:
    """Say what more consumers would bring under a policy, at the highest speed that was tried."""
    speed = max(row["speed"] for row in rows)
    done = {
        row["consumers"]: row["makespan_s"]
        for row in rows
        if row["policy"] == policy and row["speed"] == speed
    }
    few, many = min(done), max(done)
    if few == many:
        return ""
    start = "" if speed == 1 else f"With arrivals {speed:g} times as fast "
    if _steps(done[few], done[many]) <= 0:
        return f"{start}{many} consumers would not be done sooner than {few}."
    return (
        f"{start}{many} consumers would be done after {done[many]:.3g} s,"
        f" {few} after {done[few]:.3g} s."
    )


def _figure(name: str, value: float) -> str:
    return f"{value:,.2f} s" if name.endswith("_s") else f"{value:,.0f}"


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
    """Add the options of this job."""
    add_log_options(parser)
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
