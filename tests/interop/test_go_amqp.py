"""go-amqp, the Azure-style client for Go, over TCP; its scenarios are in go_amqp/main.go."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.amqp import amqp_port
from tests.interop.golang import build, run

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("go_amqp", tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize(
    "scenario", ["roundtrip", "refusals", "outcomes", "selector", "credit", "dynamic", "large"]
)
def test_go_amqp(broker: BrokerProcess, program: Path, scenario: str) -> None:
    run(program, amqp_port(broker), scenario)
