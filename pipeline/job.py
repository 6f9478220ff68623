"""Job: what `covey-pipeline` can run, and what every job is given."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from pyspark.sql import SparkSession

from covey.pipeline.errors import PipelineError
from covey.pipeline.spark import Progress


@dataclass(frozen=True, slots=True)
class Task:
    """One call of a job: its options are `input`, `out`, and those it has added."""

    spark: SparkSession
    options: Namespace
    progress: Progress


@dataclass(frozen=True, slots=True)
class Job:
    """A job's one-line help, its own options, its functions, and a description of its input.

    `run` returns the exit code. `check` is called before Spark is started, because that start is
    slow. It raises PipelineError for every fault that can be seen without Spark.
    """

    help: str
    add_options: Callable[[ArgumentParser], None]
    check: Callable[[Namespace], None]
    run: Callable[[Task], int]
    input: str = "an event log's directory"
    has_out: bool = True  # the job writes a report


def whole_numbers_of(option: str, text: str) -> list[int]:
    """Read a list such as `4,8`; raises PipelineError unless all are whole numbers above 0."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise PipelineError(f"{option} {text}: whole numbers above 0 are meant, as in 4,8")
    return [int(part) for part in parts]


def numbers_of(option: str, text: str) -> list[float]:
    """Read a list such as `4,8`; raises PipelineError unless all are numbers above 0."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 < number < inf for number in found):
        raise PipelineError(f"{option} {text}: numbers above 0 are meant, as in 4,8")
    return found
