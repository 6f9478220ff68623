"""State: what an audit keeps for the next one, so that each file of a log is read once.

    STATE/state.json      the runs as far as they were read, what each said at its start, and the
                          highest number of each queue
    STATE/groups-N/       one row for each group that has something unsettled
    STATE/queues-N/       the consumers of each queue, and its policy

The size of the state is that of the backlog, not that of the log. Besides, it has what happened in
the last 100,000 events, which a restart may undo (`audit_story`). `state.json` is written last and
names the other two, so an audit that was killed leaves the earlier state as it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from covey.core.events.event import EventKind
from covey.core.naming.destination import TEMPORARY_ROOT
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.histories import (
    RUN_BITS,
    Gap,
    History,
    LogFigures,
    Numbers,
    Run,
    Start,
)
from covey.pipeline.event_log.reader import LogFile
from covey.pipeline.places import Place, put_text, readable, remove, url_of

FILE: Final = "state.json"
VERSION: Final = 3
GROUPS: Final = "history int, name string, group_id string, part int, state string"
QUEUES: Final = (
    "history int, name string, group_id string, pos long, kind int, consumer long, seq long"
)
PRESENT: Final = (EventKind.JOIN, EventKind.POLICY)


@dataclass
class State:
    """What earlier audits of a log have seen."""

    number: int = 0
    figures: LogFigures = field(default_factory=lambda: LogFigures([], [], 0, {}, [], {}, {}))
    numbers: Numbers = field(default_factory=lambda: Numbers({}, {}))
    given: dict[str, int] = field(default_factory=dict)  # by history/queue: above all numbers
    is_cut: bool = False  # `--until` may have left out a part of a file
    gaps: list[Gap] = field(default_factory=list)  # found before, which groups have still to pass

    def ends(self) -> dict[str, int]:
        """Return the last event that was read of each run."""
        return {run.run: run.last_eid for run in self.figures.runs}

    def new_of(self, files: list[LogFile]) -> list[LogFile]:
        """Return the files that have events which were not read yet."""
        ends = self.ends()
        new = [
            file
            for file in files
            if not file.run or max(file.first_eid, file.last_eid) > ends.get(file.run, 0)
        ]
        return self._cut_of(files, ends) + new if self.is_cut else new

    def _cut_of(self, files: list[LogFile], ends: dict[str, int]) -> list[LogFile]:
        """Return of each run the last file that was begun, if it may not have been read to its end.

        The name of a file tells its first event only.
        """
        begun: dict[str, LogFile] = {}
        following: set[tuple[str, int]] = set()
        for file in files:
            following.add((file.run, file.first_eid))
            if file.first_eid <= ends.get(file.run, 0) and not file.last_eid:
                known = begun.get(file.run, file)
                begun[file.run] = max(known, file, key=lambda one: one.first_eid)
        return [file for run, file in begun.items() if (run, ends[run] + 1) not in following]

    def remember(self, new: list[Gap]) -> None:
        """Keep the gaps that the next call must know, besides the last one of each run.

        A group passes a gap in the call after the one that has found it, at the latest. One that
        comes back later must know that there was a gap, but the last one is enough.
        """
        last = {gap.run: gap for gap in sorted(self.gaps)}
        self.gaps = sorted({*last.values(), *new})

    def forget(self, queues: set[str]) -> None:
        """Forget queues that will never come again, as names of theirs would else pile up."""
        for name in queues:
            self.figures.policies.pop(name, None)
        self.given = {
            name: at for name, at in self.given.items() if name.partition("/")[2] not in queues
        }

    def unread(self, events: DataFrame) -> DataFrame:
        """Return the events that were not read yet."""
        ends = self.ends()
        if not ends:
            return events
        pairs = [F.lit(item) for pair in ends.items() for item in pair]
        known = F.coalesce(F.create_map(*pairs)[F.col("run")], F.lit(0))
        return events.where(F.col("eid") > known)

    def merged(self, new: LogFigures) -> LogFigures:
        """Return the known figures with the new ones added."""
        runs = {run.run: run for run in self.figures.runs}
        gaps = list(new.gaps)
        for run in new.runs:
            known = runs.get(run.run)
            if known is None:
                runs[run.run] = run
                continue
            if run.first_eid > known.last_eid + 1:
                gaps.append(Gap(run.run, known.last_eid + 1, run.first_eid - 1))
            events = known.events + run.events
            ends = (known.first_eid, run.last_eid, known.began, run.ended)
            runs[run.run] = Run(run.run, events, *ends)
        kinds = dict(self.figures.kinds)
        for kind, count in new.kinds.items():
            kinds[kind] = kinds.get(kind, 0) + count
        policies = {name: set(texts) for name, texts in self.figures.policies.items()}
        for name, texts in new.policies.items():
            policies.setdefault(name, set()).update(texts)
        return LogFigures(
            list(runs.values()),
            sorted(gaps),
            self.figures.doubled + new.doubled,
            kinds,
            [*self.figures.starts, *new.starts],
            policies,
            {**self.figures.hosts, **new.hosts},
        )

    def text(self) -> str:
        """Return the state as JSON."""
        known = self.figures
        return json.dumps(
            {
                "version": VERSION,
                "number": self.number,
                "runs": [
                    (*run[:4], run.began.isoformat(), run.ended.isoformat()) for run in known.runs
                ],
                "doubled": known.doubled,
                "kinds": known.kinds,
                "starts": known.starts,
                "policies": {name: sorted(texts) for name, texts in known.policies.items()},
                "hosts": [[*key, *value] for key, value in known.hosts.items()],
                "numbers": self.numbers,
                "given": self.given,
                "is_cut": self.is_cut,
                "gaps": self.gaps,
            }
        )


def load(place: Place) -> State:
    """Return the state that is kept at a place; an empty one if there is none."""
    file = place / FILE
    if not file.exists():
        return State()
    try:
        saved: dict[str, Any] = json.loads(file.read_text())
        if saved["version"] != VERSION:
            raise PipelineError(f"--state {place}: it is of another Covey; name a new directory")
        times = datetime.fromisoformat
        runs = [Run(*run[:4], *map(times, run[4:])) for run in saved["runs"]]
        figures = LogFigures(
            runs,
            [],
            saved["doubled"],
            {int(kind): count for kind, count in saved["kinds"].items()},
            [Start(*start) for start in saved["starts"]],
            {name: set(texts) for name, texts in saved["policies"].items()},
            {(run, host): (before, shown) for run, host, before, shown in saved["hosts"]},
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PipelineError(f"--state {place}: {FILE} cannot be read: {error}") from error
    numbers, is_cut = Numbers(*saved["numbers"]), saved.get("is_cut", False)
    gaps = [Gap(*gap) for gap in saved.get("gaps", ())]  # an older state has none
    return State(saved["number"], figures, numbers, saved["given"], is_cut, gaps)


def save(place: Place, state: State, groups: DataFrame, queues: DataFrame) -> None:
    """Write the next state, then delete the one before."""
    before, state.number = state.number, state.number + 1
    for name, rows in (("groups", groups), ("queues", queues)):
        rows.write.mode("overwrite").parquet(url_of(place / f"{name}-{state.number}"))
    put_text(place / FILE, state.text())
    for name in ("groups", "queues"):
        remove(place / f"{name}-{before}")


def groups_of(spark: SparkSession, place: Place, state: State) -> DataFrame:
    """Return the groups that had something unsettled."""
    if not state.number:
        return spark.createDataFrame([], GROUPS)
    return spark.read.schema(GROUPS).parquet(readable(url_of(place / f"groups-{state.number}")))


def queues_of(spark: SparkSession, place: Place, state: State) -> DataFrame:
    """Return the consumers and policies of the queues."""
    if not state.number:
        return spark.createDataFrame([], QUEUES)
    return spark.read.schema(QUEUES).parquet(readable(url_of(place / f"queues-{state.number}")))


def still_there(queue_rows: DataFrame, settled: dict[int, int]) -> DataFrame:
    """Return those events of whole queues that the next audit must know.

    These are the JOINs of consumers that have not left, their last DEADLINE, and each policy. This
    call has judged already what concerns consumers that have left, and queues that were deleted.
    Consumers of a killed broker never leave. They are forgotten when the call before has read
    (`settled`) events of a later run.
    """
    deleted = (
        queue_rows.where(F.col("kind") == int(EventKind.DELETE))
        .groupBy("history", "name")
        .agg(F.max("pos").alias("deleted"))
    )
    queue_rows = (
        queue_rows.join(deleted, ["history", "name"], "left")
        .where(F.col("deleted").isNull() | (F.col("pos") > F.col("deleted")))
        .drop("deleted")
    )
    here = queue_rows.where(F.col("kind").isin(*map(int, (*PRESENT, EventKind.LEAVE))))
    run = F.shiftright("pos", RUN_BITS)
    joined = (
        here.where((F.col("kind") != int(EventKind.POLICY)) & (run >= _last_run(settled)))
        .groupBy("history", "name", "consumer", run.alias("run"))
        .agg(F.max_by(F.struct("group_id", "pos", "kind", "seq"), "pos").alias("last"))
        .where(F.col("last.kind") == int(EventKind.JOIN))
        .select("history", "name", "last.group_id", "last.pos", "last.kind", "consumer", "last.seq")
    )
    policies = (
        here.where(F.col("kind") == int(EventKind.POLICY))
        .groupBy("history", "name", "group_id")
        .agg(F.max("pos").alias("pos"))
        .select(
            "history", "name", "group_id", "pos", F.lit(int(EventKind.POLICY)).alias("kind"),
            F.lit(0).cast("long").alias("consumer"), F.lit(0).cast("long").alias("seq"),
        )
    )  # fmt: skip
    here = joined.select("history", "name", "consumer", F.shiftright("pos", RUN_BITS).alias("run"))
    overdue = (
        queue_rows.where(F.col("kind") == int(EventKind.DEADLINE))
        .groupBy("history", "name", "consumer", "kind", run.alias("run"))
        .agg(F.max("pos").alias("pos"), F.max("seq").alias("seq"))
        .join(here, ["history", "name", "consumer", "run"], "left_semi")
        .withColumn("group_id", F.lit(""))
        .drop("run")
    )
    return joined.unionByName(policies).unionByName(overdue)


def _last_run(settled: dict[int, int]) -> Column:
    """Return the number of the last run of a row's history that the call before has read."""
    if not settled:
        return F.lit(0)
    pairs = [F.lit(number) for pair in settled.items() for number in pair]
    at = F.create_map(*pairs)[F.col("history")]
    return F.shiftright(F.coalesce(at, F.lit(0)), RUN_BITS)


def settled(histories: list[History], state: State) -> dict[int, int]:
    """Return for each history the position up to which the last call had read.

    An event that was awaited at that time and is still missing counts as never coming: it had the
    time until the next call.
    """
    ends = state.ends()
    return {
        history.number: max(
            (
                chapter.base + ends[chapter.run]
                for chapter in history.chapters
                if ends.get(chapter.run, -1) >= chapter.first_eid
            ),
            default=0,
        )
        for history in histories
    }


def vanished(queue_rows: DataFrame) -> set[str]:
    """Return the temporary queues that were deleted; no other queue will have their names."""
    is_deleted = F.col("kind") == int(EventKind.DELETE)
    gone = queue_rows.where(is_deleted & F.col("name").startswith(TEMPORARY_ROOT))
    return {row.name for row in gone.select("name").distinct().collect()}
