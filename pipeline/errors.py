"""PipelineError: what a job says when it cannot do its work, in one sentence for people.

Raised in one of Spark's Python processes it comes back inside Spark's own error, between two
traces; `one_line` finds it there, or at least what Python had to say.
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


class PipelineError(Exception):
    """The input, an option or the machine is not as it must be; the text names which."""


def one_line(error: Exception) -> str:
    """Return what an error of Spark is about: our own words, else Python's, else its first line."""
    text = str(error).strip()
    said = RAISED_FAR_AWAY.search(text) or RAISED_BY_PYTHON.search(text)
    return said.group(1) if said else text.partition("\n")[0]
