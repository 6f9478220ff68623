# Compiled by mypyc: see setup.py.
"""Outcomes: writes the states of deliveries, and reads a peer's states as the core's outcomes.

A peer may write the descriptor of a state as a name. `received` tells how far a delivery has come:
it is not an outcome. Unknown states are not outcomes either.

Source: AMQP 1.0 sections 3.4 and 4.5.
"""

from __future__ import annotations

from typing import Final

from covey.core.errors import BrokerError
from covey.core.model.entry import Outcome
from covey.protocols.amqp.codec import encoder
from covey.protocols.amqp.codec.checker import Checker
from covey.protocols.amqp.codec.decoder import Described, decode
from covey.protocols.amqp.codec.performatives import error_of, performative
from covey.protocols.amqp.conditions import DELIVERY_TAG, condition_name, description_of

ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
DECLARED: Final = 0x33
TRANSACTIONAL: Final = 0x34

OUTCOMES: Final[dict[object, Outcome]] = {
    ACCEPTED: Outcome.ACCEPTED,
    REJECTED: Outcome.REJECTED,
    RELEASED: Outcome.RELEASED,
    MODIFIED: Outcome.FAILED,
}
_NAMES: Final[dict[object, int]] = {
    "amqp:accepted:list": ACCEPTED,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": RELEASED,
    "amqp:modified:list": MODIFIED,
    "amqp:transactional-state:list": TRANSACTIONAL,
}

REASON_MAX: Final = 1024  # characters of a peer's reason for a rejection

ACCEPTED_STATE: Final = performative(ACCEPTED)
ACCEPTED_STARTS: Final = ACCEPTED_STATE[:3]  # its empty list may have several forms


class State:
    """A state that a peer sent: its code and its fields."""

    __slots__ = ("code", "fields")

    def __init__(self, code: object, fields: list[object]) -> None:
        self.code = code
        self.fields = fields


NO_STATE: Final = State(None, [])
IS_ACCEPTED: Final = State(ACCEPTED, [])


def read_state(data: bytes, at: int) -> State:
    """Read the state at `at`; raises ProtocolError or RefusedError."""
    if data[at : at + 3] == ACCEPTED_STARTS:
        return IS_ACCEPTED
    Checker(data).check(at)
    return _state(decode(data, at))


def _state(described: object) -> State:
    if not isinstance(described, Described):
        return NO_STATE
    code = described.descriptor  # may have any type, even a list
    if isinstance(code, str):
        code = _NAMES.get(code)
    fields = described.value if isinstance(described.value, list) else []
    return State(code if isinstance(code, int) else None, fields)


def transaction_of(state: State) -> tuple[bytes | None, State]:
    """Return the id that a transactional state names, and the outcome in it."""
    fields = [*state.fields, None, None]
    id = fields[0]
    return (id if isinstance(id, bytes) else None), _state(fields[1])


def outcome_of(state: State) -> tuple[Outcome, str]:
    """Return the core's outcome of a peer's state, and the reason that it gives for a rejection.

    No state, or an unknown one, releases the message. `undeliverable-here` means that this link
    must not get the message again.
    """
    fields = [*state.fields, None, None]
    if state.code == MODIFIED:
        is_failed = fields[0] is True
        if fields[1] is True:
            return (Outcome.UNFIT if is_failed else Outcome.DECLINED), ""
        return (Outcome.FAILED if is_failed else Outcome.RELEASED), ""
    reason = ""
    error = fields[0]
    if state.code == REJECTED and isinstance(error, Described) and isinstance(error.value, list):
        texts = [str(each) for each in error.value[:2] if each]
        reason = ": ".join(texts)[:REASON_MAX]
    return OUTCOMES.get(state.code, Outcome.RELEASED), reason


# Writing.


def plain(code: object) -> bytes:
    """Write an outcome without its fields."""
    return performative(code if isinstance(code, int) else RELEASED)


def rejected(error: BrokerError, tag: bytes = b"") -> bytes:
    """Write a rejection with its reason; it names the delivery if there is a tag."""
    info = encoder.NULL
    if tag:
        info = encoder.compound([encoder.symbol(DELIVERY_TAG), encoder.binary(tag)], is_map=True)
    return performative(REJECTED, error_of(condition_name(error), description_of(error), info))


def declared(id: bytes) -> bytes:
    """Write that a transaction has begun."""
    return performative(DECLARED, encoder.binary(id))


def within(id: bytes, state: bytes = ACCEPTED_STATE) -> bytes:
    """Write the outcome of a message in a transaction."""
    return performative(TRANSACTIONAL, encoder.binary(id), state)
