"""Rehearsal: recorded arrivals, played by every core through every scenario.

A scenario is a policy, a number of consumers and a speed. A `SimulatedQueue` plays it with the
broker's own strategies. One Spark task plays one slice of the scenarios with one window of a
queue's arrivals. The more messages a queue has, the more slices it gets, so that every core is busy
to the end. Arrivals are sorted once for each window and go to their tasks in pieces.

A queue of very many messages is cut into windows of time, each of about `WINDOW_MESSAGES`. At most
`WINDOWS_MAX` of them are played, spread over the whole time. That limits how many messages a task
holds. A scenario's result is the mean over its windows. The result also tells how much the windows
differ: `wait_error_s` is the standard error of the wait's 95th percentile.

A policy is a group strategy with its one size. It can be read from text, made into a strategy
object, and written as configuration:

    shared   simple   lru:1024   hash-buckets:1024   consistent-hash:100

The number is the strategy's size as `covey.groups.registry` defines it: the cache's size, the
number of buckets or the points on the ring. Without a number, it is the configuration's default.
The configuration itself checks the names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from math import inf, sqrt
from statistics import stdev
from typing import Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from covey.config.queues import GroupSettings
from covey.core.events.event_log import HOST_MARK
from covey.groups import STRATEGIES, GroupStrategy, make
from covey.groups.simulation.load import Load, Result
from covey.groups.simulation.queue import SimulatedQueue
from covey.pipeline.errors import PipelineError
from covey.pipeline.spark import parallelism


def default_policies() -> str:
    """Return every strategy, with each of its sizes that are worth comparing."""
    return ",".join(
        f"{entry.name}:{size}" if size else entry.name
        for entry in STRATEGIES.values()
        for size in entry.planned_sizes or (0,)
    )


@dataclass(frozen=True, slots=True)
class Policy:
    """One way to own groups."""

    settings: GroupSettings

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `strategy` or `strategy:size`; raises PipelineError if there is no such policy."""
        name, _, size = text.strip().partition(":")
        try:
            plain = GroupSettings.model_validate({"strategy": name})
            if not size:
                return cls(plain)
            option = STRATEGIES[plain.strategy].size
            if option is None:
                raise PipelineError(f"--policies: {plain.strategy} has no size, not {text!r}")
            return cls(GroupSettings.model_validate({"strategy": name, option.name: int(size)}))
        except ValidationError as error:
            raise PipelineError(f"--policies: {text!r}: {error.errors()[0]['msg']}") from error
        except ValueError as error:
            raise PipelineError(f"--policies: {text!r}: the size must be a number") from error

    def __str__(self) -> str:
        size = "".join(f":{value}" for value in self._size().values())
        return f"{self.settings.strategy}{size}"

    def strategy(self) -> GroupStrategy:
        """Make the broker's own strategy."""
        return make(self.settings.strategy, **self.settings.strategy_options())

    def toml(self, queue: str) -> str:
        """Return the policy of a queue as text for the broker's configuration, for all hosts."""
        name = queue.rpartition(HOST_MARK)[2].replace("\\", "\\\\").replace('"', '\\"')
        lines = ["[[queue]]", f'id = "{name}"', "[queue.groups]"]
        lines.append(f'strategy = "{self.settings.strategy}"')
        if self.settings.needs_header:
            # The log does not tell the name of the group header. A wrong name disables groups.
            # Without a name the broker refuses this strategy, and its error says what is missing.
            lines.append('# header = "message_group"  # needed: the one that your producers send')
        lines += [f"{key} = {value}" for key, value in self._size().items()]
        return "\n".join(lines) + "\n"

    def _size(self) -> dict[str, int]:
        """Return the name and the value of the strategy's size; empty if it has no size."""
        option = STRATEGIES[self.settings.strategy].size
        return {option.name: getattr(self.settings, option.name)} if option else {}


TASKS_PER_CORE: Final = 4  # scenarios differ in length; a core that is done takes another task

