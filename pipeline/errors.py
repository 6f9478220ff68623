"""PipelineError: what a job says when it cannot do its work, in one sentence for people.

An error that is raised in one of Spark's Python processes comes back inside Spark's own error,
between two traces. `one_line` finds its text there, or else the message of Python or Java.
"""

from __future__ import annotations

import re
from typing import Final

RAISED_FAR_AWAY: Final = re.compile(
    r"covey\.pipeline\.errors\.PipelineError: (.+?)(?: SQLSTATE|\n|$)"
)
RAISED_BY_PYTHON: Final = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S.*)"
)
CAUSED_BY: Final = re.compile(r"^Caused by: (?:[\w$]+\.)*([\w$]+: .+)$", re.MULTILINE)
LACKS_MODULE: Final = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
CALLED: Final = "An error occurred while calling"  # names a method of Java's, and no more


class PipelineError(Exception):
    """The input, an option or the machine is not as it must be; the text names which."""


def one_line(error: Exception) -> str:
    """Return the cause of an error of Spark.

    This is the text of our own error, else that of Python's, else the root cause that Java names,
    else the first line.
    """
    text = str(error).strip()
    said = RAISED_FAR_AWAY.search(text) or RAISED_BY_PYTHON.search(text)
    if said:
        return _of_python(said.group(1))
    causes = CAUSED_BY.findall(text)
    if causes:
        return str(causes[-1])
    lines = text.split("\n")
    return lines[1].lstrip(": ") if lines[0].startswith(CALLED) and lines[1:] else lines[0]


def _of_python(text: str) -> str:
    """Return what Python said; if it lacks a module, what to do about it."""
    lacks = LACKS_MODULE.match(text)
    if lacks is None:
        return text
    return (
        f"the workers' Python has no {lacks[1]}: install Covey with its extra pipeline there, or"
        " bring an environment that has it (docs/pipeline.md, A packed environment)"
    )
