"""Rehearsal: recorded arrivals, played by every core through every scenario.

A scenario is a policy, a number of consumers and a speed. A `SimulatedQueue` plays it with the
broker's own strategies. A queue's arrivals and a slice of the scenarios are one Spark task. A queue
has as many slices as its part of all messages asks for, so that every core is busy to the end.
Arrivals are sorted once a queue and go to their tasks in one piece.

A policy is a group strategy with its one size, as text, as an object and as configuration:

    shared   simple   lru:1024   hash-buckets:1024   consistent-hash:100

The number is the strategy's size as the registry has it (`covey.groups.registry`): the cache's
size, the number of buckets or the points on the ring. Left out, it is the configuration's default.
Names are checked by the configuration itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
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
from covey.pipeline.event_log.partition import pack, unpack
from covey.pipeline.spark import parallelism


def default_policies() -> str:
    """Return every strategy, at each of the sizes it is worth comparing at."""
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
        """Read `strategy` or `strategy:size`; raises PipelineError if there is none such."""
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
        """Write the policy for a queue as a file of the broker has it, good for all its hosts."""
        name = queue.rpartition(HOST_MARK)[2].replace("\\", "\\\\").replace('"', '\\"')
        lines = ["[[queue]]", f'id = "{name}"', "[queue.groups]"]
        lines.append(f'strategy = "{self.settings.strategy}"')
        if self.settings.needs_header:
            lines.append('header = "JMSXGroupID" # the one your producers send')
        lines += [f"{key} = {value}" for key, value in self._size().items()]
        return "\n".join(lines) + "\n"

    def _size(self) -> dict[str, int]:
        """Return the name and the value of its size; nothing if it has none."""
        option = STRATEGIES[self.settings.strategy].size
        return {option.name: getattr(self.settings, option.name)} if option else {}


TASKS_PER_CORE: Final = 4  # scenarios are not alike, and a core that is done early takes another

DEALT_SCHEMA: Final = "share int, packed binary"
DEALT_ARROW: Final = pa.schema([("share", pa.int32()), ("packed", pa.binary())])

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
        return SimulatedQueue(load, strategy, credit=self.credit, speed=self.speed).play(
            self.consumers
        )


class Slice(NamedTuple):
    """The part of the scenarios that one task plays with one queue's arrivals."""

    queue: str
    part: int
    of: int


def slices_of(queues: dict[str, int], scenarios: int, tasks: int) -> list[Slice]:
    """Cut all work into about so many tasks, each queue by its messages."""
    total = sum(queues.values())
    found = []
    for queue, count in queues.items():
        parts = min(scenarios, max(1, -(-tasks * count // total)))
        found += [Slice(queue, part, parts) for part in range(parts)]
    return found


def rehearse(
    arrivals: DataFrame, queues: dict[str, int], scenarios: list[Scenario]
) -> list[dict[str, Any]]:
    """Play every scenario with every queue's arrivals (queue, at, service, group_id, order)."""
    tasks = TASKS_PER_CORE * parallelism(arrivals.sparkSession)
    slices = slices_of(queues, len(scenarios), tasks)
    numbers = [F.lit(item) for number, queue in enumerate(queues) for item in (queue, number)]
    number = F.create_map(*numbers)[F.col("queue")].cast("int")

    def deal_out(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return deal_queue(batches, slices)

    def play(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return play_dealt(batches, slices, scenarios)

    ordered = (
        arrivals.repartitionById(len(queues), number)
        .sortWithinPartitions("order")
        .select("queue", "at", "service", "group_id")
    )
    dealt = ordered.mapInArrow(deal_out, DEALT_SCHEMA)
    played = dealt.repartitionById(len(slices), "share").mapInArrow(play, PLAN_SCHEMA)
    return [row.asDict() for row in played.collect()]


def deal_queue(batches: Iterator[pa.RecordBatch], slices: list[Slice]) -> Iterator[pa.RecordBatch]:
    """Yield one queue's arrivals, which is all that comes, packed for each of its slices."""
    came = [batch for batch in batches if batch.num_rows]
    if came:
        table = pa.Table.from_batches(came)
        queue = table["queue"][0].as_py()
        packed = pack(table.select(["at", "service", "group_id"]))
        for share, one in enumerate(slices):
            if one.queue == queue:
                yield _dealt_row(share, packed)


def _dealt_row(share: int, packed: bytes) -> pa.RecordBatch:
    """Return a packed table as the row that Spark moves to its share."""
    columns = [pa.array([share], pa.int32()), pa.array([packed], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=DEALT_ARROW)


def play_dealt(
    batches: Iterator[pa.RecordBatch], slices: list[Slice], scenarios: list[Scenario]
) -> Iterator[pa.RecordBatch]:
    """Play one queue's arrivals through one slice of the scenarios."""
    for batch in batches:
        for share, packed in zip(*batch.columns, strict=True):
            queue, part, of = slices[share.as_py()]
            table = unpack(packed.as_py())
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
                yield pa.RecordBatch.from_pylist([row], PLAN_ARROW)
