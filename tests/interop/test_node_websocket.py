"""@stomp/stompjs over its own WebSocket, as a web page would use it, in every STOMP version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.support import BrokerProcess
from tests.interop.node import run_node

pytestmark = pytest.mark.interop

SCRIPT = Path(__file__).parent / "js" / "websocket.js"


@pytest.mark.parametrize("path", ["/stomp", "/ws"])
def test_stompjs_over_websocket(
    broker: BrokerProcess, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_OPTIONS", "--experimental-websocket")  # built in from node 22 on
    (line,) = [line for line in broker.welcome.splitlines() if line.split()[0] == "http"]
    run_node(SCRIPT, f"ws://{line.split()[1]}{path}")
