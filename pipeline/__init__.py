"""The data pipeline: what flows through the broker, as data for Spark.

    event_log/     the event log as files: its columns, the broker's child process that writes them,
                   and how jobs read them
    datasource/    the data source `covey`: queues as tables and streams of Spark, both ways
    jobs/          what `covey-pipeline JOB` runs, one file or more each
    __main__       the command; `command` is what is installed, and starts without Spark
    job, errors    what every job is given, and what it says when it cannot do its work
    spark          the Spark session of a job, the Java under it, and a line that tells its progress
    report         a self-contained page, with its charts

No module of the broker imports this package. The package itself imports nothing heavy: the writer
starts with the broker, and must not pay for Spark. So `CoveyDataSource` and `register` are imported
only when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covey.pipeline.datasource.source import CoveyDataSource, register

__all__ = ["CoveyDataSource", "register"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from covey.pipeline.datasource import source

    return getattr(source, name)
