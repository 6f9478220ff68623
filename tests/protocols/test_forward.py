"""Connections between brokers: the head that says whose it is, and who is believed."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
import trustme
from anyio.abc import ByteStream

from covey.config.settings import ClusterSettings, TlsSettings
from covey.core.errors import ProtocolError
from covey.core.storage.cluster import ClusterView, SpaceRow
from covey.protocols.doorman import Passed
from covey.protocols.engine import Peer
from covey.protocols.forward import (
    FORWARDED,
    ClusterOwners,
    ForwardPort,
    forward_head,
    read_forward_head,
)
from covey.protocols.proxy_v2 import HEAD_SIZE, Source, rest_size, source_of, write_head
from covey.protocols.relay import Upstream
from tests.core.storage.postgres.server import free_port
from tests.doubles import KnownCluster
from tests.e2e.amqp_bytes import AMQP_HEADER, SASL_HEADER, opening
from tests.protocols.test_passing import LOG, PLAIN, STOMP, Neighbours, OwnerOfTwo, read_until

KEY = "what only the database and its brokers know"
PEER = Peer("192.0.2.1", 4711, is_loopback=False, socket_buffer=65536, certificate_name="ann")
PEER_SOURCE = Source(PEER.host, PEER.port)


class ClusterAt(KnownCluster):
    """A cluster whose other broker serves two, at an address of this machine."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self.address = address
        self.epoch = 1
        self.key = KEY

    def view(self, now: float) -> ClusterView:
        seen = super().view(now)
        there = seen.nodes[0]._replace(address=self.address, key=self.key)
        return ClusterView((there,), (SpaceRow("two", "b", self.epoch, 0.0, 9.0),))


class ForwardedOwner(OwnerOfTwo):
    """The owner of two behind a port of its own."""

    def __init__(self, tls: TlsSettings | None, shown: TlsSettings | None) -> None:
        """`shown` is what the broker that passes on has."""
        super().__init__(takes_sockets=False)
        self.tls = tls
        self.cluster = ClusterAt(f"127.0.0.1:{free_port()}")
        self.owners = ClusterOwners(self.cluster, shown)

    async def connect(self, connector: str, passed: Passed, upstream: Upstream) -> None:
        if self.adoption is not None:
            port = ForwardPort(self.cluster.address, self.tls, KEY, self.adoption, LOG)
            await port.listen()
        await self.owners.connect(connector, passed, upstream)


def certificates(folder: Path, authority: trustme.CA, name: str) -> TlsSettings:
    """Issue what a broker shows."""
    issued = authority.issue_cert(name)
    authority.cert_pem.write_to_path(str(folder / f"{name}-ca.pem"))
    issued.private_key_pem.write_to_path(str(folder / f"{name}.key"))
    issued.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    return TlsSettings(
        certificate=str(folder / f"{name}.pem"),
        key=str(folder / f"{name}.key"),
        client_ca=str(folder / f"{name}-ca.pem"),
        client_auth="required",
    )


def neighbours(
    protocol: str, tls: TlsSettings | None = None, shown: TlsSettings | None = None
) -> Neighbours:
    found = Neighbours(protocol, takes_sockets=False)
    found.owners = found.passing.owners = ForwardedOwner(tls, shown)
    return found


def cluster_of(found: Neighbours) -> ForwardedOwner:
    """Return what the passing broker sees of the others."""
    assert isinstance(found.owners, ForwardedOwner)
    return found.owners


def test_a_head_is_read_back_in_whatever_pieces_it_comes() -> None:
    passed = Passed("two", PEER, 0.5, {"user": "ann", "is_greeted": True}, b"\0\nany\xff")
    data = forward_head(KEY, "amqp", passed) + b"more"
    for size in range(len(data) - len(b"more")):
        assert read_forward_head(data[:size]) is None
    assert read_forward_head(data) == (KEY, "amqp", passed, b"more")
    rest = data[HEAD_SIZE : HEAD_SIZE + rest_size(data[:HEAD_SIZE])]
    assert source_of(data[:HEAD_SIZE], rest) == Source(PEER.host, PEER.port)


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12),
        write_head(PEER_SOURCE, PEER_SOURCE, ((FORWARDED, b"[" * 4000),)),
        write_head(PEER_SOURCE, PEER_SOURCE, ((FORWARDED, b'{"told": {}, "read": 0}'),)),
    ],
)
def test_what_is_no_head_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        read_forward_head(data)


