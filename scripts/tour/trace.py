"""Trace: which file of the broker calls which, while something is recorded.

A step is one call from a file to another one. Calls within a file, and calls into Python or a
library, are not steps. When a library calls back, the file that called the library counts as the
caller. A call from the event loop, and the first function of a thread, have no caller.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
MAIN_THREAD = "MainThread"
GENERATOR = "src/covey/bench"  # is a client, as tests are


@dataclass(frozen=True, slots=True)
class Step:
    """One call between two files."""

    caller: str  # "" if the call comes from outside
    callee: str
    function: str
    depth: int  # how many steps enclose this one
    thread: str


class Trace:
    """Records the steps of this thread, and of all threads that are started later."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._is_on = False
        threading.setprofile(self._called)
        sys.setprofile(self._called)

    def start(self) -> None:
        """Forget what was recorded, and begin to record."""
        self.steps.clear()
        self._is_on = True

    def stop(self) -> None:
        """Record nothing from now on, in no thread."""
        self._is_on = False
        sys.setprofile(None)
        threading.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if not self._is_on or event != "call":
            return
        callee = place(frame.f_code.co_filename)
        if not callee:
            return
        callers = _files_above(frame)
        if callers and callers[0] == callee:
            return
        changes = sum(above != below for above, below in pairwise(callers))
        step = Step(
            caller=callers[0] if callers else "",
            callee=callee,
            function=frame.f_code.co_qualname,
            depth=changes + 1 if callers else 0,
            thread=threading.current_thread().name,
        )
        self.steps.append(step)


@cache
def place(file: str) -> str:
    """Return the path of a broker's file within the checkout; "" for any other file."""
    path = Path(file)
    if not path.is_absolute():
        return ""
    resolved = path.resolve()  # src/covey/core is a link
    if not resolved.is_relative_to(ROOT):
        return ""
    found = resolved.relative_to(ROOT)
    is_other = found.parts[0] in ("scripts", "tests", ".venv") or found.is_relative_to(GENERATOR)
    return "" if is_other else found.as_posix()


def _files_above(frame: FrameType) -> list[str]:
    """Return the broker's files on the stack, the nearest first."""
    found = []
    above = frame.f_back
    while above is not None:
        if file := place(above.f_code.co_filename):
            found.append(file)
        above = above.f_back
    return found
