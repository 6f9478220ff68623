"""The encoder: nothing makes it fail, for it is too late to refuse a message."""

from __future__ import annotations

import pytest

from covey.protocols.amqp.codec import decoder, encoder

NUMBERS = (-(2**70), -(2**63), -1, 0, 1, 255, 256, 2**31, 2**32 - 1, 2**32, 2**63, 2**64, 2**70)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_a_type_cannot_hold_becomes_the_nearest(number: int) -> None:
    assert decoder.decode(encoder.uint(number), 0) == max(0, min(number, 2**32 - 1))
    assert decoder.decode(encoder.ulong(number), 0) == max(0, min(number, 2**64 - 1))
    found = decoder.decode(encoder.whole(number), 0)
    assert found == (number if -(2**63) <= number < 2**64 else str(number))
