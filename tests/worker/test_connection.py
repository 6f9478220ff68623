"""One connection: what it says of a peer that is gone, silent or no broker."""

from __future__ import annotations

import asyncio

import pytest

from covey.worker.address import Address
from covey.worker.connection import open_connection
from covey.worker.errors import ConnectionLostError, DeniedError, UnreachableError
from covey.worker.testing import MemoryBroker
from tests.worker.support import play

HERE = Address("localhost", 61613, "admin", "password")


def test_a_wrong_password_is_denied() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        stranger = Address("localhost", 61613, "admin", "guess")
        with pytest.raises(DeniedError, match="wrong user or password"):
            await open_connection(stranger, dial=broker.dial)

    play(scenario)


def test_both_sides_beat_and_an_idle_connection_stays() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        connection = await open_connection(HERE, dial=broker.dial, heartbeat_s=1.0)
        await asyncio.sleep(60)
        assert connection.is_open
        await connection.close()
        assert not connection.is_open

    play(scenario)


def test_a_broker_that_falls_silent_is_given_up() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        connection = await open_connection(HERE, dial=broker.dial, heartbeat_s=1.0)
        (pipe,) = broker._pipes
        broker._pipes.clear()  # nobody works for it any more
        ended = await connection.ended
        assert isinstance(ended, ConnectionLostError)
        assert "silent" in str(ended)
        assert pipe.is_closing()

    play(scenario)


def test_who_waits_for_a_receipt_hears_that_the_connection_is_gone() -> None:
    async def scenario(broker: MemoryBroker) -> None:
        connection = await open_connection(HERE, dial=broker.dial)
        broker.break_connections()
        with pytest.raises(ConnectionLostError):
            await connection.ask("BEGIN", [("transaction", "t")])

    play(scenario)


def test_nobody_there_and_somebody_else_there_are_told_apart() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def ask() -> None:
        server = await asyncio.start_server(http, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        there = Address("127.0.0.1", port, "a", "b")
        with pytest.raises(UnreachableError, match="does not speak STOMP"):
            await open_connection(there)
        server.close()
        await server.wait_closed()
        with pytest.raises(UnreachableError, match="no broker answers"):
            await open_connection(there)

    asyncio.run(ask())
