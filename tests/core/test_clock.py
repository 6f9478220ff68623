"""The time of a turn."""

from __future__ import annotations

import pytest

from covey.core.clock import Clock


@pytest.mark.parametrize(
    ("expires_ms", "is_over"), [(0, False), (99, True), (100, True), (101, False)]
)
def test_zero_never_passes_and_the_moment_itself_has(expires_ms: int, is_over: bool) -> None:
    clock = Clock()
    clock.wall_ms = 100
    assert clock.has_passed(expires_ms) is is_over
