"""Outcomes: what a peer decides of a delivery, in the core's words (AMQP 1.0 section 3.4)."""

from __future__ import annotations

from typing import Final

from cproton_ffi import lib

from covey.core.entry import Outcome
from covey.protocols.amqp import transfer
from covey.protocols.amqp.wire import Pointer

OUTCOMES: Final[dict[int, Outcome]] = {
    transfer.ACCEPTED: Outcome.ACCEPTED,
    transfer.REJECTED: Outcome.REJECTED,
    transfer.RELEASED: Outcome.RELEASED,
    transfer.MODIFIED: Outcome.FAILED,
}


def outcome_of(delivery: Pointer, state: int) -> Outcome:
    """Say in the core's words what the peer decided; silence gives a message back unseen."""
    if state == transfer.MODIFIED:
        disposition = lib.pn_delivery_remote(delivery)
        return modified(
            is_failed=lib.pn_disposition_is_failed(disposition),
            is_undeliverable=lib.pn_disposition_is_undeliverable(disposition),
        )
    return OUTCOMES.get(state, Outcome.RELEASED)


def modified(*, is_failed: bool, is_undeliverable: bool) -> Outcome:
    """Say what `modified` means; undeliverable is what this link must not get again."""
    if is_undeliverable:
        return Outcome.UNFIT if is_failed else Outcome.DECLINED
    return Outcome.FAILED if is_failed else Outcome.RELEASED