WINDOW_MESSAGES: Final = 500_000  # some 100 MB in a task
WINDOWS_MAX: Final = 8  # of a queue; more would not change the result
DEALT_SCHEMA: Final = "share int, piece int, packed binary"
DEALT_ARROW: Final = pa.schema(
    [("share", pa.int32()), ("piece", pa.int32()), ("packed", pa.binary())]
)

RESULT_FIELDS: Final = tuple(field.name for field in fields(Result))
COUNTS: Final = frozenset({"messages", "moved_up", "moved_down", "moves"}) | frozenset(
    {"redelivered", "order_lost", "entries_max"}
)
PLAYED_ARROW: Final = pa.schema(
    [
        ("queue", pa.string()),
        ("policy", pa.string()),
        ("consumers", pa.int64()),
        ("speed", pa.float64()),
        *((name, pa.int64() if name in COUNTS else pa.float64()) for name in RESULT_FIELDS),
    ]
)
PLAN_ARROW: Final = pa.schema(
    [*PLAYED_ARROW, ("windows", pa.int64()), ("wait_error_s", pa.float64())]
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
        return SimulatedQueue(load, strategy, credit=self.credit, speed=self.speed).play(
            self.consumers
        )


class Slice(NamedTuple):
    """The part of the scenarios that one task plays with a window of one queue's arrivals."""

    queue: str
    part: int
    of: int
    window: int = 0


class Part(NamedTuple):
    """A window of one queue's arrivals: from when to when, in seconds since the epoch."""

    queue: str
    window: int
    begin: float
    end: float
    messages: int


def parts_of(arrivals: DataFrame, queues: dict[str, int]) -> list[Part]:
    """Cut the arrivals of long queues into windows of time, and choose some of them."""
    long = [queue for queue, count in queues.items() if count > WINDOW_MESSAGES]
    found = [Part(queue, 0, -inf, inf, queues[queue]) for queue in queues if queue not in long]
    for queue, edges in _edges_of(arrivals, {name: queues[name] for name in long}).items():
        windows = len(edges) - 1
        step = max(1.0, windows / WINDOWS_MAX)
        chosen = sorted({int(number * step) for number in range(min(windows, WINDOWS_MAX))})
        found += [
            Part(queue, at, edges[at], edges[at + 1], WINDOW_MESSAGES)
            for at in chosen
            if edges[at] < edges[at + 1]
        ]
    return found


def _edges_of(arrivals: DataFrame, long: dict[str, int]) -> dict[str, list[float]]:
    """Return the times at which each queue's windows begin and end, by one pass for all queues."""
    wanted = []
    for queue, count in long.items():
        windows = -(-count // WINDOW_MESSAGES)
        ranks = [number / windows for number in range(windows + 1)]
        at = F.when(F.col("queue") == queue, F.col("at"))
        wanted.append(F.percentile_approx(at, ranks, 10_000))
    found = arrivals.agg(*wanted).first() if wanted else None
    return {queue: edges for queue, edges in zip(long, found or (), strict=True) if edges}


def slices_of(parts: list[Part], scenarios: int, tasks: int) -> list[Slice]:
    """Cut all work into about `tasks` slices; a window with more messages gets more of them."""
    total = sum(one.messages for one in parts)
    found = []
    for one in parts:
        count = min(scenarios, max(1, -(-tasks * one.messages // total)))
        found += [Slice(one.queue, part, count, one.window) for part in range(count)]
    return found


def rehearse(
    arrivals: DataFrame, queues: dict[str, int], scenarios: list[Scenario]
) -> list[dict[str, Any]]:
    """Play every scenario with every queue's arrivals (queue, at, service, group_id, order)."""
    spark = arrivals.sparkSession
    tasks = TASKS_PER_CORE * parallelism(spark)
    parts = parts_of(arrivals, queues)
    slices = slices_of(parts, len(scenarios), tasks)
    rows = [(one.queue, one.window, one.begin, one.end, at) for at, one in enumerate(parts)]
    schema = "queue string, window int, begin double, end double, number int"
    windows = F.broadcast(spark.createDataFrame(rows, schema))
    within = (F.col("at") >= F.col("begin")) & (F.col("at") < F.col("end"))
    windowed = arrivals.join(windows, "queue").where(within)

    def deal_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return deal_queue(batches, slices)

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return play_dealt(batches, slices, scenarios)

    ordered = (
        windowed.repartitionById(len(parts), "number")
        .sortWithinPartitions("order")
        .select("queue", "window", "at", "service", "group_id")
    )
    dealt = ordered.mapInArrow(deal_out, DEALT_SCHEMA)
    shared = dealt.repartitionById(len(slices), "share").sortWithinPartitions("share", "piece")
    played = shared.mapInArrow(play, PLAN_SCHEMA)
    return combined([row.asDict() for row in played.collect()])


def combined(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each scenario of a queue: the mean over its windows, and its error."""
    keys = ("queue", "policy", "consumers", "speed")
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [dict(zip(keys, key, strict=True)) | _mean(mine) for key, mine in found.items()]


def _mean(rows: list[dict[str, Any]]) -> dict[str, Any]:
    means: dict[str, Any] = {}
    for name in RESULT_FIELDS:
        values = [row[name] for row in rows]
        mean = sum(values) / len(values)
        means[name] = round(mean) if name in COUNTS else mean
    waits = [row["wait_p95_s"] for row in rows]
    means["messages"] = sum(row["messages"] for row in rows)
    means["order_lost"] = sum(row["order_lost"] for row in rows)
    means["windows"] = len(rows)
    means["wait_error_s"] = stdev(waits) / sqrt(len(waits)) if len(waits) > 1 else 0.0
    return means


def deal_queue(batches: Iterator[pa.RecordBatch], slices: list[Slice]) -> Iterator[pa.RecordBatch]:
    """Yield the arrivals of one window, packed once for each of its slices."""
    for piece, batch in enumerate(batch for batch in batches if batch.num_rows):
        whose = (batch.column("queue")[0].as_py(), batch.column("window")[0].as_py())
        packed = pack(pa.Table.from_batches([batch.select(["at", "service", "group_id"])]))
        for share, one in enumerate(slices):
            if (one.queue, one.window) == whose:
                yield _dealt_row(share, piece, packed)


def pack(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    packed = pa.BufferOutputStream()
    with pa.ipc.new_stream(packed, table.schema) as stream:
        stream.write_table(table)
    content: bytes = packed.getvalue().to_pybytes()
    return content


def unpack(packed: bytes) -> pa.Table:
    """Return the table that was packed."""
    return pa.ipc.open_stream(packed).read_all()


def _dealt_row(share: int, piece: int, packed: bytes) -> pa.RecordBatch:
    """Return a packed table as one row, which Spark moves to the task of its share."""
    numbers = [pa.array([number], pa.int32()) for number in (share, piece)]
    columns = [*numbers, pa.array([packed], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=DEALT_ARROW)


def play_dealt(
    batches: Iterator[pa.RecordBatch], slices: list[Slice], scenarios: list[Scenario]
) -> Iterator[pa.RecordBatch]:
    """Play one window's arrivals through one slice of the scenarios."""
    pieces: dict[int, list[pa.Table]] = {}
    for batch in batches:
        for share, _, packed in zip(*batch.columns, strict=True):
            pieces.setdefault(share.as_py(), []).append(unpack(packed.as_py()))
    for share, tables in pieces.items():
        queue, part, of, _ = slices[share]
        table = pa.concat_tables(tables)
        load = Load(
            pc.subtract(table["at"], table["at"][0]).to_pylist(),
            table["service"].to_pylist(),
            table["group_id"].to_pylist(),
        )
        for scenario in scenarios[part::of]:
            row = {
                "queue": queue,
                "policy": str(scenario.policy),
                "consumers": scenario.consumers,
                "speed": scenario.speed,
                **asdict(scenario.play(load)),
            }
            yield pa.RecordBatch.from_pylist([row], PLAYED_ARROW)
