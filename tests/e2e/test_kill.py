"""Kills and orderly ends under mixed load: every promise is kept."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.torture import Torture

KILLS = 20
STOP_S = 8.0  # the promise is 5 s; a machine that runs other tests beside this one needs more
SAFE_MIN = 100  # fewer promises would prove little


@pytest.mark.slow
@pytest.mark.timeout(600)  # a round is mostly the start of a process
def test_no_kill_breaks_a_promise(tmp_path: Path) -> None:
    torture = Torture(tmp_path, seed=5)
    for _ in range(KILLS):
        assert torture.round() == -signal.SIGKILL
    verdict = torture.finish()
    assert verdict.is_good, verdict
    assert verdict.safe > SAFE_MIN


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_sigterm_under_load_breaks_a_promise_and_the_exit_code_is_0(tmp_path: Path) -> None:
    torture = Torture(tmp_path, seed=6)
    for _ in range(3):
        assert torture.round(signal.SIGTERM) == 0
    assert torture.ended_s < STOP_S
    verdict = torture.finish()
    assert verdict.is_good, verdict
    assert verdict.safe > SAFE_MIN
