"""Builds: the engines in plain Python and as mypyc compiles them, each in a process of its own.

This process has one of the two; `other_build` says where the other one is. A worker with that one
on its path is handed talks and ways to cut them, and answers with what its clients heard.

    python -m tests.properties.builds     the worker: pickled jobs on stdin, answers on stdout
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from covey.core.model import entry
from tests.properties.stage import Cut, Talk, bytewise, cut_at, cut_by, play, whole

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "src"

# How a talk is cut: ("whole",), ("bytewise",), ("at", step, place) or ("by", seed).
Way = tuple[str, *tuple[int, ...]]
Job = tuple[Talk, list[Way], bool]  # the last: give all that was heard, not only its digest


def is_compiled() -> bool:
    """Say which build this process has."""
    return not entry.__file__.endswith(".py")


def other_build() -> Path | None:
    """Return where the other build is; None: there is no compiled one of this source."""
    if is_compiled():
        return SOURCE
    script = [str(ROOT / "scripts/build"), "--ready"]
    ready = subprocess.run(script, capture_output=True, text=True, check=False).stdout.strip()
    return Path(ready) if ready else None


def cut_of(way: Way) -> Cut:
    """Return what cuts so."""
    kind, *numbers = way
    if kind == "at":
        return cut_at(*numbers)
    if kind == "by":
        return cut_by(*numbers)
    return whole if kind == "whole" else bytewise


def answers(job: Job) -> list[bytes]:
    """Return what was heard each way, or its digest."""
    talk, ways, is_full = job
    heard = [b"\n-- the next client --\n".join(play(talk, cut_of(way))) for way in ways]
    return heard if is_full else [blake2b(each, digest_size=16).digest() for each in heard]


class Worker:
    """A process with the other build."""

    def __init__(self, build: Path) -> None:
        path = os.pathsep.join([str(build), str(ROOT)])
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "tests.properties.builds"],
            env=dict(os.environ, PYTHONPATH=path),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        other: bool = pickle.load(self.process.stdout)
        assert other != is_compiled(), "both processes have the same build"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.communicate()

    def start(self, job: Job) -> None:
        """Hand it a job."""
        assert self.process.stdin is not None
        pickle.dump(job, self.process.stdin)
        self.process.stdin.flush()

    def result(self) -> list[bytes]:
        """Wait for the answers to it."""
        assert self.process.stdout is not None
        found: list[bytes] = pickle.load(self.process.stdout)
        return found


def main() -> None:
    """Do jobs until there are no more."""
    out = sys.stdout.buffer
    pickle.dump(is_compiled(), out)
    out.flush()
    while True:
        try:
            job: Job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(answers(job), out)
        out.flush()


if __name__ == "__main__":
    main()