@pytest.mark.parametrize("is_secured", [True, False])
def test_a_client_is_served_behind_the_other_brokers_port(tmp_path: Path, is_secured: bool) -> None:
    authority = trustme.CA()
    tls = [certificates(tmp_path, authority, name) if is_secured else None for name in "ab"]
    found = neighbours("stomp", *tls)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        assert b"host-id:two" in await read_until(stream, b"\0")
        await stream.send(b"body\0")
        assert b"receipt-id:r" in await read_until(stream, b"\0")

    found.play(scenario)
    assert found.there.brokers["two"].host.queues["q"].state.index.count == 1


def test_an_amqp_login_goes_along() -> None:
    found = neighbours("amqp")

    async def scenario(stream: ByteStream) -> None:
        await stream.send(SASL_HEADER + PLAIN + AMQP_HEADER + opening(hostname="two.example"))
        await read_until(stream, b"covey")
        (session,) = found.there.brokers["two"].sessions.values()
        assert session.identity.name == "admin"

    found.play(scenario)


def test_a_broker_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    ours, foreign = trustme.CA(), trustme.CA()
    found = neighbours(
        "stomp", certificates(tmp_path, ours, "a"), certificates(tmp_path, foreign, "x")
    )

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        said = await read_until(stream, b"\0")
        assert b"covey-code:unavailable" in said
        assert b"served by node b, which cannot be" in said

    found.play(scenario)
    assert not found.there.shared.sessions


def test_an_owner_that_is_gone_is_named_to_the_client() -> None:
    found = neighbours("stomp")
    found.has_owner = False

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        said = await read_until(stream, b"\0")
        assert b"virtual host two is served by node b, which cannot be reached" in said

    found.play(scenario)


@pytest.mark.parametrize("key", ["", "guessed", "\ud800"])
def test_who_does_not_know_the_owners_key_is_not_believed(key: str) -> None:
    found = neighbours("amqp")
    cluster_of(found).cluster.key = key

    async def scenario(stream: ByteStream) -> None:
        await stream.send(SASL_HEADER + PLAIN + AMQP_HEADER + opening(hostname="two.example"))
        with pytest.raises(anyio.EndOfStream):
            await read_until(stream, b"\0covey\0")

    found.play(scenario)
    assert not found.there.shared.sessions


@pytest.mark.parametrize("is_secured", [True, False])
def test_a_connection_ends_when_its_virtual_host_has_another_owner(
    tmp_path: Path, is_secured: bool
) -> None:
    authority = trustme.CA()
    tls = [certificates(tmp_path, authority, name) if is_secured else None for name in "ab"]
    found = neighbours("stomp", *tls)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        await read_until(stream, b"\0")
        owner = cluster_of(found)
        owner.owners.look()
        await stream.send(b"body\0")
        assert b"receipt-id:r" in await read_until(stream, b"\0")
        owner.cluster.epoch += 1
        owner.owners.look()
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()

    found.play(scenario)
    assert found.here.failures == 0


@pytest.mark.parametrize("is_secured", [True, False])
def test_a_client_that_only_stops_writing_gets_its_last_answers(
    tmp_path: Path, is_secured: bool
) -> None:
    authority = trustme.CA()
    tls = [certificates(tmp_path, authority, name) if is_secured else None for name in "ab"]
    found = neighbours("stomp", *tls)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        await read_until(stream, b"\0")
        await stream.send(b"body\0")
        await stream.send_eof()
        assert b"receipt-id:r" in await read_until(stream, b"\0")
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()

    found.play(scenario)
    assert found.here.failures == 0


@pytest.mark.parametrize("is_secured", [True, False])
def test_a_broker_that_stops_ends_what_it_passes_on(tmp_path: Path, is_secured: bool) -> None:
    authority = trustme.CA()
    tls = [certificates(tmp_path, authority, name) if is_secured else None for name in "ab"]
    found = neighbours("stomp", *tls)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        await read_until(stream, b"\0")
        found.listener.shut_down("it stops")
        with pytest.raises(anyio.EndOfStream):
            await stream.receive()

    found.play(scenario)
    assert found.here.failures == 0


def test_a_port_that_others_can_reach_needs_certificates_of_both_sides() -> None:
    with pytest.raises(ValueError, match="believes whoever reaches it"):
        ClusterSettings(forward="broker-a:61700")
    with pytest.raises(ValueError, match="others must know the port"):
        ClusterSettings(forward="127.0.0.1:0")
    tls = TlsSettings(certificate="c", key="k", client_ca="a", client_auth="required")
    assert ClusterSettings(forward="broker-a:61700", tls=tls).tls is tls
