"""Acks: ACK and NACK, in three versions, three modes, in transactions and without.

- `client` mode: an ACK (or NACK) covers all earlier messages of the subscription, too.
- A message acknowledged in a transaction raises credit at once, and only once, even if the
  transaction is aborted and the message acknowledged again (the Apollo STOMP manual).
- An ACK on an `auto` subscription only raises credit.
- `credit:n[,m]` on an ACK adds to the windows; with `credit:count,size,false` on SUBSCRIBE it is
  the only thing that does.
- NACK is a failed try; `requeue:false` (RabbitMQ's word) sends the message to the dead-letter
  queue at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from covey.core.entry import Entry, Outcome
from covey.core.errors import RefusedError
from covey.protocols.stomp.frame import Frame
from covey.protocols.stomp.headers import is_true
from covey.protocols.stomp.held import Held
from covey.protocols.stomp.rules import Version
from covey.protocols.stomp.subscribe import read_credit

if TYPE_CHECKING:
    from covey.protocols.stomp.consumer import StompConsumer
    from covey.protocols.stomp.engine import StompEngine

Headers = dict[str, str]


def on_ack(engine: StompEngine, frame: Frame, headers: Headers) -> None:
    """The client is done with a message."""
    _settle(engine, headers, Outcome.ACCEPTED)


def on_nack(engine: StompEngine, frame: Frame, headers: Headers) -> None:
    """The client could not process a message."""
    comes_again = is_true("requeue", headers.get("requeue", "true"))
    _settle(engine, headers, Outcome.FAILED if comes_again else Outcome.REJECTED)


def accept(engine: StompEngine, tags: Sequence[int]) -> None:
    """Settle messages a 1.2 client names by number and nothing else: the hot way.

    Those of one consumer that follow each other are settled in one go.
    """
    known = engine.holding.messages
    row: list[Entry] = []
    reader: StompConsumer | None = None  # whose the row is
    for tag in tags:
        held = known.get(tag)
        # One that is in a transaction, or was, has its credit.
        if held is None or held.is_credited or not held.consumer.is_settled_alone:
            _accept_row(engine, reader, row)
            row = []
            _settle(engine, {"id": str(tag)}, Outcome.ACCEPTED)
            continue
        if held.consumer is not reader:
            _accept_row(engine, reader, row)
            row = []
            reader = held.consumer
        del known[tag]
        row.append(held.entry)
    _accept_row(engine, reader, row)


def _accept_row(engine: StompEngine, consumer: StompConsumer | None, row: list[Entry]) -> None:
    if consumer is None or not row:
        return
    source = consumer.queue
    if source is not None:
        source.accept(consumer, row, engine.now)
    if consumer.is_credited_by_ack:
        consumer.window.grant(len(row), sum([entry.size for entry in row]))


def _settle(engine: StompEngine, headers: Headers, outcome: Outcome) -> None:
    tag = _find(engine, headers)
    if tag == 0:
        _only_credit(engine, headers)
    else:
        _settle_held(engine, headers, tag, outcome)
    receipt = headers.get("receipt")
    if receipt is not None:
        engine.when_safe(engine.receipt(receipt))


def _settle_held(engine: StompEngine, headers: Headers, tag: int, outcome: Outcome) -> None:
    holding = engine.holding
    named = holding.messages[tag]
    wish = named.consumer.wish
    transaction = headers.get("transaction", "")
    given = headers.get("credit")
    more = (0, 0) if given is None else read_credit(given)  # before anything is settled
    count, size = 0, 0
    for covered in holding.covered_by(tag):
        held = holding.messages[covered]
        if not held.is_credited:
            held.is_credited = True
            count += 1
            size += held.entry.size
        if transaction:
            _settle_later(engine, covered, held, transaction, outcome)
        else:
            _settle_now(engine, covered, held, outcome)
    if not wish.credit.is_raised_by_ack:
        count, size = 0, 0
    count, size = count + more[0], size + more[1]
    if count or size:
        named.consumer.window.grant(count, size)


def _settle_now(engine: StompEngine, tag: int, held: Held, outcome: Outcome) -> None:
    source = held.consumer.queue
    if source is not None and not held.consumer.is_only_credited:
        source.settle(held.entry, outcome, engine.now)
    engine.holding.release(tag)


def _settle_later(
    engine: StompEngine, tag: int, held: Held, transaction: str, outcome: Outcome
) -> None:
    # Begun even by an ACK that only means credit: the client will end it.
    begun = engine.broker.transactions.running_or_new(engine.the_session, transaction)
    engine.holding.enlist(tag, transaction)
    if not held.consumer.is_only_credited:
        begun.settle(held.entry, outcome)


def _find(engine: StompEngine, headers: Headers) -> int:
    """Return the number of the message a frame names; 0 if it can only mean credit."""
    if engine.version is Version.V1_2:
        text = headers["id"]
        tag = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
        held = engine.holding.messages.get(tag)
        if held is None or held.transaction:
            raise RefusedError(f"id {text[:64]} names no message to acknowledge", "not-found")
        return tag
    message_id = headers["message-id"]
    subscription = headers.get("subscription")
    tag = engine.holding.number_of(message_id, subscription)
    if tag or _is_auto(engine, subscription):
        return tag
    raise RefusedError(f"message-id {message_id[:64]} names no message to acknowledge", "not-found")


def _is_auto(engine: StompEngine, subscription: str | None) -> bool:
    known = engine.the_session.subscriptions
    named = list(known.values()) if subscription is None else [known.get(subscription)]
    return any(one is not None and one.window.is_automatic for one in named)


def _only_credit(engine: StompEngine, headers: Headers) -> None:
    given = headers.get("credit")
    subscription = engine.the_session.subscriptions.get(headers.get("subscription", ""))
    if given is not None and subscription is not None:
        subscription.window.grant(*read_credit(given))
