"""Claiming: which client has which group for itself, said again in the plainest way.

A client may ask for one group by its name, or for the next free one. Clients that name a group
which another one has wait in line. What a client that claims a group may have is asked here; all
else about it is the law's.
"""

from __future__ import annotations

from tests.properties.clients import Client, Slip

NEXT = "*next"


class Claiming:
    """The claims of one queue's clients."""

    def __init__(self) -> None:
        self.claims: dict[str, Client] = {}
        self.lines: dict[str, list[Client]] = {}
        self.done: list[tuple[int, str]] = []  # who has to be told of which group

    def claim(self, client: Client) -> str:
        """Let a client that joins, or is heard again, ask; give the group it has from now on."""
        name = client.group_asked
        if name == NEXT:
            client.is_seeking = True
            return ""
        if name in self.claims:
            self.lines.setdefault(name, []).append(client)
            return ""
        self.take(name, client)
        return name

    def take(self, name: str, client: Client) -> None:
        """The group is the client's."""
        self.claims[name] = client
        client.claimed = name
        client.is_seeking = False

    def unclaim(self, client: Client) -> None:
        """The client has no group any more, and waits for none; the next in line has it."""
        client.is_seeking = False
        for line in self.lines.values():
            if client in line:
                line.remove(client)
        name, client.claimed = client.claimed, ""
        if name:
            del self.claims[name]
            if self.lines.get(name):
                self.take(name, self.lines[name].pop(0))

    def emptied(self, name: str) -> None:
        """A claimed group has no message any more."""
        client = self.claims[name]
        if client.group_asked == NEXT:
            self.done.append((client.number, name))
            client.is_done = True
            self.unclaim(client)
        elif client.is_retiring:
            self.unclaim(client)

    def was_told(self, number: int, name: str) -> None:
        """A client hears that its group is done, each once and at the right time."""
        assert (number, name) in self.done, f"{number} was told that {name} is done"
        self.done.remove((number, name))


def may_have(client: Client, slip: Slip) -> bool:
    """Whether one that wants one group could have the message, selectors aside."""
    if not slip.group or client.is_done:
        return False
    return client.claimed == slip.group or client.is_seeking
