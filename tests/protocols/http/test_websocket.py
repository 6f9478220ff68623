"""WebSocket: STOMP through it, and what strangers and web pages may not do."""

from __future__ import annotations

import gc
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream
from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from tests.core.support import depth
from tests.protocols.http.support import PLAIN, Served, make_settings, run, served

V12 = Subprotocol("v12.stomp")
LOGIN = (
    f"CONNECT\naccept-version:1.0,1.1,1.2\nhost:localhost\nlogin:{PLAIN[0]}\npasscode:{PLAIN[1]}"
    "\n\n\0"
)
MIB = 1024 * 1024


@asynccontextmanager
async def stomp(server: Served, path: str = "/stomp") -> AsyncIterator[ClientConnection]:
    """A WebSocket that has logged in."""
    url = server.websocket_url(path)
    async with connect(url, subprotocols=[V12], max_size=None) as socket:
        await socket.send(LOGIN)
        assert str(await socket.recv()).startswith("CONNECTED\n")
        yield socket


@asynccontextmanager
async def raw_websocket(server: Served) -> AsyncIterator[SocketStream]:
    """A WebSocket whose frames a test writes itself, and may write slowly."""
    host, _, port = server.address.rpartition(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(
            b"GET /stomp HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n"
            b"connection: upgrade\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n"
            b"sec-websocket-version: 13\r\n\r\n"
        )
        assert b" 101 " in await stream.receive()
        yield stream


def ws_frame(data: bytes, *, is_first: bool = True, is_last: bool = True) -> bytes:
    """Write a short frame of a text message, masked by zeros."""
    start = (0x80 if is_last else 0) | (1 if is_first else 0)
    size = struct.pack(">B", 0x80 | len(data)) if len(data) < 126 else b"\xfe\0%c" % len(data)
    return struct.pack(">B", start) + size + bytes(4) + data


def slowly_sent(pieces: list[bytes], *, is_one_frame: bool) -> list[bytes]:
    """Return what to send one after the other: parts of a frame, or the frames of a message."""
    if is_one_frame:
        whole = ws_frame(b"".join(pieces))
        size = len(whole) // len(pieces)
        return [whole[at : at + size] for at in range(0, len(whole), size)]
    last = len(pieces) - 1
    return [ws_frame(one, is_first=at == 0, is_last=at == last) for at, one in enumerate(pieces)]


async def until_closed(socket: ClientConnection) -> str:
    """Return everything that is still said."""
    heard = ""
    try:
        while True:
            part = await socket.recv()
            heard += part if isinstance(part, str) else part.decode(errors="replace")
    except ConnectionClosed:
        return heard


@pytest.mark.parametrize("path", ["/stomp", "/ws"])
def test_a_message_goes_round(path: str) -> None:
    async def test() -> None:
        async with served() as server, stomp(server, path) as socket:
            await socket.send("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
            await socket.send("SEND\ndestination:/queue/a\n\nhällo\0")
            message = await socket.recv()
            assert isinstance(message, str)
            assert message.startswith("MESSAGE\n")
            assert message.endswith("\n\nhällo\0\n")

    run(test)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["v10.stomp", "v11.stomp", "v12.stomp"], "v12.stomp"),
        (["v10.stomp", "other"], "v10.stomp"),
        ([], None),
    ],
)
def test_the_best_subprotocol_is_chosen(offered: list[str], chosen: str | None) -> None:
    async def test() -> None:
        protocols = [Subprotocol(name) for name in offered] or None
        async with served() as server:
            async with connect(server.websocket_url(), subprotocols=protocols) as socket:
                assert socket.subprotocol == chosen

    run(test)


def test_frames_may_be_cut_and_joined_at_will_and_bodies_may_be_binary() -> None:
    async def test() -> None:
        async with served() as server, stomp(server) as socket:
            frames = (
                b"SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0"
                b"SEND\ndestination:/queue/a\ncontent-length:3\n\n\xff\0\xfe\0"
            )
            for start in range(0, len(frames), 7):
                await socket.send(frames[start : start + 7])
            message = await socket.recv()
            assert isinstance(message, bytes)
            assert message.endswith(b"\n\n\xff\0\xfe\0\n")

    run(test)


