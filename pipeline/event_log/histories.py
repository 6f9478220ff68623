"""Histories: the runs of a log, their missing events, and which runs continue the same store.

A run is one start of one process, with one sequence of event ids. It may serve several virtual
hosts. Each virtual host has a store, which outlives the run: another run goes on with the store,
maybe in another process. So a history is the chain of runs that had the store of one virtual host,
as the column `predecessor` links them. In a cluster a virtual host may come back to a process that
had it before. Then that run is in the history several times: each of its `Tenure`s begins with an
event of its own. All events of a history have one order: their `position`. Its upper bits are the
number of the part, its lower bits the event id (`RUN_BITS`).

All of this is worked out from a small table (`figures_of`), which Spark makes of the log in one
pass. The table has for each run, host and block of event ids the number of events, the sum of their
ids and the sum of the squares of their ids. These sums show whether ids of a block are missing or
there twice. Only the events of such blocks are looked at.

Logs of schema 2 and before have no predecessors: each run is a history of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from covey.core.events.event import KIND_NAMES, EventKind
from covey.core.events.event_log import HOST_MARK
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.reader import kind_is

BLOCK_BITS: Final = 20  # 2^20 ids a block: few enough for the driver to look at
RUN_BITS: Final = 40  # bits of a position that hold the event id
GAPS_MAX: Final = 100_000  # more count as one gap: nothing between the first and the last is judged


class Run(NamedTuple):
    """One start of the broker, as far as the log has it."""

    run: str
    events: int
    first_eid: int
    last_eid: int
    began: datetime
    ended: datetime


class Gap(NamedTuple):
    """Events of a run that are missing."""

    run: str
    first: int
    last: int


class Chapter(NamedTuple):
    """The part of a history that is one run, or the time for which a run had the host."""

    run: str
    base: int  # the position before the run's first event
    last_eid: int
    begins_whole: bool  # the log has its first event
    is_told: bool  # the run logs what it recovered, and its patterns of logged queues
    follows: bool  # the chapter before is the last run that had the store
    is_cut: bool  # the end of the run before is missing in the log, but is in the store
    doubt_from: int  # changes after this position had not reached the store; -1: not known
    patterns: str
    first_eid: int = 0  # of the host's, if the run had it before


class History(NamedTuple):
    """The runs that had the store of one virtual host, in their order."""

    number: int
    host: str
    prefix: str  # the prefix of its queues' names in the log
    chapters: tuple[Chapter, ...]
    gaps: tuple[int, ...]  # positions before which events are missing, ascending

    def place_of(self, position: int) -> tuple[str, int]:
        """Return run and event id of a position."""
        found = self.chapters[0]
        for chapter in self.chapters:
            if chapter.base < position:
                found = chapter
        return found.run, position - found.base


class Start(NamedTuple):
    """What a run logs of a virtual host when it starts to serve it."""

    run: str
    host: str
    predecessor: str
    patterns: str
    position: int
    eid: int = 0  # of this event


class Tenure(NamedTuple):
    """The time for which a run had a host."""

    name: str  # of run and host, and of its first event if the run had the host before
    run: Run
    host: str
    first_eid: int
    last_eid: int
    start: Start | None


class LogFigures(NamedTuple):
    """The figures of a log, without its single messages."""

    runs: list[Run]
    gaps: list[Gap]
    doubled: int  # how many event ids belong to two different events
    kinds: dict[int, int]
    starts: list[Start]
    policies: dict[str, set[str]]
    """By the name of a queue: the strategies that it went by."""
    hosts: dict[tuple[str, str], tuple[str, bool]]
    """By run and host: the predecessor, and whether queues are shown with their host."""

    @property
    def unknown(self) -> int:
        """How many events are of kinds that this version does not know."""
        return sum(count for kind, count in self.kinds.items() if kind not in KIND_NAMES)


def figures_of(events: DataFrame) -> LogFigures:
    """Sum up a log; raises PipelineError if some of its files are there twice."""
    block = F.shiftright("eid", BLOCK_BITS)
    inside = F.col("eid") - F.shiftleft(block, BLOCK_BITS)
    policy = F.struct(F.substring_index("queue", HOST_MARK, -1).alias("name"), "group_id")
    rows = (
        events.groupBy(
            "run", F.col("virtual_host").alias("host"), "predecessor", block.alias("block"), "kind"
        )
        .agg(
            F.count("*").alias("events"),
            F.min("eid").alias("first"),
            F.max("eid").alias("last"),
            F.sum(inside).alias("total"),
            F.sum(inside * inside).alias("squares"),
            F.min("ts").alias("began"),
            F.max("ts").alias("ended"),
            F.max(F.instr("queue", HOST_MARK) > 0).alias("is_prefixed"),
            F.collect_set(F.when(kind_is(EventKind.POLICY), policy)).alias("policies"),
        )
        .collect()
    )
    runs = sorted(_runs(rows), key=lambda run: (run.began, run.run))
    broken = list(_broken_blocks(rows, runs))
    gaps, doubled = _look_into(events, broken)
    gaps += _missing_blocks(rows)
    told = events.where(kind_is(EventKind.START)).select(
        "run", "virtual_host", "predecessor", "group_id", "seq", "eid"
    )
    starts = [Start(*row) for row in told.collect()]
    hosts = {(row.run, row.host): (row.predecessor, False) for row in rows if row.host is not None}
    hosts |= {(row.run, row.host): (row.predecessor, True) for row in rows if row.is_prefixed}
    kinds: dict[int, int] = {}
    policies: dict[str, set[str]] = {}
    for row in rows:
        kinds[row.kind] = kinds.get(row.kind, 0) + row.events
        for one in row.policies:
            policies.setdefault(one.name, set()).add(one.group_id)
    return LogFigures(runs, _in_order(gaps), doubled, kinds, starts, policies, hosts)


def _runs(rows: list[Row]) -> Iterator[Run]:
    for name in {row.run for row in rows}:
        mine = [row for row in rows if row.run == name]
        yield Run(
            name,
            sum(row.events for row in mine),
            min(row["first"] for row in mine),
            max(row["last"] for row in mine),
            min(row.began for row in mine),
            max(row.ended for row in mine),
        )


def _blocks(rows: list[Row]) -> dict[tuple[str, int], list[int]]:
    """Return count, first, last, sum and sum of squares of each block."""
    found: dict[tuple[str, int], list[int]] = {}
    for row in rows:
        count, total, squares = row.events, row.total, row.squares
        known = found.get((row.run, row.block))
        if known is None:
            found[row.run, row.block] = [count, row["first"], row["last"], total, squares]
        else:
            known[0] += count
            known[1] = min(known[1], row["first"])
            known[2] = max(known[2], row["last"])
            known[3] += total
            known[4] += squares
    return found


def _broken_blocks(rows: list[Row], runs: list[Run]) -> Iterator[tuple[str, int]]:
    """Yield the blocks in which ids are missing or doubled."""
    for (run, block), (count, first, last, total, squares) in _blocks(rows).items():
        begin = block << BLOCK_BITS
        low, high = first - begin, last - begin
        wanted = (high - low + 1, _sum(high) - _sum(low - 1), _squares(high) - _squares(low - 1))
        if (count, total, squares) != wanted:
            yield run, block


def _sum(number: int) -> int:
    return number * (number + 1) // 2


def _squares(number: int) -> int:
    return number * (number + 1) * (2 * number + 1) // 6


def _missing_blocks(rows: list[Row]) -> list[Gap]:
    """Return the gaps between blocks."""
    before: dict[str, int] = {}
    gaps = []
    for (run, _), (_, first, last, _, _) in sorted(_blocks(rows).items()):
        if first > before.get(run, first - 1) + 1:
            gaps.append(Gap(run, before[run] + 1, first - 1))
        before[run] = last
    return gaps


def _look_into(events: DataFrame, broken: list[tuple[str, int]]) -> tuple[list[Gap], int]:
    """Return the gaps inside these blocks, and how many ids belong to two events."""
    gaps: list[Gap] = []
    doubled = 0
    for run, block in broken:
        begin = block << BLOCK_BITS
        mine = events.where(
            (F.col("run") == run) & F.col("eid").between(begin, begin + (1 << BLOCK_BITS) - 1)
        )
        same = mine.groupBy("eid").agg(
            F.count("*").alias("n"), F.countDistinct("kind", "queue", "group_id", "seq").alias("m")
        )
        found = same.select("eid", "n", "m").toArrow()
        if any(n > m for n, m in zip(*(found[name].to_pylist() for name in "nm"), strict=True)):
            raise PipelineError(f"--input: it has events of run {run} twice; is a file copied?")
        doubled += int(np.count_nonzero(found["n"].to_numpy() > 1))
        eids = np.sort(found["eid"].to_numpy())
        gaps += [
            Gap(run, int(eids[at]) + 1, int(eids[at + 1]) - 1)
            for at in np.flatnonzero(np.diff(eids) > 1)
        ]
    return gaps, doubled


def _in_order(gaps: list[Gap]) -> list[Gap]:
    ordered = sorted(gaps)
    if len(ordered) <= GAPS_MAX:
        return ordered
    by_run: dict[str, Gap] = {}
    for gap in ordered:
        known = by_run.get(gap.run, gap)
        by_run[gap.run] = Gap(gap.run, known.first, gap.last)
    return sorted(by_run.values())


class Numbers(NamedTuple):
    """The numbers of runs and histories, which stay the same from audit to audit."""

    runs: dict[str, int]  # by run and host, see `Tenure`
    histories: dict[str, int]


def histories_of(figures: LogFigures, known: Numbers | None = None) -> list[History]:
    """Chain the runs of each virtual host; new runs and histories get the next numbers."""
    numbers, names = known or Numbers({}, {})
    before = _before(figures)
    for part in _in_time(before):
        numbers.setdefault(part.name, len(numbers) + 1)
    bases = {name: number << RUN_BITS for name, number in numbers.items()}
    found: list[History] = []
    for chain in _chains(before, bases):
        parts: dict[str, list[Tenure]] = {}
        for part in chain:
            parts.setdefault(part.run.run, []).append(part)
        gaps = [
            bases[part.name] + gap.last
            for gap in figures.gaps
            for part in parts.get(gap.run, ())
            if part.first_eid <= gap.last <= part.last_eid
        ]
        host = chain[0].host
        keys = [(part.run.run, host) for part in chain]
        is_prefixed = any(figures.hosts.get(key, ("", False))[1] for key in keys)
        prefix = host + HOST_MARK if is_prefixed else ""
        number = names.setdefault(chain[0].name, len(names))
        chapters = tuple(_chapters(chain, bases))
        found.append(History(number, host, prefix, chapters, tuple(sorted(gaps))))
    return sorted(found)


def _before(figures: LogFigures) -> dict[Tenure, Tenure | None]:
    """Return each part of a run with the part that had the host's store before it."""
    starts: dict[tuple[str, str], list[Start]] = {}
    for start in sorted(figures.starts, key=_eid_of):
        starts.setdefault((start.run, start.host), []).append(start)
    hosts: dict[str, list[str]] = {}
    for name, host in figures.hosts:
        hosts.setdefault(name, []).append(host)
    parts = {
        (run.run, host): list(_tenures(run, host, starts.get((run.run, host), [])))
        for run in figures.runs
        for host in hosts.get(run.run, [""])
    }
    found: dict[Tenure, Tenure | None] = {}
    for part in (one for several in parts.values() for one in several):
        named = figures.hosts.get((part.run.run, part.host), ("", False))[0]
        predecessor = part.start.predecessor if part.start else named
        earlier = [one for one in parts.get((predecessor, part.host), ()) if one is not part]
        at = part.start.position if part.start else 0
        begun = [one for one in earlier if one.first_eid <= at] or earlier[:1]
        found[part] = begun[-1] if begun else None
    return found


