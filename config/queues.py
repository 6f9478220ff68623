"""Policies of queues and topics: `[[queue]]` with `[queue.groups]`, and `[[topic]]`.

An entry's `id` is a pattern as in STOMP wildcards, and the first entry that matches a name wins.
The core does the matching. Option names follow Apollo's user manual. Group options follow
ActiveMQ's message groups page and the Qpid page. A combination of options that cannot work is
refused here, with the queue and the option in the text.

Names of strategies, and defaults and limits of their options, are those of `covey.groups.registry`.
An option that the chosen strategy does not have is accepted and has no effect: ActiveMQ's own
example gives hash buckets a cache, and a policy may hold options for a strategy that only a queue's
declaration names.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from covey.config.record import NUMBER, Count, Millis, Record, Seconds, Size, Text
from covey.groups.registry import OPTIONS, STRATEGIES, UnknownStrategyError, find, spellings
from covey.groups.strategy import StrategyEntry

FullPolicy = Literal["block", "reject", "drop head", "drop tail"]
SlowConsumerPolicy = Literal["block", "queue"]

# ActiveMQ waits one second when only the number of consumers is given.
DISPATCH_WAIT_MS = 1000


def _strategy_name(value: object) -> object:
    """Return the strategy's own name for any of its names."""
    if not isinstance(value, str):
        return value
    try:
        return find(value)[0].name
    except UnknownStrategyError as error:
        text = "unknown group strategy '{given}'; there are {expected}"
        names = list(spellings())
        context = {"given": value, "expected": ", ".join(STRATEGIES), "names": names}
        raise PydanticCustomError("unknown_strategy", text, context) from error


def _name_strategies(field: dict[str, object]) -> None:
    """Write the names of all strategies into the JSON schema, each with its short other names."""
    field["enum"] = list(STRATEGIES)
    choices = []
    for entry in STRATEGIES.values():
        others = ", ".join([*entry.aliases[:1], *entry.profiles])
        choices.append(f"{entry.name} ({others})" if others else entry.name)
    field["description"] = f"{field['description']} {', '.join(choices)}."


def _within(option: str) -> Any:
    """Return the limits of a strategy's option, as the registry has them."""
    return Field(ge=OPTIONS[option].least, le=OPTIONS[option].most)


def _full_policy(value: object) -> object:
    """`drop-head` and `drop_head` are `drop head`; Qpid's `ring` is the same policy."""
    if not isinstance(value, str):
        return value
    words = value.replace("_", " ").replace("-", " ")
    return "drop head" if words == "ring" else words


class GroupSettings(Record):
    """How a queue keeps its message groups: who owns a group, for how long, under which name."""

    strategy: Annotated[
        str, Field(json_schema_extra=_name_strategies), BeforeValidator(_strategy_name)
    ] = "consistent-hash"
    """Who owns a group:"""
    header: Text | None = None
    """The one header that holds the group id; unset: group-id, message_group, JMSXGroupID."""
    default_group: str | None = None
    """shared only: the group of messages without one; unset: the broker's, "": they are free."""
    bucket_count: Annotated[int, _within("bucket_count"), NUMBER] = OPTIONS["bucket_count"].default
    """hash-buckets: how many buckets share out the groups."""
    cache_size: Annotated[int, _within("cache_size"), NUMBER] = OPTIONS["cache_size"].default
    """lru: how many idle groups are remembered."""
    ring_points: Annotated[int, _within("ring_points"), NUMBER] = OPTIONS["ring_points"].default
    """consistent-hash: points on the ring per consumer; more is more even and slower to join."""
    lru_strict_activemq: bool = bool(OPTIONS["lru_strict_activemq"].default)
    """lru: forget even a group that has unsettled messages, as ActiveMQ does; its order holds."""
    forget_idle_s: Seconds = 0.0
    """simple: forget the owner of a group that was empty this long; 0 = never."""
    consumers_before_dispatch: Count = 0
    """Wait with the first dispatch until so many consumers are there; 0 = do not wait."""
    time_before_dispatch_ms: Millis = 0
    """Longest wait for those consumers; unset beside consumers_before_dispatch: 1000."""
    unsettled_max: Count = 0
    """Messages of one group that may be out at once; 0 = as many as the owner has credit for."""
    park_after_failures: Count = 0
    """Park a group for an operator after so many failures in a row; 0 = never."""
    drain_limit_s: Seconds = 0.0
    """Longest time a group waits for its old owner to settle before it is shown as stuck; 0 = no
    limit."""
    sticky_return_s: Seconds = 0.0
    """A client that comes back within this time gets its groups back; 0 = never."""
    rebalance_after_s: Seconds = 0.0
    """Rebalance by itself when a consumer has joined and stayed so long; 0 = never."""
    rebalance_rate: Annotated[int, Field(ge=1, le=1_000_000), NUMBER] = 100
    """Groups that such a rebalance moves in a second."""
    spill_after_ms: Millis = 0
    """A group whose owner has had no credit for so long goes to a willing consumer; 0 = never."""
    group_rate: Annotated[float, Field(ge=0, le=1_000_000), NUMBER] = 0.0
    """Messages of one group that are delivered in a second, at most; 0 = no limit."""
    count_idle_groups: bool = False
    """New groups go by every group a consumer was ever given, as in ActiveMQ, not by those that
    have messages."""
    selector_order: Literal["hand-on", "strict"] = "hand-on"
    """A group's next message that nobody's selector admits: go on without it, or wait."""
    first_for_consumer: bool = True
    """Flag the first message of a group to a consumer (JMSXGroupFirstForConsumer)."""

    @classmethod
    def implied(cls, given: dict[str, object]) -> dict[str, object]:
        """Return what the name of a strategy brings, and ActiveMQ's wait for consumers."""
        implied: dict[str, object] = {}
        with suppress(UnknownStrategyError):  # the field itself refuses an unknown name
            implied |= find(str(given.get("strategy", "")))[1]
        if given.get("consumers_before_dispatch"):
            implied["time_before_dispatch_ms"] = DISPATCH_WAIT_MS
        return implied

    def strategy_options(self) -> dict[str, int]:
        """Return the values of the options that its strategy has."""
        return {option.name: getattr(self, option.name) for option in self._entry().options}

    @property
    def needs_header(self) -> bool:
        """True if its strategy works only with a header that is named."""
        return self._entry().needs_header

    def _entry(self) -> StrategyEntry:
        return find(self.strategy)[0]


