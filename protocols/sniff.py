"""Sniff: which protocol a peer speaks, by its first bytes.

A client that took the wrong port is told so in one sentence, by the broker and by the commands.
That helps more than an error about bytes that were never meant for this protocol.

The table is outside the protocol packages, because all of them read it and they do not know each
other. Each package's record (`protocol`) names its own bytes here.
"""

from __future__ import annotations

from typing import Final

TLS: Final = "TLS"

# How a first message begins: a request to a server, or the answer of one.
AMQP: Final = (b"AMQP",)
STOMP: Final = (
    b"CONNECT\n",
    b"CONNECT\r",
    b"STOMP\n",
    b"STOMP\r",
    b"CONNECTED\n",
    b"ERROR\n",
)
HTTP: Final = (
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PRI * ",  # HTTP/2 with prior knowledge (RFC 9113 section 3.4)
    b"HTTP/",
)
TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")  # a handshake, an alert (RFC 8446 section 5.1)
OPENINGS: Final = {"AMQP": AMQP, "STOMP": STOMP, "HTTP": HTTP, TLS: TLS_RECORDS}

MQTT_CONNECT: Final = 0x10  # the packet's type, before its length (MQTT 3.1.1 section 3.1)
MQTT_NAMES: Final = (b"\x00\x04MQTT", b"\x00\x06MQIsdp")
MQTT_NAME_AT: Final = (2, 3)  # behind a length of one or two bytes


def spoken(data: bytes) -> str:
    """Name the protocol that begins like this; "" for none that is known."""
    for name, starts in OPENINGS.items():
        if data.startswith(starts):
            return name
    if data[:1] == bytes((MQTT_CONNECT,)) and any(
        data.startswith(MQTT_NAMES, at) for at in MQTT_NAME_AT
    ):
        return "MQTT"
    return ""