def test_nothing_is_compressed_though_the_client_offers_it() -> None:
    async def test() -> None:
        async with served() as server:
            async with connect(server.websocket_url(), compression="deflate") as socket:
                assert socket.response is not None
                assert "sec-websocket-extensions" not in socket.response.headers

    run(test)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"origin": Origin("https://evil.example")}, 403),
        ({"origin": Origin("http://127.0.0.1")}, 403),
        ({"origin": Origin("null")}, 403),
        ({"subprotocols": [Subprotocol("mqtt")]}, 400),
    ],
)
def test_who_does_not_belong_is_refused_before_the_opening(
    given: dict[str, object], status: int
) -> None:
    async def test() -> None:
        async with served() as server:
            with pytest.raises(InvalidStatus) as error:
                async with connect(server.websocket_url(), **given):  # type: ignore[arg-type]
                    pass
            assert error.value.response.status_code == status

    run(test)


def test_a_name_that_is_not_ours_is_refused() -> None:
    async def test() -> None:
        async with served() as server:
            host, _, port = server.address.rpartition(":")
            with pytest.raises(InvalidStatus) as error:
                async with connect("ws://evil.example/stomp", host=host, port=int(port)):
                    pass
            assert error.value.response.status_code == 421

    run(test)


def test_a_web_page_on_the_list_may_open_one() -> None:
    async def test() -> None:
        http = {"allowed_origins": ["https://ops.example"]}
        async with served(http=http) as server:
            origin = Origin("https://ops.example")
            async with connect(server.websocket_url(), origin=origin) as socket:
                await socket.send(LOGIN)
                assert str(await socket.recv()).startswith("CONNECTED\n")

    run(test)


def test_other_paths_have_no_websocket() -> None:
    async def test() -> None:
        async with served() as server:
            with pytest.raises(InvalidStatus) as error:
                async with connect(server.websocket_url("/api/v1/queues")):
                    pass
            assert error.value.response.status_code == 404

    run(test)


def test_a_wrong_password_is_told_in_stomps_words() -> None:
    async def test() -> None:
        async with served() as server:
            async with connect(server.websocket_url()) as socket:
                await socket.send(LOGIN.replace(PLAIN[1], "guessed"))
                heard = await until_closed(socket)
            assert heard.startswith("ERROR\nmessage:login failed")
            assert not server.broker.sessions

    run(test)


@pytest.mark.parametrize("in_parts", [True, False])
def test_a_strangers_message_is_limited_while_it_comes_in(in_parts: bool) -> None:
    async def test() -> None:
        async with served() as server:
            async with connect(server.websocket_url()) as socket:
                flood = [b"x" * 1024] * 1024
                try:
                    await socket.send(flood if in_parts else b"".join(flood))
                except ConnectionClosed:
                    pass
                heard = await until_closed(socket)
            told = "ERROR\nmessage:a WebSocket message is larger than 65536 bytes"
            assert heard == "" or (heard.startswith(told) and "\ncovey-code:limit\n" in heard)
            await server.listener.websockets.roster.until_empty()

    run(test)


def test_large_messages_pass_after_the_login() -> None:
    async def test() -> None:
        async with served() as server, stomp(server) as socket:
            body = "x" * (2 * MIB)
            await socket.send("SUBSCRIBE\nid:1\ndestination:/queue/a\n\n\0")
            await socket.send(f"SEND\ndestination:/queue/a\n\n{body}\0")
            heard = ""
            while not heard.endswith("\0\n"):
                heard += str(await socket.recv())
            assert heard.endswith(body + "\0\n")

    run(test)


@pytest.mark.parametrize("is_one_frame", [True, False])
def test_a_message_that_is_still_coming_in_is_a_sign_of_life(is_one_frame: bool) -> None:
    async def test() -> None:
        hasty = {"heartbeat_tolerance": 1, "die_delay_ms": 0}
        async with served(stomp=hasty) as server, raw_websocket(server) as stream:
            login = LOGIN.replace("\nhost", "\nheart-beat:600,0\nhost")
            await stream.send(ws_frame(login.encode()))
            assert b"CONNECTED" in await stream.receive()
            pieces = [b"SEND\ndestination:/queue/a\nreceipt:r\n\n", *[b"x" * 10] * 10, b"\0"]
            for piece in slowly_sent(pieces, is_one_frame=is_one_frame):
                await anyio.sleep(0.15)  # all of them take far longer than a heart-beat may
                await stream.send(piece)
            with anyio.fail_after(5):
                assert b"RECEIPT" in await stream.receive()

    run(test)


