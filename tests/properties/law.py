"""The law: who may have which message now, from the definitions.

The referee's tables (messages, groups, clients, and `ownership.py` for the strategy) and the
questions one may ask of them. There is no list, heap or cursor in here: every answer is worked out
from the tables each time. `referee.py` writes the tables and judges the queue by the answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from covey.config.queues import GroupSettings, QueueSettings
from covey.groups import GroupStrategy, make
from tests.properties.claiming import Claiming, may_have
from tests.properties.clients import Client, Slip
from tests.properties.ownership import BUCKETS, CACHE_SIZE, RING_POINTS, STRICT, Ownership

PENDING, STORING, HELD, AWAY = "pending", "storing", "held", "away"


@dataclass(slots=True, eq=False)
class Group:
    """A group that has messages on the queue, or was parked by command."""

    slips: dict[int, Slip] = field(default_factory=dict)  # in the order of their numbers
    owner: int = 0
    is_fresh: bool = False
    is_parked: bool = False
    is_kept: bool = False  # parked by command: it stays when it is empty
    failures: int = 0
    hold_until: float = 0.0
    taken: Taken | None = None  # a command takes it out of the queue


@dataclass(slots=True, eq=False)
class Taken:
    """A command that takes a group's messages."""

    kind: int
    last: int
    waits: bool
    numbers: list[int] | None = None  # those to go, once it is known


@dataclass(slots=True)
class Policy:
    """The options of the judged queue."""

    unsettled_max: int = 0
    park_after_failures: int = 0
    nak_limit: int = 0
    delay_s: float = 0.0
    sticky_return_s: float = 0.0
    consumers_before: int = 0
    time_before_s: float = 0.0
    deadline_s: float = 0.0
    spill_s: float = 0.0
    rebalance_s: float = 0.0
    rebalance_rate: int = 100
    dead_rest: bool = False
    dead_then_park: bool = False
    is_strict: bool = False
    rate: float = 0.0


def settings_of(policy: Policy) -> QueueSettings:
    """Give the same options as the queue knows them."""
    groups = GroupSettings(
        unsettled_max=policy.unsettled_max,
        park_after_failures=policy.park_after_failures,
        sticky_return_s=policy.sticky_return_s,
        consumers_before_dispatch=policy.consumers_before,
        time_before_dispatch_ms=int(policy.time_before_s * 1000),
        drain_limit_s=1.0,
        spill_after_ms=int(policy.spill_s * 1000),
        rebalance_after_s=policy.rebalance_s,
        rebalance_rate=policy.rebalance_rate,
        group_rate=policy.rate,
        selector_order="strict" if policy.is_strict else "hand-on",
    )
    return QueueSettings(
        nak_limit=policy.nak_limit,
        redelivery_delay_ms=int(policy.delay_s * 1000),
        delivery_deadline_s=policy.deadline_s,
        dlq="dead",
        dead_letter_rest=policy.dead_rest,
        dead_letter_then="park" if policy.dead_then_park else "go-on",
        groups=groups,
    )


def strategy_of(name: str) -> GroupStrategy:
    """Make a strategy small enough to be always at its limit."""
    return make(
        name.removesuffix(STRICT),
        bucket_count=BUCKETS,
        cache_size=CACHE_SIZE,
        ring_points=RING_POINTS,
        lru_strict_activemq=name.endswith(STRICT),
    )


