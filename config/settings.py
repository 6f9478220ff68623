"""Every option of the broker, with unit, default and limit: the root of the settings.

    Settings
    ├── broker          BrokerSettings         [broker]
    ├── store           StoreSettings          [store]
    ├── event_log       EventLogSettings       [event_log]
    ├── telemetry       TelemetrySettings      [telemetry]
    ├── virtual_hosts   VirtualHostSettings    [[virtual_host]]
    ├── connectors      ConnectorSettings      [[connector]], with stomp, amqp, http, tls
    ├── queues          QueueSettings          [[queue]], with groups
    ├── topics          TopicSettings          [[topic]]
    ├── users           UserSettings           [[user]]
    └── permissions     PermissionSettings     [[permission]]

Settings are frozen: a reload makes new ones. `Settings()` is a broker that works on loopback with
no file at all. A list that is given replaces the default list; the two are never mixed.

A `[[permission]]` says who may do what to which destinations. Without any entry every user may do
everything but manage, which needs the role `admin`. As soon as there is one entry, everything that
no entry allows is denied. The role `admin` may always do everything.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_core import PydanticCustomError

from covey.config.connectors import (
    AmqpSettings,
    ConnectorSettings,
    HttpSettings,
    StompSettings,
    TlsSettings,
    UserHeaderSettings,
    split_bind,
)
from covey.config.queues import GroupSettings, QueueSettings, TopicSettings
from covey.config.record import (
    GIB,
    KIB,
    MIB,
    NUMBER,
    SIZE,
    Count,
    Names,
    Percent,
    Record,
    Seconds,
    Size,
    SomeCount,
    SomeSeconds,
    SomeSize,
    Text,
    ValueSize,
)

VerbName = Literal["connect", "create", "send", "consume", "browse", "destroy", "manage", "*"]


class PermissionSettings(Record):
    """One thing that somebody is allowed."""

    who: Names
    """User names, `role:NAME`, or `*` for everybody who has logged in."""
    may: tuple[VerbName, ...]
    """connect, create, send, consume, browse, destroy, manage, or `*` for all of them."""
    on: Text = "**"
    """`queue:PATTERN`, `topic:PATTERN`, `dsub:PATTERN`, or a pattern for all three kinds."""


__all__ = [
    "AmqpSettings",
    "BrokerSettings",
    "ConnectorSettings",
    "EventLogSettings",
    "GroupSettings",
    "HttpSettings",
    "PermissionSettings",
    "QueueSettings",
    "Settings",
    "StompSettings",
    "StoreSettings",
    "TelemetrySettings",
    "TlsSettings",
    "TopicSettings",
    "UserHeaderSettings",
    "UserSettings",
    "VirtualHostSettings",
    "schema",
]


# The kind of error that tells which entry of a list repeats another one's name.
REPEATED: Final = "repeated"

WithId = ConnectorSettings | QueueSettings | TopicSettings


class BrokerSettings(Record):
    """What holds for the whole broker; its limits bound what one client can cost the others."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")] = "default"
    """Part of temporary destinations' names, so letters, digits, `-` and `_` only."""
    workers: Annotated[int, Field(ge=1, le=64), NUMBER] = 1
    """Processes over which the virtual hosts are spread, on Linux; most limits hold in each."""
    default_message_group: Text = "qpid.no-group"
    """Shared groups: the group of messages that carry none."""
    connections_max: SomeCount = 10_000
    """Open connections, all ports together."""
    connections_per_user_max: Count = 0
    """Open connections of one user; 0 = no limit of its own."""
    logins_pending_max: SomeCount = 100
    """Connections of one address that have not logged in yet."""
    login_failures_max: Count = 10
    """Failed logins of one address, or of one user, that shut the door; 0 = never."""
    login_window_s: SomeSeconds = 60.0
    """The time within which they are counted."""
    login_ban_s: Seconds = 60.0
    """How long the door stays shut: no password is looked at meanwhile."""
    login_failed_wait_s: Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), NUMBER] = 1.0
    """A failed login is answered after this; guessing becomes slow, and nobody else waits."""
    slow_consumer_s: Seconds = 30.0
    """A client that leaves its outbox full for so long is logged and shown as slow; 0 = never."""
    slow_consumer_kill: bool = False
    """Such a client is cut off; what it holds goes to others."""
    tx_operations_max: SomeCount = 10_000
    """Sends and settlements in one transaction."""
    tx_bytes_max: SomeSize = 64 * MIB
    """Bytes of the messages in one transaction."""
    subscriptions_max: SomeCount = 256
    """Subscriptions of one connection."""
    unsettled_max: SomeCount = 100_000
    """Deliveries one consumer may leave unsettled, whatever its credit."""
    selector_length_max: SomeSize = 4 * KIB
    """Bytes of a selector."""
    selector_depth_max: Annotated[int, Field(ge=1, le=200), NUMBER] = 64
    """Nesting of a selector; Python's own recursion limit must stay far away."""
    selectors_per_queue_max: SomeCount = 64
    """Different selectors on one queue: each one costs time at every enqueue."""
    destination_length_max: SomeSize = 1024
    """Bytes of a destination header."""
    destination_levels_max: SomeCount = 32
    """Levels of a destination name."""
    composite_parts_max: SomeCount = 32
    """Destinations in one composite."""
    wildcards_max: SomeCount = 16
    """Wildcards in one pattern."""
    pattern_length_max: SomeSize = 256
    """Characters of one pattern."""
    group_id_length_max: SomeSize = 1024
    """Bytes of a group id."""
    dispatch_budget: SomeCount = 1000
    """Dispatch steps of one queue before others get their turn."""
    queues_max: SomeCount = 1_000_000
    """Queues of one virtual host; a durable subscription counts as one."""
    queues_per_user_max: SomeCount = 1_000_000
    """Queues of one virtual host that one user has made since the start."""
    topics_max: SomeCount = 1_000_000
    """Topics of one virtual host."""
    topics_per_user_max: SomeCount = 1_000_000
    """Topics of one virtual host that one user has made since the start."""
    pattern_subscriptions_max: SomeCount = 1_000_000
    """Subscriptions by pattern of one virtual host: each is asked about every new destination."""
    consumers_max: SomeCount = 1_000_000
    """Consumers of one virtual host: a subscription has one in each queue that it reads."""
    consumers_per_user_max: SomeCount = 1_000_000
    """Consumers of one virtual host that one user's subscriptions have."""
    work_portion: SomeCount = 1000
    """Items of a job (a purge, a wide subscription) before everybody else gets their turn."""
    work_portion_ms: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NUMBER] = 5.0
    """The same in milliseconds, for all jobs together."""
    session_work_max: SomeCount = 1_000_000
    """Items of work that one connection may have under way in jobs."""
    slow_turn_ms: Annotated[float, Field(gt=0, allow_inf_nan=False), NUMBER] = 100.0
    """A turn of the event loop that takes longer is logged, with what it was doing."""
    collect_every_s: Seconds = 3600.0
    """How often all objects in memory are walked for garbage, in a quiet moment; 0 = never."""
    work_per_turn: Annotated[int, Field(ge=512), SIZE] = 16 * KIB
    """Bytes read from one connection before others get their turn."""
    work_per_turn_max: Annotated[int, Field(ge=512), SIZE] = 256 * KIB
    """The same for a connection whose reads are full and whose turns are short in time."""
    work_per_turn_ms: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NUMBER] = 1.0
    """Milliseconds of a turn beyond which a connection reads less; longer starves the store."""
    busy_poll_us: Annotated[int, Field(ge=0, le=1000), NUMBER] = 50
    """Microseconds for which it looks for more after a read where that pays; 0 = it sleeps."""
    memory_window_queue: Size = 16 * MIB
    """Bytes of message bodies one queue keeps in memory; the rest lives in the store."""
    memory_window_total: Size = 64 * MIB
    """Bytes of message bodies all queues keep in memory together."""
    memory_entries_queue: Count = 50_000
    """Waiting messages of a queue, with no body in memory, above which it is packed in memory."""
    topic_batch: SomeSize = 64 * KIB
    """Bytes a topic hands out together; by so much may a reader's buffer exceed its limit."""
    memory_limit: Size = 0
    """Bytes of memory the broker may use; 0 = those of the machine, or of its container."""
    memory_alarm_percent: Percent = 60
    """Producers wait from this share of it on, while queues hold messages."""
    delayed_max: SomeCount = 1_000_000
    """Messages of one queue that wait for their time; each one costs about 300 bytes of memory."""
    delayed_memory_max: SomeSize = 64 * MIB
    """Bytes of the non-persistent ones among them, whose bodies have no other place."""
    retained_memory_max: SomeSize = 256 * MIB
    """Bytes of the messages that the topics of one virtual host keep for later subscribers."""
    traces_max: SomeCount = 16
    """Queues that are traced at a time (`covey trace`)."""
    trace_events_max: SomeCount = 10_000
    """The latest events a trace keeps; each one costs about 250 bytes of memory."""
    trace_idle_s: SomeSeconds = 30.0
    """A trace ends when nobody has asked for its events for so long."""
    history_queues_max: Count = 100
    """Queues whose numbers of the last day are kept, 120 KiB each; the broker's own always are."""
    shutdown_timeout_s: Seconds = 5.0
    """Time to finish after SIGTERM."""
    auto_create: bool = True
    """A destination is made when it is first used."""
    group_first_property: bool = False
    """AMQP: copy the first-for-consumer flag into the application properties, for JMS clients."""
    switch_interval_ms: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False), NUMBER] = 0.05
    """How long one thread may keep the interpreter; the store's thread starves when it is long."""


