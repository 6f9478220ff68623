"""A broker behind TLS, whose authority nobody trusts unless told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.e2e.support import BrokerProcess, running_broker

CONNECTOR = """
[[connector]]
id = "{protocol}"
protocol = "{protocol}"
bind = "127.0.0.1:0"
[connector.tls]
certificate = "{certificate}"
key = "{key}"
"""


class TlsBroker:
    """It runs, and its authority's certificate is in a file."""

    def __init__(self, broker: BrokerProcess, authority: Path) -> None:
        self.broker = broker
        self.authority = authority


@pytest.fixture(scope="session")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    """One broker whose ports want TLS."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert("127.0.0.1", "localhost")
    issued.cert_chain_pems[0].write_to_path(folder / "broker.pem")
    issued.private_key_pem.write_to_path(folder / "broker.key")
    files = {"certificate": folder / "broker.pem", "key": folder / "broker.key"}
    config = "".join(CONNECTOR.format(protocol=name, **files) for name in ("stomp", "amqp"))
    with running_broker(folder / "broker", config=config) as running:
        yield TlsBroker(running, folder / "ca.pem")
