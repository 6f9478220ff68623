"""GroupCache: one value for each group that is with this worker.

    @worker.group_cache
    async def carts(group: str) -> Cart:
        return await load_cart(group)

    @worker.handler
    async def handle(message: Message) -> None:
        cart = await carts(message)

The value is loaded when a message of the group first asks for it, and kept while the group stays at
this worker. It is dropped when the group comes back from another consumer (which may have changed
what the value stands for), when the group is taken away, when a handler of the group fails, when
the connection ends, and when there are too many values.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar, cast

from covey.worker.message import Message

GROUPS_MAX: Final = 10_000

Value = TypeVar("Value")
Load = Callable[[str], Awaitable[Value] | Value]


class GroupCache(Generic[Value]):
    """A value for each group."""

    def __init__(self, load: Load[Value], groups_max: int = GROUPS_MAX) -> None:
        """Use `load` to make the value of a group."""
        self._load = load
        self._groups_max = groups_max
        self._values: OrderedDict[str, Value] = OrderedDict()

    async def __call__(self, message: Message) -> Value:
        """Return the value of a message's group."""
        group = message.group
        if group is None:
            raise ValueError(f"message {message.id} belongs to no group")
        if group in self._values:
            self._values.move_to_end(group)
            return self._values[group]
        made = self._load(group)
        value = cast(Value, await made if inspect.isawaitable(made) else made)
        self._values[group] = value
        if len(self._values) > self._groups_max:
            self._values.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, group: object) -> bool:
        return group in self._values

    def drop(self, group: str) -> None:
        """Forget a group's value."""
        self._values.pop(group, None)

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
