"""Links: how a link begins, when it replaces another link, and how it ends.

The answer to an attach repeats source and target exactly as they came, address strings included:
clients compare them. Only the name of a dynamic node and the list of honoured filters come from the
broker. A refused link is opened with no terminus, and closed with the reason (AMQP 1.0 section
2.6.3).

A subscription belongs to a container-id and a link name. The same pair on another connection of the
same user takes the link over. That happens after a lost connection that the broker has not noticed
yet. Within a connection a link is known by its name and direction: another session may take it
over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cproton_ffi import lib
from proton import Link, Terminus, symbol

from covey.core.errors import BrokerError, RefusedError
from covey.core.security.users import Verb, authorise
from covey.protocols.amqp.conditions import Told, condition_of
from covey.protocols.amqp.links.management import MANAGEMENT_ADDRESS, RequestLink
from covey.protocols.amqp.links.publish import ProducerLink
from covey.protocols.amqp.links.receiver_link import OutgoingLink
from covey.protocols.amqp.links.sender_link import IncomingLink
from covey.protocols.amqp.links.subscribe import subscribe
from covey.protocols.amqp.links.terminus import (
    allows_rejection,
    echo_filters,
    read_source,
    read_target,
)
from covey.protocols.amqp.links.transactions import ControlLink
from covey.protocols.amqp.proton_wire import Pointer, link_at
from covey.protocols.amqp.session import AnyLink, Channel

if TYPE_CHECKING:
    from covey.protocols.amqp.engine import AmqpEngine
    from covey.protocols.amqp.framing import LifecycleFrame


class Links:
    """The links of one connection, by proton's pointer."""

    def __init__(self, engine: AmqpEngine) -> None:
        self.engine = engine
        self.open: dict[Pointer, AnyLink] = {}
        self._named: dict[tuple[str, bool], AnyLink] = {}  # by name; True: the peer sends on it
        # The links that end at the end of this turn, and why.
        self.to_close: list[tuple[AnyLink, BrokerError, Mapping[str, Told] | None]] = []
        self.leaving: set[Pointer] = set()  # ended by the broker, not yet by the peer

    def attach(self, link: Link, channel: Channel, attach: LifecycleFrame) -> None:
        """Answer an attach: open the link, or refuse it."""
        channel.links[attach.handle] = None  # what is sent to a refused link is ignored
        try:
            if link.name is None:
                raise RefusedError("an attach without the link's name", "invalid")
            if len(self.open) >= self.engine.settings.links_max:
                limit = self.engine.settings.links_max
                raise RefusedError(f"the connection has {limit} links already", "limit")
            self._take_over(link)
            if link.is_receiver:
                made: AnyLink = self._attach_incoming(link, attach)
            else:
                made = self._attach_outgoing(link)
        except BrokerError as error:
            self._refuse(link, error)
            return
        self.open[link._impl] = made
        self._named[link.name, link.is_receiver] = made
        channel.join(made, attach)
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.open()
        made.start()

    def detach(self, link: Link, *, is_closed: bool) -> None:
        """Called when the peer ends a link: end the broker's side, too."""
        ended = self.open.get(link._impl)
        self._end(link._impl, is_closed=is_closed, counted=False)
        if isinstance(ended, OutgoingLink) and ended.complaint is not None:
            link.condition = condition_of(ended.complaint)
        self.leaving.discard(link._impl)
        if is_closed:
            link.close()
        else:
            link.detach()
        link.free()

    def close(
        self, link: AnyLink, error: BrokerError, info: Mapping[str, Told] | None = None
    ) -> None:
        """End a link from the broker's side, and tell the peer why."""
        self.engine.report("link_closed", link=link.name, cause=error.text)
        if self._end(link.pointer, is_closed=False, counted=False):
            wrapped = link_at(link.pointer)
            wrapped.condition = condition_of(error, info)
            wrapped.close()
            self._let_go(link.pointer)
            self.engine.has_news()

    def close_later(
        self, link: AnyLink, error: BrokerError, info: Mapping[str, Told] | None = None
    ) -> None:
        """End a link at the end of this turn; the core calls this in the middle of its work."""
        self.to_close.append((link, error, info))
        self.engine.has_news()

    def close_due(self) -> None:
        """End the links for which `close_later` was called in this turn."""
        closing, self.to_close = self.to_close, []
        for link, error, info in closing:
            self.close(link, error, info)

    def go_on(self) -> None:
        """Called when deliveries go on after the outbox was full."""
        for link in self.open.values():
            if isinstance(link, OutgoingLink):
                link.drain.go_on()

    def end_session(self, session: Pointer) -> None:
        """End every link of a session that ends."""
        for pointer in [each for each in self.open if lib.pn_link_session(each) == session]:
            self._end(pointer, is_closed=False, counted=False)
        gone = [each for each in self.leaving if lib.pn_link_session(each) == session]
        self.leaving.difference_update(gone)

    def end_all(self, *, counted: bool) -> None:
        """End every link: the connection ends."""
        for pointer in list(self.open):
            self._end(pointer, is_closed=False, counted=counted)

    def _end(self, pointer: Pointer, *, is_closed: bool, counted: bool) -> bool:
        link = self.open.pop(pointer, None)
        if link is None:
            return False
        del self._named[link.name, isinstance(link, IncomingLink)]
        link.channel.leave(link.handle)
        link.end(is_closed=is_closed, counted=counted)
        return True

    def _take_over(self, link: Link) -> None:
        """End the connection's earlier link of the same name and direction (section 2.6.1)."""
        known = self._named.get((link.name, link.is_receiver))
        if known is not None:
            self.close(known, RefusedError(f"link {link.name} was taken over", "stolen"))

    def _let_go(self, pointer: Pointer) -> None:
        """Remember that the peer must still end a link.

        Until then the link costs memory. So too many of them end the connection.
        """
        self.leaving.add(pointer)
        limit = self.engine.settings.links_max
        if len(self.leaving) > limit:
            cause = f"{limit} links were ended, and no detach has come for one"
            self.engine.fail(RefusedError(cause, "limit"))

    def _attach_incoming(self, link: Link, attach: LifecycleFrame) -> IncomingLink:
        engine = self.engine
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if attach.has_source:
            link.source.type = Terminus.SOURCE  # even if it is empty
        link.max_message_size = engine.settings.max_message_size
        made: IncomingLink
        if link.remote_target.type == Terminus.COORDINATOR:
            link.target.type = Terminus.COORDINATOR
            made = ControlLink(engine, link._impl, link.name)
        elif link.remote_target.address == MANAGEMENT_ADDRESS:
            made = RequestLink(engine, link._impl, link.name)
        else:
            made = self._attach_producer(link)
        made.settles_second = link.remote_rcv_settle_mode == Link.RCV_SECOND
        made.can_reject = allows_rejection(link.remote_source)
        return made

    def _attach_producer(self, link: Link) -> ProducerLink:
        engine = self.engine
        nodes = engine.nodes
        requested = read_target(link)
        if requested.is_dynamic:
            node = nodes.dynamic(is_topic=requested.is_topic)
            link.target.address = nodes.address_of(node)
            producer = ProducerLink(engine, link._impl, link.name, (node,))
            producer.on_end = lambda: nodes.forget_dynamic(node)
            return producer
        if requested.address is None:
            if link.remote_target.type == Terminus.UNSPECIFIED:
                raise RefusedError(f"link {link.name} has no target", "invalid")
            engine.framing.keep_tags()  # an error on the anonymous relay must name its delivery
            return ProducerLink(engine, link._impl, link.name, None)
        place = nodes.place(requested.address, is_topic=requested.is_topic, is_source=False)
        for destination in place.destinations:
            authorise(nodes.session.identity, Verb.SEND, str(destination))
        nodes.provide(place, to_sender=True)
        producer = ProducerLink(engine, link._impl, link.name, place.destinations)
        producer.on_end = nodes.at_end(place, to_sender=True)
        return producer

    def _attach_outgoing(self, link: Link) -> OutgoingLink:
        engine = self.engine
        requested = read_source(link)
        made = OutgoingLink(engine, link._impl, link.name)
        made.take_over()
        made.is_presettled = link.remote_snd_settle_mode == Link.SND_SETTLED
        address = subscribe(engine, made, requested)
        link.source.copy(link.remote_source)
        link.target.copy(link.remote_target)
        if address is not None:
            link.source.type = Terminus.SOURCE
            link.source.address = address
        if address is not None and not requested.is_dynamic:
            link.source.capabilities.put_object(symbol("topic"))  # the peer gave only its name
        echo_filters(link.source, requested)
        return made

    def _refuse(self, link: Link, error: BrokerError) -> None:
        self.engine.report("link_refused", link=link.name, cause=error.text)
        if link.is_receiver:
            link.source.copy(link.remote_source)
            link.target.type = Terminus.UNSPECIFIED
        else:
            link.target.copy(link.remote_target)
            link.source.type = Terminus.UNSPECIFIED
        link.open()
        link.condition = condition_of(error)
        link.close()
        self._let_go(link._impl)
