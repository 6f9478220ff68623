"""The `covey-pipeline` command: one job of the data pipeline.

    covey-pipeline JOB --input PATH --out DIR [--master M] [the job's own options]

Exit codes:

    0      done
    1      the job found a fault (see its help)
    2      the job could not do its work; one line on standard error says why
    130    the job was interrupted

`spark-submit` may run this file as well.
"""

from __future__ import annotations

import logging
import signal
import sys
from argparse import ArgumentParser, Namespace
from threading import Event
from types import FrameType
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from covey import __version__
from covey.pipeline.datasource.options import SCHEME
from covey.pipeline.errors import PipelineError, one_line
from covey.pipeline.job import Job, Task
from covey.pipeline.jobs import archive, audit, compact, plan, replay, skew
from covey.pipeline.places import RemotePlace, make_out, place_of
from covey.pipeline.spark import (
    CONNECT,
    Progress,
    Wanted,
    add_session_options,
    open_session,
    wanted_of,
)

USAGE_ERROR: Final = 2
INTERRUPTED: Final = 130  # the exit code of a shell's command that Ctrl-C has ended

JOBS: Final[dict[str, Job]] = {
    "archive": archive.JOB,
    "audit": audit.JOB,
    "compact": compact.JOB,
    "plan": plan.JOB,
    "replay": replay.JOB,
    "skew": skew.JOB,
}


def main(argv: list[str] | None = None) -> int:
    """Run a job; return its exit code."""
    try:
        options = parser().parse_args(argv)
        job = JOBS[options.job]
        wanted = wanted_of(options)
        job.check(options)
        check_places(options)
        if job.has_out:
            make_out(options.out)
        if getattr(options, "state", ""):
            make_out(place_of(options.state), "--state")
        spark = start(options.job, wanted)
        try:
            with Progress(options.job, spark) as progress:
                return job.run(Task(spark, options, progress))
        finally:
            spark.stop()
    except KeyboardInterrupt:
        _fail("interrupted")
        return INTERRUPTED
    except (PipelineError, OSError) as error:
        return _fail(str(error))
    except (PySparkException, Py4JError) as error:
        return _fail(one_line(error))


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(
        prog="covey-pipeline", description="Jobs on what flows through the broker, on Spark."
    )
    parser.add_argument("--version", action="version", version=f"covey {__version__}")
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB")
    for name, job in JOBS.items():
        sub = jobs.add_parser(name, help=job.help, description=job.help)
        sub.add_argument("--input", default="", metavar="PLACE", help=job.input)
        if job.has_out:
            sub.add_argument(
                "--out",
                required=True,
                type=place_of,
                metavar="DIR",
                help="for the report and its tables; any file system that Spark knows",
            )
        add_session_options(sub)
        job.add_options(sub)
    return parser


def check_places(options: Namespace) -> None:
    """Raise PipelineError if a job cannot read or write at a place, as far as its name tells.

    By Spark Connect small files cannot be written where Spark's Java is needed for it.
    """
    if options.input.startswith(f"{SCHEME}:") and options.job != "archive":
        raise PipelineError(f"--input {options.input}: only archive reads from a broker")
    for name in ("out", "state"):
        place = str(getattr(options, name, ""))
        if options.master.startswith(CONNECT) and isinstance(place_of(place), RemotePlace):
            raise PipelineError(
                f"--{name} {place}: by Spark Connect a directory of this machine is meant"
            )


def start(job: str, wanted: Wanted) -> SparkSession:
    """Start Spark; an interrupt waits for that, or a half-started Java would be left behind."""
    is_asked = Event()
    signal.signal(signal.SIGINT, lambda number, frame: is_asked.set())
    logging.disable()
    try:
        spark = open_session(job, wanted)
    finally:
        logging.disable(logging.NOTSET)
        signal.signal(signal.SIGINT, _interrupt)
    if hasattr(spark, "_jvm"):  # a Spark Connect server sets its own log level
        spark.sparkContext.setLogLevel(wanted.log_level or "OFF")  # we report errors ourselves
    if is_asked.is_set():
        spark.stop()
        raise KeyboardInterrupt
    return spark


def _interrupt(number: int, frame: FrameType | None) -> None:
    """End the job; Spark's own handler would call Java in the middle of another call."""
    logging.disable()  # calls that wait for Java would log long traces
    raise KeyboardInterrupt


def _fail(text: str) -> int:
    sys.stderr.write(f"covey-pipeline: {text}\n")
    return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
