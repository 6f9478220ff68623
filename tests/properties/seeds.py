"""Seeds of the random runs: the same in every run, or others on demand.

`COVEY_RANDOM=7` plays the sequences from seed 7,000,000 on, so that a search can go on where
another one ended. A failure names its seed.
"""

from __future__ import annotations

import os

APART = 1_000_000  # more sequences than anybody plays at a time


def first_seed() -> int:
    """Return the first seed to play."""
    wanted = os.environ.get("COVEY_RANDOM", "")
    return int(wanted) * APART if wanted.isdecimal() else 0
