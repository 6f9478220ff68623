"""The command `scripts/bench scale`: what a job of the pipeline needs as the log grows.

    scripts/bench scale [audit|skew|plan ...] [--events 1e6,1e7] [--hot 0,0.9] [--tasks 1,2,4]
    scripts/bench scale --days 100 [--events 1e6]

With `--days` it is `audit --state` on a log that gets so many events a day: on the first days and
on the last ones. What lies between is read in one call. The log has a file an hour, as `compact`
leaves it.

The compiled build is measured where there is one. Each line is one job on one log, with Spark's
start: wall time, processor time of all its processes, the largest Python worker and Java, and how
many programs wanted a processor before and after. With more than there are processors, the wall
time says little. 10^8 events take 600 MB, and `audit` 13 GB of scratch space beside them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Final

from scripts.benchmark.process_memory import MIB, load, watched
from scripts.benchmark.workloads.event_logs import GrowingLog, Traffic, write_event_log

JOBS: Final = ("audit", "skew", "plan")
EVENTS_PER_MESSAGE: Final = 3
HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
BACKLOG_S: Final = HOUR_S  # how long each message waits where the log goes on for days


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is asked for; the exit code is 1 if a job failed."""
    arguments = parser().parse_args(argv)
    folder = Path(mkdtemp(prefix="covey-scale-", dir=arguments.folder))
    failures = 0
    try:
        for events in _numbers(arguments.events):
            for hot in _numbers(arguments.hot):
                log = folder / f"{events:.0f}-{hot:g}"
                if arguments.days:
                    failures += measure_days(log, folder, int(events), hot, arguments)
                    continue
                traffic = Traffic(int(events) // EVENTS_PER_MESSAGE, hot_share=hot)
                count = write_event_log(log, traffic)
                for job in arguments.jobs or ("audit",):
                    for tasks in arguments.tasks.split(","):
                        what = f"{job} {count:,} events, {hot:.0%} in one group, {tasks} tasks"
                        failures += measure(what, job, log, folder, tasks, arguments.option)
                rmtree(log)
    finally:
        rmtree(folder, ignore_errors=True)
    return int(failures > 0)


def measure_days(
    log: Path, folder: Path, events: int, hot: float, arguments: argparse.Namespace
) -> int:
    """Audit a log day by day; return how many calls failed."""
    a_day = events // EVENTS_PER_MESSAGE
    traffic = Traffic(
        a_day * arguments.days,
        hot_share=hot,
        messages_per_s=a_day / DAY_S,
        wait_s=BACKLOG_S,
        rotate_age_s=HOUR_S,
    )
    growing = GrowingLog(log, traffic)
    state = folder / f"state-{hot:g}"
    failures = before = 0
    for day in range(1, arguments.days + 1):
        count = growing.grow(a_day)
        if 2 < day < arguments.days - 2:
            continue
        what = f"audit --state, day {day}, {count - before:,} events, {hot:.0%} in one group"
        options = (*arguments.option, "--state", str(state))
        failures += measure(what, "audit", log, folder, arguments.tasks, options)
        before = count
    size = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
    sys.stdout.write(f"the state has {size // 1024:,} KB in the end\n")
    return failures


def measure(
    what: str, job: str, log: Path, folder: Path, tasks: str, more: Sequence[str] = ()
) -> bool:
    """Run one job and print what it took; return whether it failed."""
    command = [sys.executable, "-P", "-m", "covey.pipeline", job, "--input", str(log), *more]
    command += ["--out", str(folder / "out"), "--master", f"local[{tasks}]"]
    command += ["--conf", f"spark.local.dir={folder / 'scratch'}"]
    before, began = load(), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    with watched(process.pid) as watch:
        said, _ = process.communicate()
    seconds = time.monotonic() - began
    memory = ", ".join(f"{name} {peak // MIB} MB" for name, peak in sorted(watch.peaks.items()))
    sys.stdout.write(
        f"{what}: {seconds:.0f} s, processor {watch.processor_s:.0f} s, {memory},"
        f" load {before:.1f} to {load():.1f}; {said.splitlines()[0] if said else 'it failed'}\n"
    )
    sys.stdout.flush()
    return process.returncode != 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(prog="scripts/bench scale", description=__doc__.splitlines()[0])
    made.add_argument("jobs", nargs="*", metavar="job", help=f"of {', '.join(JOBS)}; default audit")
    made.add_argument("--events", default="1e6", help="sizes of logs (default 1e6)")
    made.add_argument("--hot", default="0,0.9", help="parts of the messages in one group")
    made.add_argument("--tasks", default="2", help="how many tasks run at once (default 2)")
    made.add_argument("--days", type=int, default=0, help="audit so many days, one after the other")
    made.add_argument("--option", action="append", default=[], help="of the job, as --speed=4")
    made.add_argument("--folder", type=Path, default=None, help="where the logs are for a while")
    return made


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
