# Compiled by mypyc: see setup.py.
"""Producer: publishes what one client sends. SEND is the frame on the hot path.

A SEND whose head has come before already has a plan. For any other SEND, the lines are read and a
plan is made first. Any error in a SEND ends the connection with an ERROR that names its receipt. In
a transaction, a message and its receipt are kept until the COMMIT.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from covey.core.errors import BrokerError
from covey.core.host.temporary import announce
from covey.core.session import Session
from covey.protocols.stomp.frame import Frame
from covey.protocols.stomp.message import StompMessage, stamped
from covey.protocols.stomp.parser import Head, OwnLines
from covey.protocols.stomp.send_plan import Plans, SendPlan

if TYPE_CHECKING:
    from covey.protocols.stomp.engine import StompEngine
    from covey.protocols.stomp.session import Receipts


class Producer:
    """The sending side of a client that has logged in."""

    __slots__ = (
        "_broker",
        "_engine",
        "_id_number",
        "_id_prefix",
        "_is_receipt_a_wish_to_persist",
        "_publishing",
        "_receipts",
        "_session",
        "_stamp",
        "plans",
    )

    def __init__(
        self, engine: StompEngine, session: Session, receipts: Receipts, plans: Plans
    ) -> None:
        """Publish for a session; `plans` work out what its header lines mean."""
        broker = engine.broker
        settings = engine.settings
        self.plans = plans
        self._engine = engine
        self._session = session
        self._broker = broker
        self._publishing = broker.publishing
        self._receipts = receipts
        self._id_prefix = f"{broker.instance}-{session.id}-".encode()
        self._id_number = 0
        self._stamp = settings.add_timestamp_header or ""
        self._is_receipt_a_wish_to_persist = settings.receipt_implies_persistent

    def send_again(self, plan: SendPlan, body: bytes, own: OwnLines) -> None:
        """Publish a message whose head has come before."""
        try:
            message = self._message(plan, body)
            if not plan.is_direct or own.receipt or own.given_id:
                self._publish(plan, message, own)
            elif not self._publishing.try_put(self._session, plan.targets, message):
                self._publishing.publish(self._session, plan.targets, message)
        except BrokerError as error:
            self._engine.fail(error, own.receipt.decode() if own.receipt else plan.receipt)

    def send_new(self, frame: Frame, head: Head | None, own: OwnLines) -> None:
        """Publish a message, and keep its plan in case its head comes again."""
        try:
            plan = self.plans.read(frame.block if head is None else head.block)
            if head is not None:
                head.plan = plan
            if plan.answers_to:
                announce(self._session, plan.answers_to, self._broker.limits.id)
            self._publish(plan, self._message(plan, frame.body), own)
        except BrokerError as error:
            self._engine.fail(error, frame.receipt(self.plans.version))

    def _publish(self, plan: SendPlan, message: StompMessage, own: OwnLines) -> None:
        session = self._session
        if own.given_id:
            message.given_id = own.given_id.decode()
        receipts = self._receipts
        answer = receipts.answer(plan, own.receipt)
        if answer and plan.may_persist and self._is_receipt_a_wish_to_persist:
            message.persistent = True
        if plan.transaction:
            begun = self._broker.transactions.running_or_new(session, plan.transaction)
            begun.send(plan.targets, message)
            if answer:
                begun.answer(answer)
        elif not self._publishing.try_put(session, plan.targets, message):
            done = receipts.sender([answer]) if answer else None
            receipt = own.receipt.decode() if own.receipt else plan.receipt
            told = partial(self._engine.fail_later, receipt=receipt)
            self._publishing.publish(session, plan.targets, message, done, told)
        elif answer:
            receipts.owe(answer)

    def _message(self, plan: SendPlan, body: bytes) -> StompMessage:
        message = StompMessage(plan.block, body)
        message.group = plan.group
        if not plan.is_plain:
            plan.dress(message, self._broker.clock.wall_ms)
        self._id_number += 1
        message.id_prefix = self._id_prefix
        message.id_number = self._id_number
        message.sender = self._session.id
        if self._stamp:
            message.block = stamped(plan.block, self._stamp, self._broker.clock.wall_ms)
        return message
