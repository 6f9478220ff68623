"""The data pipeline: what flows through the broker, as data for Spark.

    writer      the child process of the broker that writes the event log
    schema      the event log's columns          log      reading an event log
    pieces      its row groups, from footers     messages events turned into one row a message
    share       events dealt out by group        judge    one share, judged: sieve, then fold
    evidence    a violation on the page          policy   a strategy with its size
    rehearsal   arrivals played under policies
    session     Spark and its Java               progress one line that says what goes on
    report      a self-contained page            charts   its pictures
    pace        a record sent when its time comes
    source      the data source `covey`: reader (offsets, filters), client, columns; sink
                (frames, spread); options
    jobs/       what `covey-pipeline JOB` runs (command, __main__)

Nothing of the broker imports this package, and nothing heavy is imported by it: the writer
starts with the broker and must not pay for Spark. So `CoveyDataSource` is looked up when asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.pipeline.datasource.source import CoveyDataSource

__all__ = ["CoveyDataSource"]


def __getattr__(name: str) -> type[CoveyDataSource]:
    if name != "CoveyDataSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from covey.pipeline.datasource.source import CoveyDataSource

    return CoveyDataSource
