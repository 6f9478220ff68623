"""Qpid JMS, the Java client, against the broker; its scenarios are in java/QpidJms.java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import HOST, BrokerProcess, running_broker
from tests.interop.amqp import amqp_port
from tests.interop.java import finish_java, run_java, start_java

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
    "delayed",
    "selectsByHeaders",
    "closesGroups",
    "listens",
    "givesBack",
    "otherModes",
    "otherBodies",
    "temporaryTopic",
    "durableWithSelector",
]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_qpid_jms(broker: BrokerProcess, scenario: str) -> None:
    assert run_java("QpidJms", str(amqp_port(broker)), scenario) == "ok\n"


def test_a_client_goes_on_where_it_was_after_the_broker_was_killed(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        port = amqp_port(broker)
        client = start_java("QpidJms", str(port), "lostConnection")
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
    with running_broker(tmp_path, arguments=("--amqp", f"{HOST}:{port}")):
        assert finish_java(client, "\n") == "ok\n"
