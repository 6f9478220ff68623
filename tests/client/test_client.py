"""Both clients through TLS: with the right authority, and not without."""

from __future__ import annotations

import pytest

from covey.client.errors import UnreachableError
from covey.client.management import Management
from covey.client.place import parse_place
from covey.client.stomp import StompClient
from tests.client.support import TlsBroker
from tests.e2e.support import HOST
from tests.interop.amqp import amqp_port


def test_a_trusted_broker_is_spoken_to(
    tls_broker: TlsBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls_broker.authority))
    broker = tls_broker.broker
    with StompClient(parse_place(f"tls://{HOST}:{broker.port}", 0)) as client:
        client.send("/queue/tls", [], b"hello")
        client.confirm()
    # By name: proton compares a certificate's names, not its addresses.
    with Management(parse_place(f"tls://localhost:{amqp_port(broker)}", 0)) as management:
        assert management.read("queue", "tls")["messages"] == 1


def test_a_broker_of_an_unknown_authority_gets_no_password(tls_broker: TlsBroker) -> None:
    broker = tls_broker.broker
    with pytest.raises(UnreachableError, match="is not trusted"):
        StompClient(parse_place(f"tls://{HOST}:{broker.port}", 0))
    with pytest.raises(UnreachableError, match="no trusted broker answers"):
        Management(parse_place(f"tls://localhost:{amqp_port(broker)}", 0), timeout_s=5)