def _eid_of(start: Start) -> int:
    return start.eid


def _tenures(run: Run, host: str, starts: list[Start]) -> Iterator[Tenure]:
    name = f"{run.run}{HOST_MARK}{host}"
    if len(starts) < 2:
        yield Tenure(name, run, host, 0, run.last_eid, starts[0] if starts else None)
        return
    ends = [start.eid - 1 for start in starts[1:]] + [run.last_eid]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        first = start.eid if number else 0
        yield Tenure(f"{name}{HOST_MARK}{first}" if first else name, run, host, first, end, start)


def _in_time(before: dict[Tenure, Tenure | None]) -> list[Tenure]:
    """Return the parts in order: a predecessor comes first, even if a clock says otherwise."""
    done: dict[Tenure, None] = {}
    for part in sorted(before, key=lambda one: (one.run.began, one.run.run, one.first_eid)):
        waiting = [part]
        earlier = before[part]
        while earlier is not None and earlier not in done and earlier not in waiting:
            waiting.append(earlier)
            earlier = before[earlier]
        done.update(dict.fromkeys(reversed(waiting)))
    return list(done)


def _chains(before: dict[Tenure, Tenure | None], bases: dict[str, int]) -> Iterator[list[Tenure]]:
    """Yield the parts of each history; if two follow on one, the first continues it."""
    following: dict[Tenure, Tenure] = {}
    ordered = sorted(before, key=lambda part: (bases[part.name], part.host))
    for part in ordered:
        earlier = before[part]
        if earlier is not None and bases[earlier.name] < bases[part.name]:
            following.setdefault(earlier, part)
    followers = set(following.values())
    for part in ordered:
        if part not in followers:
            chain = [part]
            while chain[-1] in following:
                chain.append(following[chain[-1]])
            yield chain


