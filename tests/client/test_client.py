"""The clients of the commands: where they connect to, and how.

Both clients through TLS: with the right authority, and not without.

[user[/password]@]host[:port], as qpid-config writes it, and the virtual host.
"""

from __future__ import annotations

import pytest

from covey.client.errors import UnreachableError
from covey.client.management import Management
from covey.client.place import Place, parse_place
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


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("localhost", Place("localhost", 5672, "admin", "password")),
        ("", Place("localhost", 5672, "admin", "password")),
        ("10.1.1.7:10000", Place("10.1.1.7", 10000, "admin", "password")),
        ("guest/guest@broker-host:10000", Place("broker-host", 10000, "guest", "guest")),
        ("ann@host", Place("host", 5672, "ann", None)),
        ("ann/p@ss/word@host", Place("host", 5672, "ann", "p@ss/word")),
        ("ann/@host", Place("host", 5672, "ann", "")),
        ("::1", Place("::1", 5672, "admin", "password")),
        ("tls://ann/x@host", Place("host", 5671, "ann", "x", is_tls=True)),
        ("tls://host:99", Place("host", 99, "admin", "password", is_tls=True)),
        ("[::1]:99", Place("::1", 99, "admin", "password")),
        ("host/shop", Place("host", 5672, "admin", "password", virtual_host="shop")),
        ("/shop", Place("localhost", 5672, "admin", "password", virtual_host="shop")),
        ("a/b@[::1]:99/x.y", Place("::1", 99, "a", "b", virtual_host="x.y")),
    ],
)
def test_places_are_read(text: str, place: Place) -> None:
    assert parse_place(text, 5672) == place


@pytest.mark.parametrize(
    "text",
    [
        "host:port",
        "host:99999",
        "[::1",
        "[::1]x",
        "/secret@host",
        "amqp://a/secret@host",
        "stomp://h",
    ],
)
def test_nonsense_is_refused_without_the_password(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|no user") as refusal:
        parse_place(text, 5672)
    assert "secret" not in str(refusal.value)


def test_an_address_holds_no_secret_and_fits_a_url() -> None:
    assert parse_place("ann/secret@[::1]:99", 1).address == "[::1]:99"
    assert parse_place("ann/secret@host", 1).address == "host:1"