class StoreSettings(Record):
    """Where messages live."""

    kind: Literal["memory", "sqlite", "postgres"] = "sqlite"
    """memory: nothing survives the process; sqlite: persistent messages do, on this machine's
    disk; postgres: in a PostgreSQL, so that another machine can go on with them."""
    path: Text = "data"
    """Directory of the store, relative to the working directory."""
    dsn: str = ""
    """postgres: where it is, as libpq writes it: `host=db1,db2 dbname=covey user=covey
    target_session_attrs=read-write`. Passwords are better in a passfile or in PGPASSWORD."""
    allow_unsafe: bool = False
    """postgres: serve although the server could lose what was confirmed (fsync off, a standby that
    is not synchronous); false refuses to start."""
    disk_free_min: Size = 1 * GIB
    """Producers of persistent messages are blocked when the disk has less free bytes."""
    disk_free_percent: Percent = 5
    """The same as a share of the disk; the larger of both holds."""
    journal_size: ValueSize = 64 * MIB
    """Bytes of the journal; messages that are settled before it is full are written only once."""
    unwritten_max: SomeSize = 64 * MIB
    """Bytes of messages on their way to the disk; who sends more waits until it has caught up."""
    allow_open_files: bool = False
    """Leave the modes of the directory and its files as they are, also where other users may read
    or change messages; false closes them, or refuses to start where that cannot be done."""