def test_a_peer_that_stops_in_the_middle_of_a_message_is_dead() -> None:
    async def test() -> None:
        hasty = {"heartbeat_tolerance": 1, "die_delay_ms": 0}
        async with served(stomp=hasty) as server, raw_websocket(server) as stream:
            login = LOGIN.replace("\nhost", "\nheart-beat:200,0\nhost")
            await stream.send(ws_frame(login.encode()))
            assert b"CONNECTED" in await stream.receive()
            await stream.send(ws_frame(b"SEND\ndestination:/queue/a\n\nx", is_last=False))
            with anyio.fail_after(5):
                assert b"no heart-beat in time" in await stream.receive()

    run(test)


def test_a_peer_that_goes_gives_everything_back() -> None:
    async def test() -> None:
        async with served() as server:
            async with stomp(server) as socket:
                await socket.send(
                    "SUBSCRIBE\nid:1\nack:client\ndestination:/queue/a\n\n\0"
                    "SEND\ndestination:/queue/a\n\nx\0"
                )
                await socket.recv()
                assert len(server.broker.sessions) == 1
                socket.transport.abort()
            await server.listener.websockets.roster.until_empty()
            assert not server.broker.sessions
            assert depth(server.host.queues["a"]) == 1

    run(test)


@pytest.mark.slow
def test_a_flood_after_the_end_holds_up_nothing() -> None:
    async def test() -> None:
        async with served(stomp={"die_delay_ms": 0}) as server:
            url = server.websocket_url()
            async with connect(url, close_timeout=60) as socket:
                await socket.send(LOGIN + "NONSENSE\n\n\0")
                with anyio.fail_after(8):  # not the client ends it, but the broker
                    try:
                        while True:
                            await socket.send("x" * 4096)
                    except ConnectionClosed:
                        pass
                    await socket.wait_closed()

    run(test)


def test_at_the_end_every_peer_is_told_and_closed() -> None:
    async def test() -> None:
        heard: list[str] = []
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:

                async def listen(socket: ClientConnection) -> None:
                    heard.append(await until_closed(socket))

                async with served(stomp={"die_delay_ms": 0}) as server:
                    for _ in range(3):
                        socket = await connect(server.websocket_url())
                        await socket.send(LOGIN)
                        await socket.recv()
                        tasks.start_soon(listen, socket)
        assert len(heard) == 3
        assert all("the test ends" in one for one in heard)

    run(test)


def test_a_port_holds_only_so_many() -> None:
    async def test() -> None:
        async with served(connections_max=1) as server, stomp(server):
            with pytest.raises(InvalidStatus) as error:
                async with connect(server.websocket_url()):
                    pass
            assert error.value.response.status_code == 503

    run(test)


def test_an_address_has_only_so_many_strangers() -> None:
    async def test() -> None:
        settings = make_settings(broker={"logins_pending_max": 1})
        async with served(settings) as server:
            async with connect(server.websocket_url()):
                with pytest.raises(InvalidStatus):
                    async with connect(server.websocket_url()):
                        pass
            await server.listener.websockets.roster.until_empty()
            gc.collect()
            async with connect(server.websocket_url()) as socket:
                await socket.send(LOGIN)
                await socket.recv()

    run(test)


def test_an_opening_that_is_no_text_is_no_failure_of_the_broker() -> None:
    head = (
        b"GET /stomp HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade, \xac"
        b"\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\nsec-websocket-version: 13\r\n\r\n"
    )

    async def test() -> None:
        async with served() as server:
            port = int(server.address.rpartition(":")[2])
            with capture_logs() as logs:
                async with await anyio.connect_tcp("127.0.0.1", port) as peer:
                    await peer.send(head)
                    with pytest.raises(anyio.EndOfStream):
                        await peer.receive()
            assert [line["event"] for line in logs] == ["connection_failed"]
            assert server.broker.internal_errors == 0

    run(test)
