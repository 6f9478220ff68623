# Compiled by mypyc: see setup.py.
"""Claims: consumers that want one group and nothing else.

A consumer may name its group, or ask for the next free one (`NEXT`). While it has the group, the
group is its own under every strategy: `core.dispatch.placement` asks here before it asks the
strategy. The strategy does not know such a consumer and is told nothing of the claim. So after the
claim the group belongs to its earlier owner again. The gate holds as ever: others first settle
what they hold of the group.

    named   the group is claimed as long as the consumer is there, also while it has no message.
            Others that name the same group wait in line, in the order in which they came
    next    the consumer is in line for a free group, as any other, but takes only one. It is done
            when all messages of the group are settled. Then it gets nothing more, and its
            subscription ends

A consumer that held a message for too long loses its group. When it settles something again, it is
the last in line for the group it named, or takes the next free one.

`taken` has the claimed groups. A queue without claims pays a look at this empty table when it asks
for an owner, and nothing for each message.
"""

from __future__ import annotations

from typing import Final

from covey.core.errors import RefusedError
from covey.core.model.consumer import Consumer

NEXT: Final = "*next"  # in place of a group's name


class GroupClaims:
    """Who of one queue has claimed which group."""

    __slots__ = ("_lines", "done", "taken")

    def __init__(self) -> None:
        self.taken: dict[str, Consumer] = {}
        self._lines: dict[str, list[Consumer]] = {}  # who waits for a claimed group, by its name
        self.done: list[tuple[Consumer, str]] = []  # who must be told that which group is done

    def ask(self, consumer: Consumer) -> bool:
        """Let a consumer have the group it names; False: the consumer waits in line for it."""
        name = consumer.group_asked
        if name in self.taken:
            self._lines.setdefault(name, []).append(consumer)
            return False
        self.take(name, consumer)
        return True

    def take(self, name: str, consumer: Consumer) -> None:
        """Let a consumer have a group."""
        self.taken[name] = consumer
        consumer.group = name

    def give_up(self, consumer: Consumer) -> None:
        """End a consumer's claim, or its place in line; the next in line gets the group."""
        name = consumer.group
        line = self._lines.get(name or consumer.group_asked)
        if not name:
            if line is not None and consumer in line:
                line.remove(consumer)
        else:
            consumer.group = ""
            del self.taken[name]
            if line:
                self.take(name, line.pop(0))
        if line is not None and not line:
            del self._lines[name or consumer.group_asked]

    def emptied(self, consumer: Consumer) -> None:
        """Called when a consumer's group has no message left."""
        if consumer.group_asked == NEXT:
            self.done.append((consumer, consumer.group))
            consumer.is_barred = True  # it gets nothing more
            self.give_up(consumer)
        elif consumer.is_retiring:
            self.give_up(consumer)

    def line(self, name: str) -> int:
        """Return how many consumers wait for a group that another has claimed."""
        return len(self._lines.get(name, ()))


def check_claim(queue: str, consumer: Consumer, *, has_groups: bool, length_max: int) -> None:
    """Raise RefusedError if a consumer cannot claim its group, or asks for more than that."""
    if not has_groups:
        raise RefusedError(
            f"queue {queue} has no groups: it has priorities or a last-value key", "invalid"
        )
    asked = consumer.group_asked
    if len(asked.encode("utf-8", "surrogatepass")) > length_max:
        raise RefusedError(
            f"queue {queue}: the group asked for has more than {length_max} bytes,"
            " the most that group_id_length_max allows",
            "limit",
        )
    others = (
        (consumer.selector is not None, "a selector"),
        (consumer.is_exclusive, "exclusive"),
        (consumer.is_browser, "a browser"),
        (consumer.from_seq != 0, "from-seq"),
    )
    for is_asked, what in others:
        if is_asked:
            raise RefusedError(
                f"queue {queue}: a consumer of one group takes all of it, in order:"
                f" {what} does not go with it",
                "invalid",
            )
