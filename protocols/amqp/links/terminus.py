"""Terminus: reads from proton's data what the source or the target of an attach asks for.

Capabilities, filters and modes become one plain record. `attach` and `subscribe` act on it. Filters
that are understood are echoed. All others are left out of the answer: that tells the peer that they
have no effect (AMQP 1.0 section 3.5.3).

Proton's binary values are views of C memory that is freed later: none is kept here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from proton import Array, Data, Described, Link, Terminus, symbol

from covey.core.errors import RefusedError

# Each filter has a name and a number in Apache's registry of filters.
SELECTOR_FILTERS: Final = ("apache.org:selector-filter:string", 0x0000468C00000004)
GROUP_FILTER: Final = "covey:group"  # the only group that a consumer wants, or the next free one
NO_LOCAL_FILTERS: Final = ("apache.org:no-local-filter:list", 0x0000468C00000003)

LIFETIME_POLICIES: Final = frozenset(
    (
        *range(0x2B, 0x2F),
        "amqp:delete-on-close:list",
        "amqp:delete-on-no-links:list",
        "amqp:delete-on-no-messages:list",
        "amqp:delete-on-no-links-or-messages:list",
    )
)
REJECTED: Final = "amqp:rejected:list"
PRIORITY_PROPERTY: Final = "priority"
DEADLINE_PROPERTY: Final = "covey-deadline"  # seconds
REVOKED_PROPERTY: Final = "covey-group-revoked"  # tell of groups that are no longer the link's
DEADLINE_LIMIT: Final = 1e9  # this comparison also refuses NaN and infinity
PRIORITY_LIMIT: Final = 1000  # above and below 0; a consumer's priority is small in every broker


@dataclass(slots=True)
class RequestedTerminus:
    """What a peer asks for at one end of a link."""

    address: str | None = None
    is_dynamic: bool = False
    capabilities: frozenset[str] = frozenset()
    is_browser: bool = False
    is_durable: bool = False
    selector: str = ""
    is_no_local: bool = False
    priority: int = 0
    deadline_s: float = -1.0  # how long a message may be held; below 0: the queue's setting
    wants_revoked: bool = False
    group: str = ""  # the only group that it wants, or the next free one; "": any
    target: str = ""  # the peer's address for its own end of the link
    filters: dict[str, Described] = field(default_factory=dict)  # the honoured ones

    @property
    def is_topic(self) -> bool:
        """Return True if a name without a prefix means a topic."""
        return not self.capabilities.isdisjoint(("topic", "temporary-topic"))

    @property
    def is_shared(self) -> bool:
        """Return True if several links share one subscription."""
        return "shared" in self.capabilities

    def forgo_no_local(self) -> None:
        """Drop the no-local filter: it cannot be honoured here, so it must not be echoed."""
        self.is_no_local = False
        held = self.filters.items()
        self.filters = {
            name: each for name, each in held if each.descriptor not in NO_LOCAL_FILTERS
        }

    @property
    def is_global(self) -> bool:
        """Return True if links of several containers may share the subscription."""
        return "global" in self.capabilities


def read_target(link: Link) -> RequestedTerminus:
    """Read where a sending peer wants its messages to go; raises RefusedError."""
    terminus = link.remote_target
    _check_node(link.name, _object(terminus.properties))
    return RequestedTerminus(
        address=terminus.address,
        is_dynamic=bool(terminus.dynamic),
        capabilities=_symbols(terminus.capabilities),
    )


def read_source(link: Link) -> RequestedTerminus:
    """Read what a receiving peer wants to get; raises RefusedError."""
    terminus = link.remote_source
    _check_node(link.name, _object(terminus.properties))
    requested = RequestedTerminus(
        address=terminus.address,
        is_dynamic=bool(terminus.dynamic),
        capabilities=_symbols(terminus.capabilities),
        is_browser=terminus.distribution_mode == Terminus.DIST_MODE_COPY,
        is_durable=terminus.durability != Terminus.NONDURABLE,
        priority=_priority(link.remote_properties),
        deadline_s=_deadline(link.name, link.remote_properties),
        wants_revoked=_wants_revoked(link),
        target=link.remote_target.address or "",
    )
    _read_filters(requested, _object(terminus.filter))
    return requested


def allows_rejection(source: Terminus) -> bool:
    """Return True if a sender's messages may be rejected.

    They may not if the sender lists its outcomes and `rejected` is not among them.
    """
    outcomes = _symbols(source.outcomes)
    return not outcomes or REJECTED in outcomes


def echo_filters(terminus: Terminus, requested: RequestedTerminus) -> None:
    """Tell the peer which of its filters are honoured."""
    terminus.filter.clear()
    if requested.filters:
        terminus.filter.put_object(
            {symbol(name): value for name, value in requested.filters.items()}
        )


def _read_filters(requested: RequestedTerminus, filters: object) -> None:
    if not isinstance(filters, dict):
        return
    for name, value in filters.items():
        if name == GROUP_FILTER or getattr(value, "descriptor", "") == GROUP_FILTER:
            requested.group = _group(value)
            requested.filters[str(name)] = Described(symbol(GROUP_FILTER), requested.group)
            continue
        if not isinstance(value, Described):
            continue
        descriptor = value.descriptor
        if descriptor in SELECTOR_FILTERS and isinstance(value.value, str):
            requested.selector = value.value
            requested.filters[str(name)] = value
        elif descriptor in NO_LOCAL_FILTERS:
            requested.is_no_local = True
            requested.filters[str(name)] = Described(descriptor, [])


def _group(value: object) -> str:
    group = value.value if isinstance(value, Described) else value
    if not isinstance(group, str) or not group:
        raise RefusedError(f"filter {GROUP_FILTER} is not the name of a group", "invalid")
    return str(group)


def _check_node(name: str, properties: object) -> None:
    """Refuse properties that make no sense for a dynamic node."""
    if properties is None:
        return
    if not isinstance(properties, dict):
        raise RefusedError(f"link {name}: dynamic-node-properties is not a map", "invalid")
    policy = properties.get("lifetime-policy")
    if policy is not None:
        if not isinstance(policy, Described) or policy.descriptor not in LIFETIME_POLICIES:
            raise RefusedError(f"link {name}: lifetime-policy is none", "invalid")
    modes = properties.get("supported-dist-modes")
    if modes is not None and not _symbols_in(modes):
        raise RefusedError(f"link {name}: supported-dist-modes are no symbols", "invalid")


def _priority(properties: object) -> int:
    value = properties.get(PRIORITY_PROPERTY) if isinstance(properties, dict) else None
    if not isinstance(value, int) or abs(value) > PRIORITY_LIMIT:
        return 0
    return int(value)


def _deadline(name: str, properties: object) -> float:
    value = properties.get(DEADLINE_PROPERTY) if isinstance(properties, dict) else None
    if value is None:
        return -1.0
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < DEADLINE_LIMIT:
        raise RefusedError(f"link {name}: {DEADLINE_PROPERTY} is no number of seconds", "invalid")
    return float(value)


def _wants_revoked(link: Link) -> bool:
    properties = link.remote_properties
    value = properties.get(REVOKED_PROPERTY) if isinstance(properties, dict) else None
    if value is not None and not isinstance(value, bool):
        raise RefusedError(f"link {link.name}: {REVOKED_PROPERTY} is no boolean", "invalid")
    if value and link.remote_snd_settle_mode == Link.SND_UNSETTLED:
        cause = f"{REVOKED_PROPERTY}: notices come settled, snd-settle-mode unsettled forbids it"
        raise RefusedError(f"link {link.name}: {cause}", "invalid")
    return bool(value)


def _symbols(data: Data) -> frozenset[str]:
    """Read an array of symbols, which may be a single one (AMQP 1.0 section 1.4)."""
    return _symbols_in(_object(data))


def _symbols_in(value: object) -> frozenset[str]:
    if isinstance(value, str):
        return frozenset((str(value),))
    elements = value.elements if isinstance(value, Array) else value
    if not isinstance(elements, list | tuple):
        return frozenset()
    return frozenset(str(each) for each in elements if isinstance(each, str))


def _object(data: Data) -> Any:
    data.rewind()
    return data.get_object() if data.next() is not None else None
