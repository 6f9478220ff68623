"""plan: which group policy would have served this traffic best?

Recorded arrivals are replayed through a `Model` of the queue with the broker's own strategies,
once for each scenario: policy x number of consumers x speed. A queue's arrivals and a slice of
the scenarios are one Spark task; there are as many slices as keep every core busy. Arrivals are
sorted once a queue and go to their tasks in one piece.

The recommendation of a queue ranks its policies by their mean over all scenarios: order losses
first (there must be none), then the time until all was done, then the 95th percentile of the
wait, then groups moved. Figures within `NOISE` of the best count as equal, so that a policy does
not win by a hair and cost a thousand moved groups.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from itertools import product
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from covey.core.events import EventKind
from covey.groups.load import Load, Result
from covey.groups.model import Model
from covey.pipeline.charts import compared
from covey.pipeline.errors import PipelineError
from covey.pipeline.job import Job, Task, numbers_of
from covey.pipeline.log import check_input, kind_is, read_log
from covey.pipeline.messages import messages, with_service
from covey.pipeline.policy import DEFAULT_POLICIES, Policy
from covey.pipeline.report import Report
from covey.pipeline.session import parallelism
from covey.pipeline.share import DEALT_SCHEMA, dealt_row, pack, unpack

NOISE: Final = 0.05
NOISE_S: Final = 0.01  # and no difference below this is felt by anybody
TASKS_PER_CORE: Final = 4  # enough that one long queue does not leave the others waiting
QUEUES_MAX: Final = 200  # a report nobody reads; name the queues that matter instead

RESULT_FIELDS: Final = tuple(field.name for field in fields(Result))
COUNTS: Final = frozenset({"messages", "moved_up", "moved_down", "moves"}) | frozenset(
    {"redelivered", "order_lost", "entries_max"}
)
PLAN_ARROW: Final = pa.schema(
    [
        ("queue", pa.string()),
        ("policy", pa.string()),
        ("consumers", pa.int64()),
        ("speed", pa.float64()),
        *((name, pa.int64() if name in COUNTS else pa.float64()) for name in RESULT_FIELDS),
    ]
)
PLAN_SCHEMA: Final = "queue string, policy string, consumers long, speed double, " + ", ".join(
    f"{name} {'long' if name in COUNTS else 'double'}" for name in RESULT_FIELDS
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One thing to try."""

    policy: Policy
    consumers: int
    speed: float
    credit: int

    def play(self, load: Load) -> Result:
        """Replay the load."""
        strategy = self.policy.strategy()
        return Model(load, strategy, credit=self.credit, speed=self.speed).play(self.consumers)


