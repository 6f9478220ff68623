"""Transfer: the few C calls every message goes through.

Rules of proton that hold here (a broken one is a crash, not an error):

- `pn_link_recv` and `pn_link_send` work on the link's current delivery; `pn_link_advance`, or
  settling it, comes before the next one.
- A delivery's pointer is used again once it is settled: whoever keeps it as a key removes it first.
- A link that is freed takes its deliveries with it: nobody may hold their pointers then.

A delivery always gets a state before it is settled: some peers take silence for acceptance.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import cproton_ffi
from cproton_ffi import ffi, lib

from covey.core.errors import BrokerError
from covey.protocols.amqp.calls import (
    pn_delivery,
    pn_delivery_settle,
    pn_delivery_update,
    pn_link_current,
    pn_link_recv,
    pn_link_send,
)
from covey.protocols.amqp.conditions import DESCRIPTION_MAX, condition_name
from covey.protocols.amqp.wire import Pointer

ACCEPTED: Final[int] = lib.PN_ACCEPTED
REJECTED: Final[int] = lib.PN_REJECTED
RELEASED: Final[int] = lib.PN_RELEASED
MODIFIED: Final[int] = lib.PN_MODIFIED
DECLARED: Final = 0x33  # AMQP 1.0 section 4.5.5
TRANSACTIONAL: Final = 0x34  # AMQP 1.0 section 4.5.8

RECEIVE_SIZE: Final = 64 * 1024  # bytes read without an allocation of their own

# Lending credit to a link that sends is what an assertion of proton's forbids, where it was built
# with assertions: there the text of this one is in the library.
_LENDING_ASSERTION: Final = b"pn_link_is_receiver(receiver)"
_CAN_LEND: Final = _LENDING_ASSERTION not in Path(cproton_ffi.__file__).read_bytes()

_received: Final[Any] = ffi.new("char[]", RECEIVE_SIZE)
_received_bytes: Final[Any] = ffi.buffer(_received)  # the same memory: a slice is bytes
_tag_number: Final[Any] = ffi.new("uint64_t *")
_tag_pointer: Final[Any] = ffi.new("pn_bytes_t *", (8, ffi.cast("char *", _tag_number)))
_tag: Final[Any] = _tag_pointer[0]


def read(link: Pointer) -> bytes:
    """Take the bytes that have come for the link's current delivery."""
    taken: int = pn_link_recv(link, _received, RECEIVE_SIZE)
    if taken <= 0:
        return b""
    data: bytes = _received_bytes[:taken]
    return data if taken < RECEIVE_SIZE else data + _read_rest(link)


def _read_rest(link: Pointer) -> bytes:
    """Take what is left of a piece that the buffer could not hold."""
    size: int = lib.pn_delivery_pending(pn_link_current(link))
    if size == 0:
        return b""
    buffer = ffi.new("char[]", size)
    data: bytes = ffi.buffer(buffer)[: pn_link_recv(link, buffer, size)]
    return data


def send(link: Pointer, number: int, payload: bytes) -> Pointer:
    """Send a message as the link's next delivery, and return that: it is still the current one."""
    _tag_number[0] = number
    delivery = pn_delivery(link, _tag)
    pn_link_send(link, payload, len(payload))
    return delivery


def give_back_credit(link: Pointer) -> None:
    """Answer a drain: no credit is left, whether or not some had to be given back.

    The flow is owed in both cases (AMQP 1.0 section 2.6.7); proton sends one in the first only. It
    is lent a credit then, which it gives back at once: the frame's own numbers do not count it. A
    drain that crosses transfers on their way has a credit below zero here, and no answer.
    """
    if not lib.pn_link_get_drain(link):
        return
    if _CAN_LEND and lib.pn_link_credit(link) == 0:
        lib.pn_link_flow(link, 1)
    lib.pn_link_drained(link)


def settle(delivery: Pointer, state: int) -> None:
    """Settle a delivery with a state that has no fields."""
    pn_delivery_update(delivery, state)
    pn_delivery_settle(delivery)


def rejection(delivery: Pointer) -> str:
    """Return what the peer says of a message it rejects, condition first."""
    condition = lib.pn_disposition_condition(lib.pn_delivery_remote(delivery))
    texts = (lib.pn_condition_get_name(condition), lib.pn_condition_get_description(condition))
    said = [ffi.string(text).decode("utf-8", "replace") for text in texts if text]
    return ": ".join([text for text in said if text])[:DESCRIPTION_MAX]


def reject(delivery: Pointer, error: BrokerError) -> None:
    """Settle a delivery as rejected, saying why."""
    condition = lib.pn_disposition_condition(lib.pn_delivery_local(delivery))
    lib.pn_condition_set_name(condition, condition_name(error).encode())
    text = error.text[:DESCRIPTION_MAX].encode("utf-8", "replace").replace(b"\0", b"?")
    lib.pn_condition_set_description(condition, text)
    settle(delivery, REJECTED)
