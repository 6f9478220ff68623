"""stompit and @stomp/stompjs, the two npm clients, against the broker over TCP.

The scenarios are in js/; each one asserts what it must see and ends with exit code 0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
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
