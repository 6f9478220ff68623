"""Job: what `covey-pipeline` can run, and what every job is given."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from covey.pipeline.progress import Progress


@dataclass(frozen=True, slots=True)
class Task:
    """One call of a job: its options are `input`, `out`, and those it has added."""

    spark: SparkSession
    options: Namespace
    progress: Progress


@dataclass(frozen=True, slots=True)
class Job:
    """A job's one-line help, its own options, the function that gives its exit code, its input."""

    help: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Task], int]
    input: str = "an event log's directory"