class QueueSettings(Record):
    """The policy of the queues whose name matches `id`."""

    id: Text = "**"
    """A queue name or a pattern (`*`, `**`, `{regex}`); the first matching entry wins. After
    `dsub:` it names durable subscriptions, which no other entry means."""
    quota: Size = 0
    """Bytes of messages a queue may hold; 0 = no limit."""
    quota_messages: Count = 0
    """Messages a queue may hold; 0 = no limit."""
    full_policy: Annotated[FullPolicy, BeforeValidator(_full_policy)] = "block"
    """At the quota: block the producer, reject, drop head (ring) or drop tail."""
    dlq: Text | None = None
    """Queue for messages that failed; `*` in it is replaced by this queue's name."""
    dlq_expired: bool = False
    """Expired messages go to the dlq too."""
    dead_letter_rest: bool = False
    """When a message of a group dies, the rest of the group goes to the dlq after it, in order."""
    dead_letter_then: Literal["go-on", "park"] = "go-on"
    """When a message of a group dies: the group goes on, or is parked as by command."""
    nak_limit: Count = 0
    """Failed deliveries after which a message is dead; 0 = never."""
    redelivery_delay_ms: Millis = 0
    """Wait before a failed message is offered again."""
    redelivery_backoff: Annotated[float, Field(ge=1, le=100, allow_inf_nan=False), NUMBER] = 1.0
    """The wait is multiplied by this after each further failure."""
    redelivery_delay_max_ms: Millis = 3_600_000
    """The wait never grows beyond this (one hour)."""
    delivery_deadline_s: Seconds = 0.0
    """Longest time a consumer may hold a message without settling anything; 0 = no limit."""
    deadline_action: Literal["release", "disconnect"] = "release"
    """What then: the message goes back and counts as failed, or its connection ends, too."""
    delivery_deadline_max_s: Seconds = 43_200.0
    """Longest deadline a consumer may ask for itself (twelve hours); 0 = no limit."""
    mirrored: bool = False
    """What is sent to the queue also reaches the topic of its name, and the other way round."""
    round_robin: bool = True
    """Spread messages in turn; false fills the first consumer's credit before the next one's."""
    auto_delete_after_s: Seconds = 30.0
    """An empty, unused queue that was not declared vanishes after this; 0 = never."""
    durable: bool = True
    """Persistent messages are stored; false keeps all of this queue's messages in memory."""
    priorities: Annotated[int, Field(ge=0, le=10), NUMBER] = 0
    """Priority levels served highest first; 0 = arrival order. Not together with groups."""
    lvq_key: Text | None = None
    """Header whose newest value replaces an older message (last-value queue); not with groups."""
    duplicate_window: Annotated[int, Field(ge=0, le=10_000_000), NUMBER] = 0
    """How many message ids are remembered to drop duplicates; 0 = none."""
    duplicate_window_s: Seconds = 0.0
    """How long message ids are remembered, alone or beside the number; 0 = for any time."""
    slow_consumer_policy: SlowConsumerPolicy = "block"
    """For the topic of a mirrored queue: see [[topic]]; Apollo's manuals place it loosely."""
    groups: GroupSettings = GroupSettings()
    """The message groups of these queues."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        groups = self.groups
        if groups.needs_header and groups.header is None:
            name = groups.strategy
            raise ValueError(f"queue {self.id}: groups.strategy {name} needs groups.header")
        if groups.header is None:
            return self
        # Both reorder messages or remove them from the middle: a group's order would be lost.
        refused = ["priorities"] if self.priorities else []
        refused += ["lvq_key"] if self.lvq_key else []
        if refused:
            options = " and ".join(refused)
            raise ValueError(f"queue {self.id}: groups.header cannot be used with {options}")
        return self


class TopicSettings(Record):
    """The policy of the topics whose name matches `id`."""

    id: Text = "**"
    """A topic name or a pattern; the first matching entry wins."""
    slow_consumer_policy: SlowConsumerPolicy = "block"
    """A subscriber that does not keep up: block the producer, or queue messages for it."""
    mirrored: bool = False
    """What is sent to the topic also enters the queue of its name once that queue exists."""
