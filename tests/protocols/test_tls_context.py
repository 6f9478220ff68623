"""TLS: files that cannot be used are named, peers that cannot shake hands are let go."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import pytest
import structlog
import trustme
from anyio.lowlevel import checkpoint
from anyio.streams.tls import TLSStream
from structlog.testing import capture_logs

from covey.config.settings import ConnectorSettings, TlsSettings
from covey.protocols.engine import Peer
from covey.protocols.listener import Listener
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.roster import Strangers
from covey.protocols.tls import certificate_name, make_context
from tests.protocols.support import SilentEngine

TIMEOUT_S = 20.0
NAME = "localhost"


class Authority:
    """A certificate authority, and files of what it has signed."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self.ca.cert_pem.write_to_path(self.ca_file)
        server = self.ca.issue_cert(NAME, "127.0.0.1")
        self.certificate = folder / "server.pem"
        self.key = folder / "server.key"
        server.private_key_pem.write_to_path(self.key)
        for number, blob in enumerate(server.cert_chain_pems):
            blob.write_to_path(self.certificate, append=number > 0)

    def settings(self, **others: object) -> TlsSettings:
        files = {"certificate": str(self.certificate), "key": str(self.key)}
        return TlsSettings.model_validate({**files, "client_ca": str(self.ca_file), **others})

    def client(self, issued: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.ca.configure_trust(context)
        if issued is not None:
            issued.configure_cert(context)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def serve(
    tls: TlsSettings,
    play: Callable[[int, list[Peer]], Awaitable[None]],
    *,
    strangers_max: int = 10,
) -> list[str]:
    """Play against a listener with TLS; return the causes of failed handshakes."""
    connector = ConnectorSettings(id="tls", protocol="stomp", bind="127.0.0.1:0", tls=tls)
    peers: list[Peer] = []

    def make(peer: Peer, now: float) -> SilentEngine:
        peers.append(peer)
        return SilentEngine()

    async def main() -> None:
        log = structlog.get_logger()
        strangers = Strangers(strangers_max)
        listener = Listener(connector, make, log, buffers=ReadBuffers(16384), strangers=strangers)
        bound = await listener.bind()
        with anyio.fail_after(TIMEOUT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listener.serve, bound)
                await play(int(listener.address.rpartition(":")[2]), peers)
                tasks.cancel_scope.cancel()

    with capture_logs() as logs:
        anyio.run(main, backend_options={"use_uvloop": True})
    return [str(entry["cause"]) for entry in logs if entry["event"] == "handshake_failed"]


async def shake(port: int, context: ssl.SSLContext) -> TLSStream:
    return await anyio.connect_tcp(
        "127.0.0.1",
        port,
        tls_hostname=NAME,
        ssl_context=context,
        tls_standard_compatible=False,  # a close without a farewell is no error, as elsewhere
    )


async def refused(port: int, context: ssl.SSLContext) -> None:
    """Shake hands and read: TLS 1.3 tells of a bad certificate only then."""
    with suppress(ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream):
        stream = await shake(port, context)
        await stream.receive()
        raise AssertionError("it was let in")


async def until(condition: Callable[[], bool]) -> None:
    """Let the other tasks run until something is so; `serve` bounds the wait."""
    while not condition():
        await checkpoint()


def test_a_certificates_common_name_is_handed_to_the_engine(authority: Authority) -> None:
    async def play(port: int, peers: list[Peer]) -> None:
        client = authority.client(authority.ca.issue_cert("ann@test", common_name="ann"))
        async with await shake(port, client):
            await until(lambda: bool(peers))

        async with await shake(port, authority.client()):
            await until(lambda: len(peers) == 2)
        assert [peer.certificate_name for peer in peers] == ["ann", None]

    assert serve(authority.settings(client_auth="optional"), play) == []


def test_without_a_certificate_where_one_is_required_there_is_no_handshake(
    authority: Authority,
) -> None:
    async def play(port: int, peers: list[Peer]) -> None:
        await refused(port, authority.client())
        assert peers == []

    causes = serve(authority.settings(client_auth="required"), play)
    assert causes == ["peer did not return a certificate"]


@pytest.mark.parametrize("client_auth", ["optional", "required"])
def test_a_certificate_of_another_authority_or_an_old_one_is_refused(
    authority: Authority, tmp_path: Path, client_auth: str
) -> None:
    stranger = Authority(tmp_path / "other").ca.issue_cert("eve@test", common_name="ann")
    yesterday = datetime.now() - timedelta(days=1)
    expired = authority.ca.issue_cert("ann@test", common_name="ann", not_after=yesterday)

    async def play(port: int, peers: list[Peer]) -> None:
        await refused(port, authority.client(stranger))
        await refused(port, authority.client(expired))
        assert peers == []

    causes = serve(authority.settings(client_auth=client_auth), play)
    assert len(causes) == 2
    assert "certificate has expired" in causes[1]


def test_plain_bytes_on_a_tls_port_end_the_connection(authority: Authority) -> None:
    async def play(port: int, peers: list[Peer]) -> None:
        stream = await anyio.connect_tcp("127.0.0.1", port)
        await stream.send(b"CONNECT\nlogin:admin\npasscode:password\n\n\0")
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await stream.receive()
        assert peers == []

    assert serve(authority.settings(), play) == ["the peer does not speak TLS"]


def test_at_the_end_a_peer_hears_a_farewell(authority: Authority) -> None:
    async def play(port: int, peers: list[Peer]) -> None:
        stream = await anyio.connect_tcp(
            "127.0.0.1", port, tls_hostname=NAME, ssl_context=authority.client()
        )
        await until(lambda: bool(peers))
        await stream.transport_stream.send_eof()
        with pytest.raises(anyio.EndOfStream):  # a broken stream without the farewell
            await stream.receive()

    assert serve(authority.settings(), play) == []


def test_an_old_version_of_tls_is_refused(authority: Authority) -> None:
    old = authority.client()
    with pytest.warns(DeprecationWarning):
        old.maximum_version = ssl.TLSVersion.TLSv1_1

    async def play(port: int, peers: list[Peer]) -> None:
        await refused(port, old)

    assert len(serve(authority.settings(), play)) <= 1


def test_a_handshake_that_does_not_come_ends_in_time_and_counts_as_a_stranger(
    authority: Authority,
) -> None:
    async def play(port: int, peers: list[Peer]) -> None:
        silent = socket.create_connection(("127.0.0.1", port))
        with silent:
            silent.setblocking(False)
            one_too_many = await anyio.connect_tcp("127.0.0.1", port)
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await one_too_many.receive()
            await anyio.wait_readable(silent)  # closed by us
        async with await shake(port, authority.client()):
            await until(lambda: bool(peers))

    settings = authority.settings(handshake_timeout_s=0.2)
    assert serve(settings, play, strangers_max=1) == ["no handshake in time"]


def test_a_file_that_cannot_be_used_is_named(authority: Authority, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    other = Authority(tmp_path / "other")
    for wrong in ({"key": missing}, {"certificate": str(junk)}, {"key": str(other.key)}):
        with pytest.raises(OSError, match="TLS certificate .*" + Path(*wrong.values()).name):
            make_context(authority.settings(**wrong))
    with pytest.raises(OSError, match=r"TLS client_ca .*junk\.pem"):
        make_context(authority.settings(client_ca=str(junk)))


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(
    authority: Authority, tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization as pem

    key = pem.load_pem_private_key(authority.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(b"x")
        )
    )
    with pytest.raises(OSError, match="passphrase"):
        make_context(authority.settings(key=str(locked)))


def test_a_certificate_with_several_common_names_is_nobodys() -> None:
    one = {"subject": ((("organizationName", "x"),), (("commonName", "ann"),))}
    two = {"subject": ((("commonName", "ann"),), (("commonName", "admin"),))}
    assert certificate_name(one) == "ann"
    assert certificate_name(two) is None
    assert certificate_name({"subject": ()}) is None
    assert certificate_name(None) is None
