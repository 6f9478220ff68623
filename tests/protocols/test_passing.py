"""A connection whose virtual host another process serves goes there, whatever carries its bytes.

Both processes are in one event loop here: a port that serves virtual host one, and an owner of two.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import pytest
import structlog
from anyio.abc import ByteStream

from covey.config.settings import ConnectorSettings, Settings
from covey.core.broker.directory import Directory
from covey.core.errors import RefusedError
from covey.protocols.doorman import Login, Passed, not_served
from covey.protocols.engine import Engine, Peer
from covey.protocols.listener import Listener
from covey.protocols.passing import Adoption, Owners, Passing, pack, unpack
from covey.protocols.read_buffers import ReadBuffers
from covey.protocols.registry import engine_maker, passed_engine
from covey.protocols.relay import Upstream
from covey.protocols.roster import Strangers
from tests.doubles import make_directory
from tests.e2e.amqp_bytes import AMQP_HEADER, SASL_HEADER, opening, sasl_init

LOG: Final = structlog.get_logger()
TIMEOUT_S: Final = 10.0
HOSTS: Final = [
    {"id": "one", "host_names": ["localhost"]},
    {"id": "two", "host_names": ["two.example"]},
]
PEER: Final = Peer("192.0.2.1", 4711, is_loopback=False, socket_buffer=65536)
PLAIN: Final = sasl_init("PLAIN", b"\0admin\0password")
STOMP: Final = (
    b"CONNECT\naccept-version:1.2\nhost:two.example\nlogin:admin\npasscode:password\n\n\0"
    b"SEND\ndestination:/queue/q\nreceipt:r\n\n"
)


class OwnerOfTwo(Owners):
    """Somebody else who serves virtual host two."""

    def __init__(self, *, takes_sockets: bool) -> None:
        self.takes_sockets = takes_sockets
        self.adoption: Adoption | None = None  # None: it is not there

    def is_elsewhere(self, space: str) -> bool:
        return space == "two"

    async def send_socket(self, connector: str, passed: Passed, raw: socket.socket) -> bool:
        if self.takes_sockets:
            await self._adopt(connector, passed, raw.dup())
        return self.takes_sockets

    async def connect(self, connector: str, passed: Passed, upstream: Upstream) -> None:
        ours, theirs = socket.socketpair()
        await self._adopt(connector, passed, theirs)
        ours.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: upstream, ours)

    async def _adopt(self, connector: str, passed: Passed, raw: socket.socket) -> None:
        if self.adoption is None:
            raw.close()
            raise not_served(passed.space)
        await self.adoption.adopt(raw, *unpack(pack(connector, passed)))


class Neighbours:
    """A port of the process that serves one, and the process that serves two."""

    def __init__(self, protocol: str, *, takes_sockets: bool) -> None:
        settings = Settings.model_validate({"virtual_host": HOSTS})
        self.here, self.there = make_directory(settings), make_directory(settings)
        del self.here.brokers["two"], self.there.brokers["one"]
        self.connector = ConnectorSettings.model_validate(
            {"id": "test", "protocol": protocol, "bind": "127.0.0.1:0"}
        )
        self.owners = OwnerOfTwo(takes_sockets=takes_sockets)
        self.passing = Passing(self.owners, self.here)
        self.has_owner = True

    def port_of(self, directory: Directory, passing: Passing | None) -> Listener:
        return Listener(
            self.connector,
            engine_maker(directory, self.connector, LOG),
            LOG,
            buffers=ReadBuffers(16384),
            strangers=Strangers(10),
            passing=passing,
        )

    def make_passed(
        self, connector: str, passed: Passed, log: object, accepted_at: float
    ) -> tuple[Engine, Callable[[], None]]:
        assert connector == "test"
        return passed_engine(self.there, self.connector, LOG, passed, accepted_at)

    def play(self, scenario: Callable[[ByteStream], Awaitable[None]]) -> None:
        async def play() -> None:
            self.listener = self.port_of(self.here, self.passing)
            if self.has_owner:
                port = self.port_of(self.there, None)
                self.owners.adoption = Adoption([port], self.make_passed, LOG)
            bound = await self.listener.bind()
            with anyio.fail_after(TIMEOUT_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.listener.serve, bound)
                    number = int(self.listener.address.rpartition(":")[2])
                    async with await anyio.connect_tcp("127.0.0.1", number) as stream:
                        await scenario(stream)
                    tasks.cancel_scope.cancel()

        anyio.run(play, backend_options={"use_uvloop": True})


async def read_until(stream: ByteStream, end: bytes) -> bytes:
    said = b""
    while end not in said:
        said += await stream.receive()
    return said


@pytest.mark.parametrize("takes_sockets", [True, False])
def test_a_stomp_client_is_served_where_its_virtual_host_is(takes_sockets: bool) -> None:
    neighbours = Neighbours("stomp", takes_sockets=takes_sockets)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)  # ends in the middle of a frame
        said = await read_until(stream, b"\0")
        assert b"host-id:two" in said
        await stream.send(b"body\0")
        assert b"receipt-id:r" in await read_until(stream, b"\0")
        (session,) = neighbours.there.brokers["two"].sessions.values()
        address = stream.extra(anyio.abc.SocketAttribute.local_address)
        assert session.remote == f"127.0.0.1:{address[1]}"
        is_held = bool(len(neighbours.listener.roster))
        assert is_held is not takes_sockets  # a socket that was passed costs nothing any more

    neighbours.play(scenario)
    assert neighbours.there.brokers["two"].host.queues["q"].state.index.count == 1
    assert (neighbours.passing.passed, neighbours.passing.relayed) == (
        int(takes_sockets),
        int(not takes_sockets),
    )


@pytest.mark.parametrize("takes_sockets", [True, False])
@pytest.mark.parametrize("is_pipelined", [True, False])
def test_an_amqp_client_logs_in_once_and_is_served_elsewhere(
    takes_sockets: bool, is_pipelined: bool
) -> None:
    neighbours = Neighbours("amqp", takes_sockets=takes_sockets)

    async def scenario(stream: ByteStream) -> None:
        login, rest = SASL_HEADER + PLAIN, AMQP_HEADER + opening(hostname="two.example")
        if is_pipelined:
            await stream.send(login + rest)
            said = await read_until(stream, b"covey")
        else:
            await stream.send(login)
            said = await read_until(stream, b"\x50\x00")  # the outcome
            await stream.send(rest)
            said += await read_until(stream, b"covey")
        assert said.count(AMQP_HEADER) == 1  # the doorman's or the owner's
        (session,) = neighbours.there.brokers["two"].sessions.values()
        assert session.identity.name == "admin"

    neighbours.play(scenario)


def test_who_stops_writing_still_gets_the_answers_of_an_owner_behind_a_copy() -> None:
    neighbours = Neighbours("stomp", takes_sockets=False)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP + b"\0")
        await stream.send_eof()
        said = await read_until(stream, b"receipt-id:r")
        assert b"CONNECTED" in said

    neighbours.play(scenario)


@pytest.mark.parametrize("takes_sockets", [True, False])
def test_a_virtual_host_whose_owner_is_away_is_unavailable(takes_sockets: bool) -> None:
    neighbours = Neighbours("stomp", takes_sockets=takes_sockets)
    neighbours.has_owner = False

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        said = await read_until(stream, b"\0")
        assert b"ERROR" in said
        assert b"covey-code:unavailable" in said

    neighbours.play(scenario)


def test_a_connection_is_not_passed_on_twice() -> None:
    neighbours = Neighbours("stomp", takes_sockets=True)
    neighbours.there.brokers["one"] = neighbours.there.brokers.pop("two")  # it serves two no more

    async def scenario(stream: ByteStream) -> None:
        await stream.send(STOMP)
        assert b"covey-code:unavailable" in await read_until(stream, b"\0")

    neighbours.play(scenario)


def test_a_wrong_password_is_refused_by_the_doorman() -> None:
    neighbours = Neighbours("amqp", takes_sockets=True)

    async def scenario(stream: ByteStream) -> None:
        await stream.send(SASL_HEADER + sasl_init("PLAIN", b"\0admin\0wrong"))
        assert b"\x50\x01" in await read_until(stream, b"\x50\x01")

    neighbours.play(scenario)
    assert not neighbours.there.shared.sessions


def test_what_goes_with_a_connection_is_read_back_as_it_was() -> None:
    passed = Passed("two", PEER, 0.5, {"user": "ann", "is_greeted": True}, b"\0\nany\xff")
    assert unpack(pack("amqp", passed)) == ("amqp", passed)


def test_a_user_who_is_gone_meanwhile_is_refused() -> None:
    neighbours = Neighbours("amqp", takes_sockets=True)
    login: Login = {"user": "nobody", "is_anonymous": False, "hostname": "", "is_greeted": True}
    passed = Passed("two", PEER, 0.0, login, AMQP_HEADER)
    with pytest.raises(RefusedError):
        passed_engine(neighbours.there, neighbours.connector, LOG, passed, 0.0)
