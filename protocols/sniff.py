"""Opening: which protocol a peer speaks, by its first bytes.

Somebody who took the wrong port is told so in one sentence, by the broker and by the commands,
instead of being told what is wrong with bytes that were never meant for this protocol.
"""

from __future__ import annotations

from typing import Final

TLS: Final = "TLS"

# How a first message begins. A request to a server and the answer of one, whichever is heard.
OPENINGS: Final = (
    (b"AMQP", "AMQP"),
    (b"CONNECT\n", "STOMP"),
    (b"CONNECT\r", "STOMP"),
    (b"STOMP\n", "STOMP"),
    (b"STOMP\r", "STOMP"),
    (b"CONNECTED\n", "STOMP"),
    (b"ERROR\n", "STOMP"),
    (b"GET ", "HTTP"),
    (b"POST ", "HTTP"),
    (b"PUT ", "HTTP"),
    (b"HEAD ", "HTTP"),
    (b"OPTIONS ", "HTTP"),
    (b"CONNECT ", "HTTP"),
    (b"PRI * ", "HTTP"),  # HTTP/2 with prior knowledge (RFC 9113 section 3.4)
    (b"HTTP/", "HTTP"),
    (b"\x16\x03", TLS),  # a handshake record (RFC 8446 section 5.1)
    (b"\x15\x03", TLS),  # an alert
)
MQTT_CONNECT: Final = 0x10  # the packet's type, before its length (MQTT 3.1.1 section 3.1)
MQTT_NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")
MQTT_NAME_AT: Final = (2, 3)  # behind a length of one or two bytes


def spoken(data: bytes) -> str:
    """Name the protocol that begins like this; "" for none that is known."""
    for start, name in OPENINGS:
        if data.startswith(start):
            return name
    if data[:1] == bytes((MQTT_CONNECT,)) and any(
        data.startswith(MQTT_NAMES, at) for at in MQTT_NAME_AT
    ):
        return "MQTT"
    return ""
