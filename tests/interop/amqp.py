"""Where a running broker speaks AMQP, and proton's blocking client for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from proton.utils import BlockingConnection

from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess


def amqp_port(broker: BrokerProcess) -> int:
    """Read the port out of the broker's welcome."""
    found = re.search(rf"amqp\s+{re.escape(HOST)}:(\d+)", broker.welcome)
    if found is None:
        pytest.skip("this broker has no AMQP port")
    return int(found[1])


@contextmanager
def connected(
    broker: BrokerProcess, login: str = LOGIN, passcode: str = PASSCODE, **options: Any
) -> Iterator[BlockingConnection]:
    """Connect proton's blocking client."""
    connection = BlockingConnection(
        f"amqp://{HOST}:{amqp_port(broker)}",
        user=login,
        password=passcode,
        allow_insecure_mechs=True,
        timeout=TIMEOUT_S,
        **options,
    )
    try:
        yield connection
    finally:
        connection.close()
