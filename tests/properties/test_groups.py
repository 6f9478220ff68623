"""Random sequences of events, each delivery judged by the referee, for every strategy.

COVEY_SEQUENCES sets how many sequences are played in all (2,000 are the least that notice the
subtle breaks); a failure names its seed, and `run(seed, strategy)` plays it again.
"""

from __future__ import annotations

import os

import pytest

from tests.properties.driver import STRATEGIES, run
from tests.properties.seeds import first_seed

SEQUENCES = int(os.environ.get("COVEY_SEQUENCES", "2000"))
PARTS = 4  # so that a run may be spread over processes, and a failure shows the part


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_delivery_breaks_a_rule(strategy: str, part: int) -> None:
    each = max(1, SEQUENCES // (len(STRATEGIES) * PARTS))
    deliveries = sum(run(first_seed() + part * each + i, strategy) for i in range(each))
    assert deliveries > each, "too few deliveries to have judged anything"
