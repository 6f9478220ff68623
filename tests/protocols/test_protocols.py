"""What all protocols share: how each begins, who waits for a login, what the process is.

A protocol is known by how it begins.

An address may have only so many connections that have not logged in.

Process: numbers that can be true of the process that runs the tests.
"""

from __future__ import annotations

import os
import time

import pytest

from covey.protocols.process import Process, resident_bytes
from covey.protocols.roster import Strangers
from covey.protocols.sniff import spoken
from tests.protocols.support import SilentEngine


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
        (b"AMQP\x00\x00\x09\x01", "AMQP"),
        (b"CONNECT\naccept-version:1.2\n\n\0", "STOMP"),
        (b"STOMP\r\naccept-version:1.2\r\n\r\n\0", "STOMP"),
        (b"ERROR\nmessage:no\n\n\0", "STOMP"),
        (b"CONNECT proxy:80 HTTP/1.1\r\n", "HTTP"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"HTTP/1.1 400 \r\n", "HTTP"),
        (bytes.fromhex("160301020001"), "TLS"),
        (b"\x10\x0c\x00\x04MQTT\x04\x02", "MQTT"),
        (b"\x10\x8c\x01\x00\x06MQIsdp\x03", "MQTT"),
        (b"hello", ""),
        (b"", ""),
    ],
)
def test_a_protocol_is_known_by_its_first_bytes(first: bytes, name: str) -> None:
    assert spoken(first) == name


def test_an_address_is_refused_once_it_has_enough_strangers() -> None:
    strangers = Strangers(2)
    engines = [SilentEngine() for _ in range(3)]
    assert [strangers.admit("a", engine) for engine in engines] == [True, True, False]
    assert strangers.admit("b", engines[2])


def test_a_login_makes_room() -> None:
    strangers = Strangers(1)
    first, second = SilentEngine(), SilentEngine()
    assert strangers.admit("a", first)
    first.is_stranger = False
    assert strangers.admit("a", second)


def test_an_end_makes_room_and_leaves_nothing_behind() -> None:
    strangers = Strangers(1)
    first, second = SilentEngine(), SilentEngine()
    assert strangers.admit("a", first)
    strangers.forget("a", first)
    assert strangers._by_address == {}
    assert strangers.admit("a", second)
    strangers.forget("b", second)


def test_the_process_is_told_as_the_system_sees_it() -> None:
    process = Process()
    assert 0 < process.cpu_s()
    assert 1024 * 1024 < resident_bytes() < 2**40
    before = process.open_files()
    reading, writing = os.pipe()
    assert process.open_files() == before + 2
    os.close(reading)
    os.close(writing)
    assert before < process.open_files_max()
    assert process.started_s <= time.time()