def _chapters(chain: list[Tenure], bases: dict[str, int]) -> Iterator[Chapter]:
    for at, part in enumerate(chain):
        start = part.start
        after = chain[at + 1].start if at + 1 < len(chain) else None
        before = chain[at - 1] if at else None
        begins_whole = part.run.first_eid == 1 or part.first_eid > 0
        yield Chapter(
            part.run.run,
            bases[part.name],
            part.last_eid,
            begins_whole,
            start is not None and begins_whole,
            before is not None,
            before is not None and (start is None or start.position > before.last_eid),
            -1 if after is None else bases[part.name] + after.position,
            "" if start is None else start.patterns,
            part.first_eid,
        )


def unlogged(figures: LogFigures) -> list[str]:
    """Return the runs that are named as predecessors, but are not in the log."""
    known = {run.run for run in figures.runs}
    missing = {before for before, _ in figures.hosts.values() if before and before not in known}
    return sorted(missing)


def placed(events: DataFrame, histories: list[History]) -> DataFrame:
    """Return events with the number of their history and their position in it."""
    rows: list[tuple[Any, ...]] = [
        (chapter.run, history.host, history.number, chapter.base, *_range_of(chapter))
        for history in histories
        for chapter in history.chapters
    ]
    schema = "run string, host string, history int, base long, first long, end long"
    known = events.sparkSession.createDataFrame(rows, schema)
    host = F.coalesce("virtual_host", F.lit(""))
    joined = events.withColumn("host", host).join(F.broadcast(known), ["run", "host"])
    if any(chapter.first_eid for history in histories for chapter in history.chapters):
        joined = joined.where(F.col("eid").between(F.col("first"), F.col("end")))
    placed = joined.withColumn("pos", F.col("base") + F.col("eid"))
    return placed.drop("host", "base", "first", "end")


def _range_of(chapter: Chapter) -> tuple[int, int]:
    return chapter.first_eid, chapter.last_eid
