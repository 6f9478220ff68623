"""A protocol is known by how it begins."""

from __future__ import annotations

import pytest

from covey.protocols.sniff import spoken


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
