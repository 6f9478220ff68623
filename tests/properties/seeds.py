"""Seeds of the random runs: the same in every run, or others on demand.

`COVEY_RANDOM=7` plays the sequences from seed 7,000,000 on, so that a search can go on where
another one ended. A failure names its seed.

`portions` chooses how much the judged queue does at a time where it goes through very much. The
referee knows of no portions: what it allows is what doing all at once would allow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from covey.core.dispatch import admission, aside

APART = 1_000_000  # more sequences than anybody plays at a time
PORTIONS = (  # module, name, what is tried beside the value that the broker has
    (admission, "ASIDE_PORTION", (1, 2)),
    (aside, "BLOCK_MAX", (1, 2, 3)),
)


def first_seed() -> int:
    """Return the first seed to play."""
    wanted = os.environ.get("COVEY_RANDOM", "")
    return int(wanted) * APART if wanted.isdecimal() else 0


@contextmanager
def portions(seed: str) -> Iterator[None]:
    """Choose the portions of one run."""
    dice = Random(f"{seed} portions")
    before = [getattr(module, name) for module, name, _ in PORTIONS]
    try:
        for (module, name, small), usual in zip(PORTIONS, before, strict=True):
            setattr(module, name, dice.choice((usual, *small)))
        yield
    finally:
        for (module, name, _), usual in zip(PORTIONS, before, strict=True):
            setattr(module, name, usual)
