"""PipelineError: what a job says when it cannot do its work, in one sentence for people.

Raised in one of Spark's Python processes it comes back inside Spark's own error, between two
traces; `one_line` finds it there.
"""

from __future__ import annotations

import re
from typing import Final

RAISED_FAR_AWAY: Final = re.compile(
    r"covey\.pipeline\.errors\.PipelineError: (.+?)(?: SQLSTATE|\n|$)"
)


class PipelineError(Exception):
    """The input, an option or the machine is not as it must be; the text names which."""


def one_line(error: Exception) -> str:
    """Return what an error of Spark is about: our own words if it has any, else its first line."""
    text = str(error).strip()
    ours = RAISED_FAR_AWAY.search(text)
    return ours.group(1) if ours else text.partition("\n")[0]
