"""Kills and orderly ends under mixed load: every promise is kept."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.e2e.support import running_broker
from tests.e2e.torture import Torture

KILLS = 20
STOP_S = 8.0  # the promise is 5 s; a machine that runs other tests beside this one needs more
LARGE_COMMIT = 5000  # messages of 5 kB
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_in_the_middle_of_a_large_commit_leaves_all_of_it_or_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running_broker(tmp_path) as broker:
        with broker.client() as producer:
            producer.send("BEGIN", {"transaction": "t"})
            headers = {"destination": "/queue/large", "persistent": "true", "transaction": "t"}
            for _ in range(LARGE_COMMIT):
                producer.send("SEND", headers, b"x" * 5000)
            producer.sync()
            producer.send("COMMIT", {"transaction": "t", "receipt": "committed"})
            code = broker.signal(number)
            heard = producer.until_closed()
        assert code == (0 if number is signal.SIGTERM else -number)
    with running_broker(tmp_path) as broker, broker.client() as reader:
        reader.send("SUBSCRIBE", {"id": "b", "destination": "/queue/large", "browser": "true"})
        found = 0
        while reader.frame().headers(reader.version).get("browser") != "end":
            found += 1
    assert found == LARGE_COMMIT or (found == 0 and b"committed" not in heard)
