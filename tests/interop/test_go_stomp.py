"""go-stomp, the Go client, against the broker; its scenarios are in go/main.go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.golang import build, run

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("go", tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize(
    "scenario", ["versions", "binary", "nack", "transaction", "heartbeats", "durable", "selector"]
)
def test_go_stomp(broker: BrokerProcess, program: Path, scenario: str) -> None:
    run(program, broker.port, scenario)
