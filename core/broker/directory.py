"""Directory: which broker of this process serves which virtual host.

A client names a virtual host by one of its host names, or by none: then it means the first one. The
configuration says which virtual host that is (`space_named`); the directory knows whose it is. One
that nobody serves, since its store failed, is refused as unavailable.
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.config.settings import Settings, VirtualHostSettings
from covey.core.broker.broker import Broker
from covey.core.broker.shared import Shared
from covey.core.errors import RefusedError
from covey.core.host.virtual_host import VirtualHost
from covey.core.queue.queue import Queue


class Directory:
    """The virtual hosts by name, and the brokers that serve them here."""

    def __init__(self, settings: Settings, shared: Shared) -> None:
        """Begin with no broker."""
        self.shared = shared
        self.brokers: dict[str, Broker] = {}  # by the id of the virtual host
        self.is_sole = True  # False: other processes serve virtual hosts, too
        self.internal_errors = 0  # exceptions of which no broker can be blamed
        self._names: Mapping[str, str] = {}
        self.adopt(settings)

    @classmethod
    def of(cls, broker: Broker) -> Directory:
        """Return the directory of a process that has this one broker."""
        directory = cls(broker.settings, broker.shared)
        directory.brokers[broker.host.id] = broker
        return directory

    def adopt(self, settings: Settings) -> None:
        """Let other settings hold."""
        self.settings = settings
        self._names = {
            name.lower(): entry.id for entry in settings.virtual_hosts for name in entry.host_names
        }

    @property
    def virtual_hosts(self) -> tuple[VirtualHostSettings, ...]:
        """Return all of them, wherever they are served."""
        return self.settings.virtual_hosts

    @property
    def hosts(self) -> list[VirtualHost]:
        """Return those that are served here."""
        return [broker.host for broker in self.brokers.values()]

    @property
    def queues(self) -> list[Queue]:
        """Return their queues, and those behind durable subscriptions."""
        return [queue for host in self.hosts for queue in host.all_queues()]

    @property
    def alarms(self) -> dict[str, str]:
        """Return what producers wait for, whoever they are, by cause; "" if nobody has to."""
        found: dict[str, str] = {}
        for broker in self.brokers.values():
            for cause, reason in broker.commits.overload.alarms.items():
                found[cause] = found.get(cause) or reason
        return found

    @property
    def failures(self) -> int:
        """Return how many exceptions nobody foresaw."""
        return self.internal_errors + sum(one.internal_errors for one in self.brokers.values())

    @property
    def damages(self) -> list[str]:
        """Return what of the stores was found damaged or missing, with its place."""
        return [place for broker in self.brokers.values() for place in broker.damages]

    @property
    def any_broker(self) -> Broker:
        """Return the broker of the first virtual host that is served here."""
        served = [self.brokers[one.id] for one in self.virtual_hosts if one.id in self.brokers]
        return served[0]

    def space_named(self, name: str | None) -> str:
        """Return the id of the virtual host a client asks for; the first one if it names none."""
        if name is None:
            return self.settings.virtual_hosts[0].id
        space = self._names.get(name.lower())
        if space is None:
            raise RefusedError(f"no virtual host has the host name {name}", "not-found")
        return space

    def named(self, name: str | None) -> Broker:
        """Return the broker of the virtual host a client asks for."""
        return self.broker(self.space_named(name))

    def broker(self, space: str) -> Broker:
        """Return the broker of a virtual host."""
        broker = self.brokers.get(space)
        if broker is None:
            raise RefusedError(f"virtual host {space} is not served now", "unavailable")
        return broker
