"""Calls: the functions of proton's C library that every message goes through, under their names.

They are bound here once and for all: compiled code reads a `Final` of another compiled module from
a fixed place, and any other imported name out of a dictionary, at a third of the call's own price.
What is called once a link or once a connection is called through `lib` where it is needed.

Each gives the interpreter's lock away and takes it back, about 0.1 us in all. So what counts is
how many there are for a message: 12 for one that comes and is accepted, 11 for one that goes.
"""

from __future__ import annotations

from typing import Any, Final

from cproton_ffi import lib

# Events.
pn_collector_peek: Final[Any] = lib.pn_collector_peek
pn_collector_pop: Final[Any] = lib.pn_collector_pop
pn_event_delivery: Final[Any] = lib.pn_event_delivery
pn_event_link: Final[Any] = lib.pn_event_link
pn_event_type: Final[Any] = lib.pn_event_type
PN_DELIVERY: Final[int] = lib.PN_DELIVERY
PN_LINK_FLOW: Final[int] = lib.PN_LINK_FLOW

# Deliveries.
pn_delivery: Final[Any] = lib.pn_delivery
pn_delivery_partial: Final[Any] = lib.pn_delivery_partial
pn_delivery_remote_state: Final[Any] = lib.pn_delivery_remote_state
pn_delivery_settle: Final[Any] = lib.pn_delivery_settle
pn_delivery_settled: Final[Any] = lib.pn_delivery_settled
pn_delivery_update: Final[Any] = lib.pn_delivery_update

# Links.
pn_link_advance: Final[Any] = lib.pn_link_advance
pn_link_current: Final[Any] = lib.pn_link_current
pn_link_recv: Final[Any] = lib.pn_link_recv
pn_link_send: Final[Any] = lib.pn_link_send
