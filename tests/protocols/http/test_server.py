"""Serve: a real port, HTTP/1.1 and HTTP/2, TLS, floods, and the end."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
import trustme
from structlog.testing import capture_logs

from covey.config.settings import HttpSettings, TlsSettings
from covey.protocols.http.server import SPARE
from covey.protocols.tls import make_context
from tests.protocols.http.support import ADMIN, WRONG, Served, run, served
from tests.protocols.test_connection import until

SEND = "/api/v1/queues/q/messages"
MIB = 1024 * 1024


# Frames of RFC 9113: length, type, flags, stream.
H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
H2_SETTINGS = bytes.fromhex("000000040000000000")
H2_PING = bytes.fromhex("000008060000000000") + bytes(8)
# GET / by http, a body to follow; then a RST_STREAM with CANCEL.
H2_GET = bytes.fromhex("000003010400000001828684")
H2_RESET = bytes.fromhex("00000403000000000100000008")
H2_HEADERS, H2_PRIORITY, H2_RST_STREAM = 1, 2, 3
UPGRADE = (
    b"GET /stomp HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nsec-websocket-version: 13\r\n\r\n"
)
ENDED = (anyio.EndOfStream, anyio.BrokenResourceError)


def written(folder: Path, authority: trustme.CA) -> dict[str, str]:
    """Write a certificate of the port; return where it is, as settings say it."""
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key")
    for number, pem in enumerate(issued.cert_chain_pems):
        pem.write_to_path(folder / "chain", append=number > 0)
    return {"certificate": str(folder / "chain"), "key": str(folder / "key")}


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    return trust


def client(
    server: Served, *, http2: bool = False, tls: ssl.SSLContext | None = None
) -> httpx.AsyncClient:
    scheme = "http" if tls is None else "https"
    return httpx.AsyncClient(
        base_url=f"{scheme}://{server.address}",
        auth=ADMIN,
        http1=not http2,
        http2=http2,
        verify=True if tls is None else tls,
        timeout=20,
    )


@pytest.mark.parametrize(("http2", "version"), [(False, "HTTP/1.1"), (True, "HTTP/2")])
def test_both_versions_are_spoken_in_clear_text(http2: bool, version: str) -> None:
    async def test() -> None:
        async with served() as server, client(server, http2=http2) as http:
            sent = await http.post(SEND, json={"body": "hello"})
            assert (sent.status_code, sent.http_version) == (201, version)
            seen = await http.get(SEND)
            assert seen.json()["items"][0]["body"] == "hello"
            assert "server" not in seen.headers

    run(test)


@pytest.mark.slow
def test_a_port_holds_only_so_many_connections_of_any_kind() -> None:
    async def test() -> None:
        async with served(connections_max=1) as server:
            host, _, port = server.address.rpartition(":")
            streams = [await anyio.connect_tcp(host, int(port)) for _ in range(1 + SPARE)]
            late = await anyio.connect_tcp(host, int(port))
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await late.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await late.receive()
            await streams.pop().aclose()
            await until(lambda: len(server.listener.connections) <= SPARE)
            async with client(server) as http:
                assert (await http.get("/livez")).status_code == 200
            for stream in streams:
                await stream.aclose()

    run(test)


def test_http_2_carries_many_requests_at_once() -> None:
    async def test() -> None:
        async with served() as server, client(server, http2=True) as http:
            await http.get("/livez")
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(partial(http.post, SEND, json={}))
            assert (await http.get(SEND)).json()["total"] == 20

    run(test)


def test_over_tls_the_client_chooses_the_version(tmp_path: Path) -> None:
    authority = trustme.CA()
    trust = trusting(authority)
    tls = written(tmp_path, authority)

    async def test() -> None:
        async with served(tls=tls) as server:
            for http2, version in ((False, "HTTP/1.1"), (True, "HTTP/2")):
                async with client(server, http2=http2, tls=trust) as http:
                    answer = await http.get("/livez")
                    assert (answer.status_code, answer.http_version) == (200, version)

    run(test)


def test_a_certificate_that_cannot_be_read_is_named() -> None:
    async def test() -> None:
        with pytest.raises(ExceptionGroup) as group:
            async with served(tls={"certificate": "/no/such", "key": "/no/such"}):
                pass
        assert "TLS certificate /no/such" in str(group.value.exceptions[0])

    run(test)


def test_other_options_hold_from_the_next_request_on() -> None:
    async def test() -> None:
        async with served() as server, client(server) as http:
            listener = server.listener
            origin = {"origin": "https://ops.example"}
            assert (await http.post(SEND, json={}, headers=origin)).status_code == 403
            changed = listener.connector.model_copy(
                update={"http": HttpSettings(allowed_origins=("https://ops.example",))}
            )
            listener.adopt(changed, listener.websockets.make_engine, None)
            assert (await http.post(SEND, json={}, headers=origin)).status_code == 201

    run(test)


def test_other_certificates_and_authorities_hold_from_the_next_connection_on(
    tmp_path: Path,
) -> None:
    first, second = trustme.CA(), trustme.CA()
    tls = written(tmp_path, first)
    guest = second.issue_cert(common_name="guest")

    async def test() -> None:
        async with served(tls=tls) as server:
            listener = server.listener
            async with client(server, tls=trusting(first)) as http:
                assert (await http.get("/livez")).status_code == 200
                written(tmp_path, second)
                second.cert_pem.write_to_path(tmp_path / "ca")
                asking = TlsSettings.model_validate(
                    tls | {"client_ca": str(tmp_path / "ca"), "client_auth": "required"}
                )
                changed = listener.connector.model_copy(update={"tls": asking})
                listener.adopt(changed, listener.websockets.make_engine, make_context(asking))
                assert (await http.get("/livez")).status_code == 200  # this one is open
            anonymous = trusting(second)
            known = trusting(second)
            guest.configure_cert(known)
            async with client(server, tls=known) as http:
                assert (await http.get("/livez")).status_code == 200
            async with client(server, tls=anonymous) as http:
                with pytest.raises(httpx.TransportError):
                    await http.get("/livez")

    run(test)


@pytest.mark.slow
@pytest.mark.parametrize(
    "opening",
    [H2_PREFACE + H2_SETTINGS, H2_PREFACE + H2_SETTINGS + H2_GET + H2_RESET, UPGRADE + b"early"],
    ids=["no request", "a request taken back", "words before the WebSocket"],
)
def test_a_connection_that_asks_for_nothing_is_closed(opening: bytes) -> None:
    async def test() -> None:
        stomp = {"login_timeout_s": 0.5}
        async with served(http={"idle_timeout_s": 0.5}, stomp=stomp) as server:
            host, _, port = server.address.rpartition(":")
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(opening)
                with anyio.fail_after(10), pytest.raises(ENDED):
                    while True:
                        await stream.receive()
                        await stream.send(H2_PING)
            await until(lambda: not server.listener.connections)

    run(test)


@pytest.mark.parametrize("http2", [False, True])
def test_a_body_without_end_is_refused_while_it_comes(http2: bool) -> None:
    async def flood() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"x" * (MIB // 16)

    async def test() -> None:
        async with served(http={"body_max": MIB}) as server, client(server, http2=http2) as http:
            headers = {"content-type": "application/json"}
            answer = await http.post(SEND, content=flood(), headers=headers)
            assert answer.status_code == 413
            assert (await http.get("/livez")).status_code == 200

    run(test)


def test_a_stranger_with_a_large_body_is_refused_and_nothing_hangs() -> None:
    async def test() -> None:
        async with served() as server, client(server) as http:
            for _ in range(3):
                answer = await http.post(SEND, content=b"x" * MIB, auth=WRONG)
                assert answer.status_code == 401
            assert (await http.get("/livez")).status_code == 200

    run(test)


@pytest.mark.parametrize("nonsense", [b"\x00" * 100, b"GET\r\n\r\n", b"A" * 100_000])
def test_nonsense_ends_its_own_connection_only(nonsense: bytes) -> None:
    async def test() -> None:
        async with served() as server, client(server) as http:
            host, _, port = server.address.rpartition(":")
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(nonsense)
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    while True:
                        await stream.receive()
            assert (await http.get("/livez")).status_code == 200

    run(test)


def h2_frame(kind: int, stream: int, payload: bytes) -> bytes:
    flags = b"\x04" if kind == H2_HEADERS else b"\0"  # END_HEADERS
    return len(payload).to_bytes(3) + bytes([kind]) + flags + stream.to_bytes(4) + payload


@pytest.mark.parametrize(
    ("frames", "cause"),
    [
        (
            [h2_frame(H2_PRIORITY, 2 * number + 1, bytes(5)) for number in range(1100)],
            "TooManyStreamsError",
        ),
        ([h2_frame(H2_HEADERS, 1, bytes.fromhex("828604022fc3010161"))], "UnicodeDecodeError"),
        ([h2_frame(H2_HEADERS, 1, bytes.fromhex("0201c38684010161"))], "UnicodeDecodeError"),
    ],
    ids=["priorities", "a path that is no ASCII", "a method that is no ASCII"],
)
def test_what_a_peer_does_wrong_in_http_2_is_one_line_and_no_traceback(
    frames: list[bytes], cause: str
) -> None:
    async def test() -> None:
        with capture_logs() as lines:
            async with served() as server, client(server) as http:
                host, _, port = server.address.rpartition(":")
                async with await anyio.connect_tcp(host, int(port)) as stream:
                    await stream.send(H2_PREFACE + H2_SETTINGS + b"".join(frames))
                    with pytest.raises(ENDED), anyio.fail_after(10):
                        while True:
                            await stream.receive()
                assert (await http.get("/livez")).status_code == 200
        failed = [line for line in lines if line["event"] == "connection_failed"]
        assert [(line["log_level"], "exc_info" in line) for line in failed] == [("warning", False)]
        assert cause in failed[0]["cause"]
        assert failed[0]["remote"].startswith("127.0.0.1:")

    run(test)


def test_requests_that_are_taken_back_count_and_too_many_end_their_connection() -> None:
    reset = [
        h2_frame(H2_HEADERS, 2 * number + 1, bytes.fromhex("828684010161"))
        + h2_frame(H2_RST_STREAM, 2 * number + 1, bytes(4))
        for number in range(1100)
    ]

    async def test() -> None:
        with capture_logs() as lines:
            async with served() as server, client(server) as http:
                host, _, port = server.address.rpartition(":")
                async with await anyio.connect_tcp(host, int(port)) as stream:
                    await stream.send(H2_PREFACE + H2_SETTINGS + b"".join(reset))
                    with pytest.raises(ENDED), anyio.fail_after(10):
                        while True:
                            await stream.receive()
                assert (await http.get("/livez")).status_code == 200
        events = [line["event"] for line in lines]
        assert events.count("requests_max_reached") == 1
        assert "connection_failed" not in events

    run(test)


def test_a_request_under_way_delays_the_end_by_a_second_at_most() -> None:
    async def test() -> None:
        with anyio.fail_after(5):
            async with served() as server:
                host, _, port = server.address.rpartition(":")
                stream = await anyio.connect_tcp(host, int(port))
                await stream.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
                assert b"200" in await stream.receive()
                await stream.send(b"POST /api/v1/definitions HTTP/1.1\r\ncontent-length: 9\r\n")

    run(test)


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"

        async def test() -> None:
            with pytest.raises(ExceptionGroup) as group:
                async with served(bind=bind):
                    pass
            assert str(group.value.exceptions[0]).startswith(f"cannot listen on {bind}")

        run(test)