def rehearse(arrivals: DataFrame, queues: list[str], scenarios: list[Scenario]) -> DataFrame:
    """Play every scenario with every queue's arrivals (queue, at, service, group_id, order)."""
    spark = arrivals.sparkSession
    wanted = TASKS_PER_CORE * parallelism(spark)
    slices = min(len(scenarios), max(1, -(-wanted // len(queues))))
    numbers = {queue: number for number, queue in enumerate(queues)}
    number = F.create_map(*[F.lit(item) for pair in numbers.items() for item in pair])

    def deal_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return deal_queue(batches, numbers, slices)

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return play_dealt(batches, queues, scenarios, slices)

    ordered = (
        arrivals.repartitionById(len(queues), number[F.col("queue")].cast("int"))
        .sortWithinPartitions("order")
        .select("queue", "at", "service", "group_id")
    )
    dealt = ordered.mapInArrow(deal_out, DEALT_SCHEMA)
    return dealt.repartitionById(len(queues) * slices, "share").mapInArrow(play, PLAN_SCHEMA)


def deal_queue(
    batches: Iterator[pa.RecordBatch], numbers: dict[str, int], slices: int
) -> Iterator[pa.RecordBatch]:
    """Yield one queue's arrivals, which is all that comes, packed for each slice of scenarios."""
    came = [batch for batch in batches if batch.num_rows]
    if came:
        table = pa.Table.from_batches(came)
        first = numbers[table["queue"][0].as_py()] * slices
        packed = pack(table.select(["at", "service", "group_id"]))
        for share in range(first, first + slices):
            yield dealt_row(share, packed)


def play_dealt(
    batches: Iterator[pa.RecordBatch], queues: list[str], scenarios: list[Scenario], slices: int
) -> Iterator[pa.RecordBatch]:
    """Play one queue's arrivals through one slice of the scenarios."""
    for batch in batches:
        for share, packed in zip(*batch.columns, strict=True):
            number, part = divmod(share.as_py(), slices)
            table = unpack(packed)
            load = Load(
                pc.subtract(table["at"], table["at"][0]).to_pylist(),
                table["service"].to_pylist(),
                table["group_id"].to_pylist(),
            )
            for scenario in scenarios[part::slices]:
                row = {
                    "queue": queues[number],
                    "policy": str(scenario.policy),
                    "consumers": scenario.consumers,
                    "speed": scenario.speed,
                    **asdict(scenario.play(load)),
                }
                yield pa.RecordBatch.from_pylist([row], PLAN_ARROW)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a policy did: the means of its results over all scenarios."""

    policy: str
    means: dict[str, float]


def standings(rows: list[Row]) -> list[Standing]:
    """Rank the policies of one queue, the best first."""
    found = []
    for policy in dict.fromkeys(row.policy for row in rows):
        mine = [row for row in rows if row.policy == policy]
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
    events = read_log(task.spark, options.input)
    arrived = events.where(kind_is(EventKind.ENQUEUE)).select("queue").distinct()
    queues = sorted(row.queue for row in arrived.collect())
    if not queues:
        raise PipelineError(f"--input {options.input}: no message was enqueued in this log")
    if len(queues) > QUEUES_MAX:
        raise PipelineError(f"--input has {len(queues)} queues, plan takes {QUEUES_MAX}")
    task.progress.step(f"{len(scenarios)} scenarios of {len(queues)} queues")
    results = rehearse(arrivals_of(events), queues, scenarios).cache()
    results.coalesce(1).write.mode("overwrite").parquet(str(options.out / "plan"))
    report = Report("Plan: group policies compared")
    toml = []
    for queue in queues:
        rows = results.where(F.col("queue") == queue).orderBy("consumers", "speed").collect()
        ranking = standings(rows)
        toml.append(Policy.parse(ranking[0].policy).toml(queue))
        task.progress.answer(_show(report, queue, ranking, rows))
    text = "\n".join(dict.fromkeys(toml))  # two hosts may have a queue of one name
    report.heading("Configuration")
    report.code(text)
    report.write(options.out / "plan.html")
    task.progress.answer(f"\n{text}")
    return 0


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


def _show(report: Report, queue: str, ranking: list[Standing], rows: list[Row]) -> str:
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
    columns = ("makespan_s", "wait_p95_s", "balance", "moved_up", "moved_down", "entries_max")
    names = [one.policy for one in ranking]
    panels = {name: [one.means[name] for one in ranking] for name in columns}
    report.figure(compared(names, panels), "means over all scenarios, the recommended policy first")
    shown = ("policy", "consumers", "speed", *RESULT_FIELDS)
    report.table(shown, [[row[name] for name in shown] for row in rows])
    return sentence


def _consumers(text: str) -> list[int]:
    return [max(1, int(number)) for number in numbers_of("--consumers", text)]


def _speeds(text: str) -> list[float]:
    return numbers_of("--speed", text)


def _credit(text: str) -> int:
    return max(1, int(numbers_of("--credit", text)[0]))


def _policies(text: str) -> list[Policy]:
    return [Policy.parse(part) for part in text.split(",")]


def add_options(parser: ArgumentParser) -> None:
    """Add what to try."""
    parser.add_argument(
        "--policies",
        type=_policies,
        default=DEFAULT_POLICIES,
        metavar="P,P",
        help=f"strategies, with their size behind a colon (default {DEFAULT_POLICIES})",
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
