# Compiled by mypyc: see setup.py.
"""GroupStrategy: who owns a message group. StrategyEntry: what the registry knows of a strategy.

A strategy answers one question, `owner(group)`, and is told everything that may change the
answer. It decides on strings and integers alone: groups are text, consumers are positive numbers
that are never used twice, 0 means "free". It sees no message, no credit and no clock.

How a queue uses a strategy:

- While a group has messages, the owner noted on its lane is the one that counts. The queue asks
  the strategy only if the lane has no owner, or after something has changed. So a lane with an
  owner costs no call per message.
- A free lane goes to the consumer that the queue picks (highest priority, then least `load`).
  `took` records the choice.
- A strategy changes an owner at once. The queue's gate keeps the lane still until the old owner's
  unsettled messages are settled.

Every call may be repeated: a second `left`, `closed` or `vanished` changes nothing.
Life of a group: `opened` (first message there), `took`, `drained` (nothing unsettled any more),
`vanished` (no message left). An owner may outlive `vanished`; each strategy says for how long.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

FREE: Final = 0
"""The owner of a group that nobody owns."""

NONE: Final[frozenset[int]] = frozenset()
"""No consumer is to be skipped."""

NO_GROUPS: Final[tuple[str, ...]] = ()
"""No other group is touched."""


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupStrategy(ABC):
    """One queue's rule for owning groups.

    Methods that are not abstract are optional. Their bodies here suit a strategy that keeps
    nothing which depends on the call.
    """

    __slots__ = ()

    name: ClassVar[str]
    acts_on_close: ClassVar[bool] = True
    """Whether a close message (JMSXGroupSeq below zero) ends the ownership."""
    uses_default_group: ClassVar[bool] = False
    """Whether messages without a group id form one group of their own."""
    binds_by_rule: ClassVar[bool] = False
    """Whether `owner` names an owner without `took`: each new answer is a new ownership."""
    wants_presence: ClassVar[bool] = True
    """Whether `opened` and `vanished` must be called."""
    wants_delivered: ClassVar[bool] = False
    """Whether `delivered` must be called for each message of a group."""
    wants_drained: ClassVar[bool] = True
    """Whether `drained` must be called, whenever nothing of a group is unsettled any more."""
    is_sticky: ClassVar[bool] = False
    """Whether owners are remembered, so that a rebalance can give groups to others."""
    moves_in_units: ClassVar[bool] = False
    """Whether several groups may have to move together (`unit_of`)."""
    is_bounded: ClassVar[bool] = False
    """Whether it may have to forget groups for lack of room (`evictions`, `over_size`)."""

    @abstractmethod
    def owner(self, group: str, skip: frozenset[int] = NONE) -> int:
        """Return the consumer that owns the group, never one of `skip`; 0 if it is free."""

    @abstractmethod
    def took(self, group: str, consumer: int) -> Sequence[str]:
        """Record that a free group went to the consumer; return other groups to ask about again."""

    def unit_of(self, group: str) -> str:
        """Return the unit of a group: the name for all groups that must share its owner."""
        return group

    def remembered(self) -> Iterable[tuple[str, int]]:
        """Walk the units that have an owner, with the owner, even those without messages."""
        return ()

    def hand(self, unit: str, consumer: int) -> None:  # noqa: B027 - optional, see the class
        """Give a unit to another consumer, which has had nothing of it yet."""

    def is_handed(self, group: str) -> bool:
        """Return True if the owner was given the group by `hand`, and has had nothing of it yet."""
        return False

    def introduced(self, group: str) -> None:  # noqa: B027 - optional, see the class
        """Note that the owner gets a message of a group that it was given by `hand`."""

    def spill(self, group: str, consumer: int) -> None:
        """Give another consumer a group that has messages, none of them unsettled."""
        self.hand(self.unit_of(group), consumer)

    @abstractmethod
    def joined(self, consumer: int, weight: int) -> bool:
        """Called when a consumer has joined; return True if all lanes must be asked again."""

    def rejoined(self, consumer: int, weight: int) -> bool:
        """Take back a consumer that has left, under its old number; it owns nothing now."""
        return self.joined(consumer, weight)

    @abstractmethod
    def left(self, consumer: int) -> None:
        """Forget a consumer that is gone, or that shall get no more groups."""

    @abstractmethod
    def renamed(self, old: int, new: int) -> None:
        """Put `new` in the place of `old`: `new` owns what `old` owned, and `old` has left.

        This is for a client that comes back soon enough to keep its groups. `new` may have joined
        before or not. Nothing happens if `old` is not there any more.
        """

    @abstractmethod
    def closed(self, group: str) -> None:
        """Forget the owner of one group: its close message went out, or somebody reset it."""

    @abstractmethod
    def reset(self) -> None:
        """Forget all owners; the consumers stay known."""

    @abstractmethod
    def load(self, consumer: int) -> int:
        """Return how much the consumer owns; free groups go to who owns least."""

    @abstractmethod
    def tracked(self) -> int:
        """Return how many entries the strategy keeps: for operators, and as a measure of memory."""

    def opened(self, group: str) -> None:  # noqa: B027 - optional, see the class
        """Note that the group has its first message on the queue."""

    def vanished(self, group: str) -> None:  # noqa: B027 - optional, see the class
        """Note that the group has no message on the queue any more."""

    def drained(self, group: str) -> bool:
        """Note that nothing of the group is unsettled; return True to take it from its owner."""
        return False

    def delivered(self, group: str) -> None:  # noqa: B027 - optional, see the class
        """Note that a message of the group was handed to its owner (if `wants_delivered`)."""

    def age(self) -> None:  # noqa: B027 - optional, see the class
        """Let groups be forgotten that were idle at the last call and still are."""

    def tidy(self, most: int) -> bool:
        """Do so much of what has no haste, about a microsecond each; True: there is more."""
        return False

    def evictions(self) -> Sequence[str]:
        """Return the groups evicted for lack of room since the last call."""
        return NO_GROUPS

    @property
    def over_size(self) -> bool:
        """Return True if it keeps more than its size allows, since nothing could be evicted."""
        return False

    def describe(self) -> dict[str, int | str]:
        """Return the settings in force, for operators."""
        return {"strategy": self.name}


Values = Mapping[str, int]
"""Values of options by their names. A yes is 1, a no is 0."""


@dataclass(frozen=True, slots=True)
class Option:
    """A number that a strategy is made with, as settings and command lines write it."""

    name: str
    default: int
    least: int
    most: int
    about: str
    flag: str = ""
    """The option of `covey-config`; none: it is written as an argument."""
    is_yes_or_no: bool = False


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """What the rest of Covey knows of a strategy: its names, its options, how to make it."""

    name: str
    about: str
    """One sentence for people: to whom a group belongs."""
    make: Callable[[Values], GroupStrategy]
    """Build one. Each of the options below has a value."""
    options: tuple[Option, ...] = ()
    """The first is its size, which `plan` writes behind a colon."""
    aliases: tuple[str, ...] = ()
    """Other names, each as the broker or page writes it that has it."""
    profiles: Mapping[str, Values] = field(default_factory=dict)
    """Other names that bring values of options. A value that is given wins."""
    planned_sizes: tuple[int, ...] = ()
    """The sizes that `plan` compares unless it is told others."""
    needs_header: bool = False
    """True if a queue must name the header that holds the group id."""

    @property
    def size(self) -> Option | None:
        """Return the option that sets the strategy's size; None if it has no size."""
        return self.options[0] if self.options else None

    def spellings(self) -> tuple[str, ...]:
        """Return all its names, its own first."""
        return (self.name, *self.aliases, *self.profiles)
