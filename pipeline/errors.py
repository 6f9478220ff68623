"""PipelineError: what a job says when it cannot do its work, in one sentence for people.

An error that is raised in one of Spark's Python processes comes back inside Spark's own error,
between two traces. `one_line` finds it there, or at least what Python or Java had to say.
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
CALLED: Final = "An error occurred while calling"  # names a method of Java's, and no more


class PipelineError(Exception):
    """The input, an option or the machine is not as it must be; the text names which."""


def one_line(error: Exception) -> str:
    """Return what an error of Spark is about.

    That are our own words, else Python's, else what Java names as the cause of it all, else the
    first line.
    """
    text = str(error).strip()
    said = RAISED_FAR_AWAY.search(text) or RAISED_BY_PYTHON.search(text)
    if said:
        return said.group(1)
    causes = CAUSED_BY.findall(text)
    if causes:
        return str(causes[-1])
    lines = text.split("\n")
    return lines[1].lstrip(": ") if lines[0].startswith(CALLED) and lines[1:] else lines[0]
