"""Broken input in bulk, to whichever build is tested; `scripts/fuzz` tries as much as one likes."""

from __future__ import annotations

import pytest

from tests.properties.builds import is_compiled
from tests.properties.fuzz import INPUTS, SHARES, Batch, fuzz, fuzz_all

pytestmark = pytest.mark.slow  # all places and all inputs: not for the inner loop

PLAIN_INPUTS = 3000  # of the source: it is slower, and `scripts/test --compiled` tries many more
SEED = 1


def nobody(kind: str, total: Batch) -> None:
    """Watch no progress."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_broken_input_ends_its_own_connection_in_its_protocols_words() -> None:
    inputs = INPUTS if is_compiled() else PLAIN_INPUTS
    total = fuzz_all(inputs, SEED, [*SHARES], nobody)
    assert total.faults == []
    assert total.inputs >= 0.99 * inputs
    assert inputs // 4 < total.ended  # else the mutations do not test much


@pytest.mark.parametrize("kind", ["stomp", "amqp"])
def test_an_input_is_had_again_by_its_number(kind: str) -> None:
    assert fuzz(kind, 7, 100, 20) == fuzz(kind, 7, 100, 20)
