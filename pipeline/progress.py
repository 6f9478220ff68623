"""Progress: one line on standard error that says what a job is doing, for how long, how far.

On a terminal the line is rewritten; elsewhere a step is said once and repeated only while it
lasts. Spark is asked for finished and running tasks of the stages at work. What a job has to say
goes to standard output.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Final, Self, TextIO

from pyspark.sql import SparkSession

TERMINAL_EVERY_S: Final = 0.5
FILE_EVERY_S: Final = 10.0
CLEAR_LINE: Final = "\r\x1b[K"


class Progress:
    """Says what goes on until it is left."""

    def __init__(
        self,
        job: str,
        spark: SparkSession,
        out: TextIO = sys.stderr,
        answers: TextIO = sys.stdout,
    ) -> None:
        self._job = job
        self._spark = spark
        self._answers = answers
        self._out = out
        self._is_terminal = out.isatty()
        self._step = "starting"
        self._started_at = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._keep_saying, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()
        if self._is_terminal:
            self._out.write(CLEAR_LINE)
        if error is None:
            self._out.write(f"{self._job}: done in {self._elapsed():.1f} s\n")
        self._out.flush()

    def step(self, text: str) -> None:
        """Say what is done from now on."""
        self._step = text
        self._say()

    def answer(self, text: str) -> None:
        """Say what the job found."""
        if self._is_terminal:
            self._out.write(CLEAR_LINE)
            self._out.flush()
        self._answers.write(f"{text}\n")
        self._answers.flush()

    def _keep_saying(self) -> None:
        every_s = TERMINAL_EVERY_S if self._is_terminal else FILE_EVERY_S
        while not self._is_over.wait(every_s):
            self._say()

    def _say(self) -> None:
        line = f"{self._job}: {self._step}{self._tasks()} ({self._elapsed():.0f} s)"
        self._out.write(f"{CLEAR_LINE}{line}" if self._is_terminal else f"{line}\n")
        self._out.flush()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started_at

    def _tasks(self) -> str:
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        if not known:
            return ""
        done = sum(stage.numCompletedTasks for stage in known)
        return f", {done} of {sum(stage.numTasks for stage in known)} tasks"