class ClusterSettings(Record):
    """Brokers that share a PostgreSQL: each serves some virtual hosts, and stands by for others."""

    node: Annotated[str, Field(max_length=200)] = ""
    """This broker's name, unique among them; unset: the name of the machine."""
    lease_s: Annotated[float, Field(ge=2, le=300, allow_inf_nan=False), NUMBER] = 10.0
    """A broker that the database has not heard of for so long is taken for dead: others serve its
    virtual hosts."""
    forward: str = ""
    """Where other brokers pass connections on to this one, host:port; unset: connections for a
    virtual host of this broker that come to another one are refused there."""
    tls: TlsSettings | None = None
    """Certificates for connections between brokers, which both sides show; client_ca is the
    cluster's own authority. Needed if `forward` is not an address of this machine alone."""
    balance_s: Seconds = 10.0
    """A broker that has two virtual hosts more than another gives one away, at most one in so many
    seconds while it has connections; 0 = never, only `covey cluster move` does."""

    @model_validator(mode="after")
    def _is_reached_by_brokers_alone(self) -> Self:
        if not self.forward:
            return self
        host, port = split_bind(self.forward)
        if not port:
            raise ValueError(f"cluster.forward {self.forward}: others must know the port")
        is_mutual = self.tls is not None and self.tls.client_auth == "required"
        if not is_mutual and host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError(
                f"cluster.forward {self.forward} believes whoever reaches it: it needs"
                ' [cluster.tls] with client_ca and client_auth = "required"'
            )
        return self

    @property
    def name(self) -> str:
        """The name, given or not."""
        return self.node or os.uname().nodename


class EventLogSettings(Record):
    """What happened to every message, as Parquet files for the data pipeline."""

    dir: Text | None = None
    """Directory of the event log; unset: none is written. Needs the extra `pipeline`."""
    queues: Names = ("**",)
    """Names or patterns of the queues whose events are kept."""
    rotate_size: SomeSize = 64 * MIB
    """Bytes after which a file is finished; only finished files can be read."""
    rotate_age_s: SomeSeconds = 60.0
    """Time after which a file is finished, however small."""
    backlog_max: SomeSize = 64 * MIB
    """Bytes of events that wait for a stuck disk: two million; beyond it events are left out."""
    allow_open_files: bool = False
    """The same for the event log: say true if a pipeline of another user is to read it."""


class TelemetrySettings(Record):
    """Spans of messages for OpenTelemetry's collector; needs the extra `otel`."""

    endpoint: Text | None = None
    """Collector (OTLP over HTTP): http://HOST:4318; unset: as OTEL_EXPORTER_OTLP_ENDPOINT says."""
    queues: Names = ("**",)
    """Names or patterns of the queues whose messages are followed."""
    sample: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), NUMBER] = 0.0
    """Share of messages that begin a trace here; one that brings a `traceparent` follows that."""
    open_max: SomeCount = 10_000
    """Messages that are followed at a time; beyond it the oldest are followed no more."""
    backlog_max: SomeCount = 20_000
    """Spans that wait for the collector; beyond it spans are left out."""


