"""Qpid JMS, the Java client, against the broker; its scenarios are in java/QpidJms.java."""

from __future__ import annotations

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.amqp import amqp_port
from tests.interop.java import run_java

pytestmark = pytest.mark.interop

SCENARIOS = [
    "roundtrip",
    "wrongPassword",
    "selector",
    "groups",
    "transactions",
    "recovery",
    "durable",
    "shared",
    "browser",
    "temporary",
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_qpid_jms(broker: BrokerProcess, scenario: str) -> None:
    assert run_java("QpidJms", str(amqp_port(broker)), scenario) == "ok\n"
