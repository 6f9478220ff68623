"""A broker, and a client of it that speaks in frames."""

from __future__ import annotations

import pytest

from covey.core.broker.broker import Broker
from tests.protocols.amqp.peer import make_broker
from tests.protocols.amqp.raw import Raw


@pytest.fixture
def broker() -> Broker:
    return make_broker()


@pytest.fixture
def raw(broker: Broker) -> Raw:
    return Raw(broker)
