"""Directory: which broker of this process serves which virtual host.

A client names a virtual host by one of its host names, or by none: then it means the first one. The
configuration says which virtual host that is (`space_named`). The directory knows which broker
serves it. A virtual host that no broker of this process serves is refused as unavailable: its store
failed, or another broker of the cluster has it.

A process of a cluster may serve no virtual host at all. It has a *lobby*: a broker without a store,
which shows the cluster (host name `$cluster`) and refuses clients that cannot be served.
"""

from __future__ import annotations

from collections.abc import Mapping

from covey.config.settings import CLUSTER_HOST, Settings, VirtualHostSettings
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
        self.lobby: Broker | None = None  # in a cluster only
        self.internal_errors = 0  # unexpected exceptions that belong to no broker
        self._names: Mapping[str, str] = {}
        self.adopt(settings)

    @classmethod
    def of(cls, broker: Broker) -> Directory:
        """Return the directory of a process that has this one broker."""
        directory = cls(broker.settings, broker.shared)
        directory.brokers[broker.host.id] = broker
        return directory

    def adopt(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self.settings = settings
        self._names = {
            name.lower(): entry.id for entry in settings.virtual_hosts for name in entry.host_names
        }

    @property
    def virtual_hosts(self) -> tuple[VirtualHostSettings, ...]:
        """Return all virtual hosts, wherever they are served."""
        return self.settings.virtual_hosts

    @property
    def hosts(self) -> list[VirtualHost]:
        """Return the virtual hosts that are served here."""
        return [broker.host for broker in self.brokers.values()]

    @property
    def queues(self) -> list[Queue]:
        """Return the queues of those virtual hosts, with those of durable subscriptions."""
        return [queue for host in self.hosts for queue in host.all_queues()]

    @property
    def alarms(self) -> dict[str, str]:
        """Return what all producers have to wait for, by cause; "" if there is nothing."""
        found: dict[str, str] = {}
        for broker in self.brokers.values():
            for cause, reason in broker.commits.overload.alarms.items():
                found[cause] = found.get(cause) or reason
        return found

    @property
    def failures(self) -> int:
        """Return the count of unexpected exceptions."""
        return self.internal_errors + sum(one.internal_errors for one in self.brokers.values())

    @property
    def damages(self) -> list[str]:
        """Return the damaged or missing parts of the stores, each with its place."""
        return [place for broker in self.brokers.values() for place in broker.damages]

    @property
    def any_broker(self) -> Broker:
        """Return the broker of the first virtual host that is served here; else the lobby."""
        served = [self.brokers[one.id] for one in self.virtual_hosts if one.id in self.brokers]
        if self.lobby is not None:
            served.append(self.lobby)
        return served[0]

    @property
    def has_any_broker(self) -> bool:
        """Return True if there is a broker, or at least a lobby, that can answer a client."""
        return bool(self.brokers) or self.lobby is not None

    def space_named(self, name: str | None) -> str:
        """Return the id of the virtual host a client asks for; the first one if it names none."""
        if name is None:
            return self.settings.virtual_hosts[0].id
        space = self._names.get(name.lower())
        if self.lobby is not None and name == CLUSTER_HOST.id:
            return CLUSTER_HOST.id
        if space is None:
            raise RefusedError(f"no virtual host has the host name {name}", "not-found")
        return space

    def named(self, name: str | None) -> Broker:
        """Return the broker of the virtual host a client asks for."""
        return self.broker(self.space_named(name))

    def broker(self, space: str) -> Broker:
        """Return the broker of a virtual host."""
        broker = self.lobby if space == CLUSTER_HOST.id else self.brokers.get(space)
        if broker is None:
            raise self.absence(space)
        return broker

    def absence(self, space: str) -> RefusedError:
        """Make the refusal for a client that wants a virtual host that is not served here."""
        cluster = self.shared.cluster
        if cluster is None:
            return RefusedError(f"virtual host {space} is not served now", "unavailable")
        return RefusedError(cluster.whereabouts(space, self.shared.clock.now), "unavailable")

    def is_elsewhere(self, space: str, now: float) -> bool:
        """Return True if another broker of the cluster serves a virtual host."""
        cluster = self.shared.cluster
        return cluster is not None and cluster.owner(space, now) is not None

    def is_served(self, space: str) -> bool:
        """Return True if a virtual host is served here."""
        return space in self.brokers or (self.lobby is not None and space == CLUSTER_HOST.id)
