"""rhea, the AMQP 1.0 client for node, against the broker over TCP.

The scenarios are in js/rhea.js; each one asserts what it must see and ends with exit code 0.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.amqp import amqp_port
from tests.interop.node import run_node

pytestmark = pytest.mark.interop

SCRIPT = Path(__file__).parent / "js" / "rhea.js"
SCENARIOS = [
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


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rhea(broker: BrokerProcess, scenario: str) -> None:
    run_node(SCRIPT, str(amqp_port(broker)), scenario)