class Law:
    """The tables of one queue, and what follows from them."""

    def __init__(self, policy: Policy, memory: Ownership) -> None:
        self.policy = policy
        self.memory = memory
        self.now = 0.0
        self.wall_ms = 0
        self.is_scan_limited = False
        self.is_at_rest = False
        self.slips: dict[int, Slip] = {}
        self.plain: dict[int, Slip] = {}
        self.groups: dict[str, Group] = {}
        self.clients: dict[int, Client] = {}
        self.is_started = not (policy.consumers_before or policy.time_before_s)
        self.claiming = Claiming()
        self.paced: dict[str, float] = {}  # when the next of a group may go, by its rate
        self.introduced: dict[str, int] = {}  # whom a rule gave the last message of a group

    def pace(self, name: str) -> None:
        """One of a group goes: the next one waits, but for a tenth of a second's worth."""
        if self.policy.rate:
            apart = 1.0 / self.policy.rate
            earliest = self.now - max(0.0, 0.1 - apart)
            self.paced[name] = max(self.paced.get(name, 0.0), earliest) + apart

    def named(self, name: str) -> int:
        """Whose the group is: whoever claims it, else as the strategy says."""
        claimant = self.claiming.claims.get(name)
        return self.memory.owner(name) if claimant is None else claimant.number

    def is_fresh_for(self, name: str) -> bool:
        """Whether an owner that nobody took the group for gets its first message of it."""
        is_claimed = name in self.claiming.claims
        is_new = self.memory.is_rule or self.memory.unit_of(name) in self.memory.handed
        return is_claimed or is_new or name in self.introduced

    def present(self) -> list[Client]:
        return [client for client in self.clients.values() if not client.absent_until]

    def has_selectors(self) -> bool:
        return any(
            client.colour or client.from_seq or client.is_exclusive or client.refused
            for client in self.present()
        )

    def admits(self, client: Client, slip: Slip) -> bool:
        """An exclusive client that matches has the message for itself."""
        if client.group_asked:
            if not may_have(client, slip):
                return False
            if client.claimed:
                return True
        elif not _matches(client, slip):
            return False
        for rival in self.present():
            if rival is client or not rival.is_exclusive or _takes_no_new(rival):
                continue
            is_before = (-rival.priority, rival.number) < (-client.priority, client.number)
            if client.is_exclusive and not _takes_no_new(client) and not is_before:
                continue
            if _matches(rival, slip):
                return False
        return True

    def is_expired(self, slip: Slip) -> bool:
        return 0 < slip.expires_ms <= self.wall_ms

    def head(self, group: Group, *, lingering: bool = False) -> Slip | None:
        """The first message that is not stepped over; `lingering`: expired but not gone yet."""
        selects = self.has_selectors()
        for slip in group.slips.values():
            if slip.state == STORING:
                return slip
            if slip.state != PENDING or (self.is_expired(slip) and not lingering):
                continue
            if not selects or self.policy.is_strict or slip.group in self.claiming.claims:
                return slip
            if any(self.admits(client, slip) for client in self.present()):
                return slip
        return None

    def holder(self, group: Group) -> int:
        return next((slip.holder for slip in group.slips.values() if slip.state == HELD), 0)

    def is_stopped(self, group: Group) -> bool:
        held = sum(slip.state == HELD for slip in group.slips.values())
        cap = self.policy.unsettled_max
        is_capped = cap > 0 and held >= cap
        is_held = group.is_parked or group.taken is not None
        if any(self.paced.get(slip.group, 0.0) > self.now for slip in group.slips.values()):
            return True
        return is_held or group.hold_until > self.now or is_capped

    def takers(self, slip: Slip) -> list[Client]:
        """Everybody who may have the message now, willing or not."""
        if slip.state != PENDING or self.is_expired(slip) or slip.is_out:
            return []
        admitting = [client for client in self.present() if self.admits(client, slip)]
        if not slip.group:
            return [client for client in admitting if not _takes_no_new(client)]
        group = self.groups[slip.group]
        owner = self.clients.get(group.owner)
        if self.is_stopped(group) or (owner is not None and owner.absent_until):
            return []
        if self.head(group) is not slip:
            return []
        holder = self.holder(group)
        if owner is None or owner not in admitting:
            lending = [client.number for client in admitting if not client.is_overdue]
            named = self.memory.owner(slip.group, lending)
            if not named:
                taking = [client for client in admitting if not _takes_no_new(client)]
                if not holder:
                    return taking
                # Whoever was lent what it holds goes on; a group without an owner drains.
                return [client for client in taking if owner and client.number == holder]
            owner = self.clients[named]
        return [owner] if holder in (0, owner.number) else []

    def candidates(self) -> Iterator[Slip]:
        """Every message somebody willing may have now."""
        if not self.is_started:
            return
        for group in self.groups.values():
            if not self.is_at_rest and any(slip.is_out for slip in group.slips.values()):
                continue  # whether anybody wants one is known once its body is read
            # One that ran out may stand in the way until its second has passed.
            slip = self.head(group, lingering=True)
            if slip is not None and any(client.is_willing() for client in self.takers(slip)):
                yield slip
        for slip in self.plain.values():
            if slip.state == STORING or slip.is_out:
                return  # the order waits for its commit, or for its body
            if any(client.is_willing() for client in self.takers(slip)):
                yield slip

    def is_scanning(self) -> bool:
        """Whether a view may not have come yet to plain messages it admits."""
        return self.is_scan_limited and self.has_selectors()

    def close(self, name: str, group: Group) -> None:
        self.memory.closed(name, self.groups)
        named = self.named(name)
        if named != group.owner:
            group.owner = named
            group.is_fresh = self.is_fresh_for(name)

    def ask_all(self) -> None:
        """Let the strategy say again whose the owned groups are."""
        for name, group in self.groups.items():
            owner = self.clients.get(group.owner)
            if owner is None or (owner.is_retiring and not owner.is_overdue):
                continue
            named = self.named(name)
            if named != group.owner:
                group.owner = named
                group.is_fresh = self.is_fresh_for(name)

    def bind_heads(self) -> None:
        """A group nobody owns gets its owner with its first message that can go."""
        for name, group in self.groups.items():
            if not group.owner and self.head(group, lingering=True) is not None:
                group.owner = self.named(name)
                group.is_fresh = self.is_fresh_for(name)


def _takes_no_new(client: Client) -> bool:
    return client.is_retiring or client.is_overdue


def _matches(client: Client, slip: Slip) -> bool:
    if slip.seq in client.refused:
        return False
    return slip.seq >= client.from_seq and client.colour in ("", slip.colour)