class VirtualHostSettings(Record):
    """A world of destinations of its own; the first one serves clients that name no host."""

    id: Text
    """Its name."""
    host_names: Names
    """What clients may write in their host header (AMQP: hostname)."""


class UserSettings(Record):
    """Who may log in."""

    name: Text
    """The login."""
    password: SecretStr
    """Clear text, or a SCRAM record."""
    roles: Names = ()
    """Principals of kind `role`; `admin` may do everything."""


# Where a broker of a cluster tells of the cluster, whichever virtual hosts it serves.
CLUSTER_HOST = VirtualHostSettings(id="$cluster", host_names=("$cluster",))
DEFAULT_VIRTUAL_HOSTS = (
    VirtualHostSettings(id="default", host_names=("localhost", "127.0.0.1", "::1")),
)
DEFAULT_CONNECTORS = (
    ConnectorSettings(id="stomp", protocol="stomp", bind="127.0.0.1:61613"),
    ConnectorSettings(id="amqp", protocol="amqp", bind="127.0.0.1:5672"),
    ConnectorSettings(id="http", protocol="http", bind="127.0.0.1:8161"),
)
DEFAULT_USERS = (UserSettings(name="admin", password=SecretStr("password"), roles=("admin",)),)


class Settings(Record):
    """The whole configuration, checked."""

    broker: BrokerSettings = BrokerSettings()
    store: StoreSettings = StoreSettings()
    cluster: ClusterSettings = ClusterSettings()
    event_log: EventLogSettings = EventLogSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    virtual_hosts: tuple[VirtualHostSettings, ...] = Field(
        default=DEFAULT_VIRTUAL_HOSTS, alias="virtual_host", min_length=1
    )
    connectors: tuple[ConnectorSettings, ...] = Field(default=DEFAULT_CONNECTORS, alias="connector")
    queues: tuple[QueueSettings, ...] = Field(default=(QueueSettings(),), alias="queue")
    topics: tuple[TopicSettings, ...] = Field(default=(TopicSettings(),), alias="topic")
    users: tuple[UserSettings, ...] = Field(default=DEFAULT_USERS, alias="user")
    permissions: tuple[PermissionSettings, ...] = Field(default=(), alias="permission")

    def virtual_host(self, space: str = "") -> VirtualHostSettings:
        """Return the virtual host of that id; the first one if none is given."""
        if not space:
            return self.virtual_hosts[0]
        if space == CLUSTER_HOST.id:
            return CLUSTER_HOST
        return next(entry for entry in self.virtual_hosts if entry.id == space)

    @field_validator("virtual_hosts")
    @classmethod
    def _hosts_distinct(
        cls, hosts: tuple[VirtualHostSettings, ...]
    ) -> tuple[VirtualHostSettings, ...]:
        _refuse_repeats("id", [(index, host.id) for index, host in enumerate(hosts)])
        names = [(index, name) for index, host in enumerate(hosts) for name in host.host_names]
        _refuse_repeats("host_names", names)
        if any(name.lower() == CLUSTER_HOST.id for name in _names(hosts)):
            raise ValueError(f"{CLUSTER_HOST.id} is the broker's own: it tells of the cluster")
        return hosts

    @field_validator("connectors", "queues", "topics")
    @classmethod
    def _ids_distinct(cls, entries: tuple[WithId, ...]) -> tuple[WithId, ...]:
        _refuse_repeats("id", [(index, entry.id) for index, entry in enumerate(entries)])
        return entries

    @model_validator(mode="after")
    def _knows_its_database(self) -> Self:
        if self.store.kind == "postgres" and not self.store.dsn:
            raise ValueError("store.kind is postgres: store.dsn is to say where it is")
        if self.store.kind == "postgres" and self.broker.workers > 1:
            raise ValueError(
                "store.kind is postgres: broker.workers is for stores of one machine; start as many"
                " brokers instead, each with a name and ports of its own"
            )
        return self

    @field_validator("users")
    @classmethod
    def _users_distinct(cls, users: tuple[UserSettings, ...]) -> tuple[UserSettings, ...]:
        _refuse_repeats("name", [(index, user.name) for index, user in enumerate(users)])
        return users


def _names(hosts: tuple[VirtualHostSettings, ...]) -> list[str]:
    """Return all names of virtual hosts: their ids and their host names."""
    return [name for host in hosts for name in (host.id, *host.host_names)]


def schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file."""
    return Settings.model_json_schema(by_alias=True)


def _refuse_repeats(field: str, names: list[tuple[int, str]]) -> None:
    """Refuse the first name that an earlier entry has too, and say which entry repeats it."""
    seen: set[str] = set()
    for index, name in names:
        if name in seen:
            context: dict[str, object] = {"name": name, "index": index, "field": field}
            raise PydanticCustomError(REPEATED, "{name} is given twice", context)
        seen.add(name)
