"""The clients for node against the broker: stompit, @stomp/stompjs and rhea.

The scenarios are in js/; each one asserts what it must see and ends with exit code 0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.amqp import amqp_port
from tests.interop.node import run_node

pytestmark = pytest.mark.interop

JS = Path(__file__).parent / "js"
SCENARIOS = ["versions", "binary", "nack", "transaction", "heartbeats"]


@pytest.mark.parametrize("scenario", [*SCENARIOS, "groups"])
def test_stompjs(broker: BrokerProcess, scenario: str) -> None:
    run_node(JS / "stompjs.js", str(broker.port), scenario)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_stompit(broker: BrokerProcess, scenario: str) -> None:
    run_node(JS / "stompit.js", str(broker.port), scenario)


# @stomp/stompjs over its own WebSocket, as a web page would use it, in every STOMP version.


@pytest.mark.parametrize("path", ["/stomp", "/ws"])
def test_stompjs_over_websocket(
    broker: BrokerProcess, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_OPTIONS", "--experimental-websocket")  # built in from node 22 on
    (line,) = [line for line in broker.welcome.splitlines() if line.split()[0] == "http"]
    run_node(JS / "websocket.js", f"ws://{line.split()[1]}{path}")


# rhea speaks AMQP 1.0.

AMQP_SCENARIOS = [
    "roundtrip",
    "wrong_password",
    "outcomes",
    "drain",
    "presettled",
    "settles_second",
    "selector",
    "rpc",
    "relay",
    "refusal",
    "large",
    "binary_tags",
    "groups",
    "undeliverable",
    "browse",
    "durable",
    "takeover",
]


@pytest.mark.parametrize("scenario", AMQP_SCENARIOS)
def test_rhea(broker: BrokerProcess, scenario: str) -> None:
    run_node(JS / "rhea.js", str(amqp_port(broker)), scenario)
