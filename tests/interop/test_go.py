"""The clients for Go against the broker over TCP: go-stomp (go/) and go-amqp (go_amqp/)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.amqp import amqp_port
from tests.interop.golang import build, run

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def stomp_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("go", tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize(
    "scenario", ["versions", "binary", "nack", "transaction", "heartbeats", "durable", "selector"]
)
def test_go_stomp(broker: BrokerProcess, stomp_program: Path, scenario: str) -> None:
    run(stomp_program, broker.port, scenario)


@pytest.fixture(scope="module")
def amqp_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("go_amqp", tmp_path_factory.mktemp("go"))


@pytest.mark.parametrize(
    "scenario", ["roundtrip", "refusals", "outcomes", "selector", "credit", "dynamic", "large"]
)
def test_go_amqp(broker: BrokerProcess, amqp_program: Path, scenario: str) -> None:
    run(amqp_program, amqp_port(broker), scenario)
