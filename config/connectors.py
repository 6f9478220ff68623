"""Where the broker listens: `[[connector]]` with the options of its protocol.

One connector is one port and one protocol. `[connector.stomp]`, `[connector.amqp]` and
`[connector.http]` hold that protocol's options and limits. An HTTP connector also speaks STOMP,
over WebSocket. Options of a protocol that the connector does not speak are refused, since they
would do nothing. The STOMP options and their defaults are those of the Apollo STOMP manual.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from covey.config.record import (
    KIB,
    MIB,
    NUMBER,
    SIZE,
    Millis,
    Names,
    Record,
    Seconds,
    Size,
    SomeCount,
    SomeSeconds,
    SomeSize,
    Text,
    ValueSize,
)

ProtocolName = Literal["stomp", "amqp", "http"]
NameRule = Literal["manual"] | bool

# What a connector of each protocol speaks. It may have the option tables of these protocols.
SPOKEN: dict[str, tuple[str, ...]] = {
    "stomp": ("stomp",),
    "amqp": ("amqp",),
    "http": ("http", "stomp"),
}

PORT_MAX = 65535


class UserHeaderSettings(Record):
    """One header that names the sender of a message."""

    header: Text
    """The header that is set on every received message."""
    separator: str | None = None
    """Joins all matching principals; unset: only the first one is named."""
    kind: Text = "*"
    """The kind of principal to look for; `*` = all."""


def _user_headers(value: object) -> object:
    return ({"header": value},) if isinstance(value, str) else value


def _name_rule(value: object) -> object:
    """Read a text from the environment; refuse an unknown word with one error, not one per type."""
    words: dict[object, object] = {"true": True, "false": False}
    given = words.get(value.lower(), value) if isinstance(value, str) else value
    if given != "manual" and not isinstance(given, bool):
        raise ValueError(f'"manual", true or false is needed, not {value}')
    return given


class StompSettings(Record):
    """The STOMP dialect of a connector: headers it adds, limits, names, heart-beats."""

    buffer_size: SomeSize | None = None
    """Bytes buffered per producer and subscription; unset: tuned by the number of connections."""
    buffer_auto_max: SomeSize = 640 * KIB
    """The tuned buffer while few connections are open."""
    buffer_auto_min: SomeSize = 20 * KIB
    """The tuned buffer while many connections are open."""
    add_user_header: Annotated[tuple[UserHeaderSettings, ...], BeforeValidator(_user_headers)] = ()
    """Header that names the sender on every received message: a name, or tables."""
    add_timestamp_header: Text | None = None
    """Header that gets the time of receipt, in ms since 1970 UTC."""
    add_redeliveries_header: Text | None = None
    """Header that gets the number of redeliveries, on redelivered messages only."""
    max_command_length: Annotated[int, Field(ge=1, le=1024), NUMBER] = 32
    """Bytes of a command line; the longest command has 11."""
    max_header_length: SomeSize = 10 * KIB
    """Bytes of one header line."""
    max_headers: SomeCount = 1000
    """Headers of one frame."""
    max_data_length: ValueSize = 100 * MIB
    """Bytes of a body, with and without content-length."""
    die_delay_ms: Annotated[int, Field(ge=0, le=60_000), NUMBER] = 500
    """Time between an ERROR frame and the close, so that the client can read it."""
    queue_prefix: Text = "/queue/"
    """Destinations that start so are queues."""
    topic_prefix: Text = "/topic/"
    """Destinations that start so are topics."""
    dsub_prefix: Text = "/dsub/"
    """Destinations that start so are durable subscriptions."""
    temp_queue_prefix: Text = "/temp-queue/"
    """Destinations that start so are queues of this connection alone."""
    temp_topic_prefix: Text = "/temp-topic/"
    """Destinations that start so are topics of this connection alone."""
    path_separator: Text = "."
    """Between the levels of a name."""
    destination_separator: Text = ","
    """Between the parts of a composite destination."""
    any_child_wildcard: Text = "*"
    """Matches one level."""
    any_descendant_wildcard: Text = "**"
    """Matches all levels below."""
    regex_wildcard_start: Text = "{"
    """Opens a regular expression for one level."""
    regex_wildcard_end: Text = "}"
    """Closes it."""
    strict_names: Annotated[NameRule, BeforeValidator(_name_rule)] = "manual"
    """Raw characters that a name may have: "manual" = those that the Apollo STOMP manual lists, and
    `/`; true = without `/`; false = any. Others are written %XX."""
    compat_wildcards: bool = False
    """`>` (ActiveMQ) and `#` (Artemis, RabbitMQ) mean any descendant too."""
    descendant_matches_zero: bool = False
    """`PRICE.**` also matches `PRICE`."""
    default_destination_type: Literal["queue", "topic"] = "queue"
    """What a destination without a prefix is."""
    require_host: bool = False
    """Refuse STOMP 1.1 and 1.2 clients that name no host; else they get the first one."""
    keep_original_reply_to: bool = False
    """Send the client's own reply-to as a second line after the rewritten one."""
    receipt_implies_persistent: bool = False
    """A SEND with a receipt to a queue is stored even without persistent:true."""
    heartbeat_send_ms: Millis = 100
    """Shortest interval at which the broker offers to send heart-beats: the floor."""
    heartbeat_receive_ms: Millis = 10_000
    """Interval at which the broker asks for heart-beats; 0 = never."""
    heartbeat_tolerance: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False), NUMBER] = 1.5
    """A peer is dead after its interval times this."""
    login_timeout_s: SomeSeconds = 10.0
    """Time from accept to CONNECTED; a stranger may not hold a connection longer."""
    login_frame_max: SomeSize = 64 * KIB
    """Bytes of a frame before login: strangers get little memory."""
    login_headers_max: SomeCount = 30
    """Headers of a frame before login."""
    transactions_max: SomeCount = 256
    """Transactions one connection may have open at a time."""
    receipts_max: SomeCount = 1000
    """Receipts that may be outstanding; beyond it the connection is not read."""
    default_credit_count: SomeCount = 655_360
    """Messages a subscription without a credit header may hold."""
    default_credit_bytes: Size = 655_360
    """Bytes a subscription without a credit header may hold."""
    credit_bytes_max: SomeSize = 1 * MIB
    """Most bytes that a count-only credit header gets from the socket's receive buffer."""

    @model_validator(mode="after")
    def _buffers_in_order(self) -> Self:
        if self.buffer_auto_min > self.buffer_auto_max:
            raise ValueError("buffer_auto_min is larger than buffer_auto_max")
        return self


class AmqpSettings(Record):
    """The AMQP 1.0 side of a connector: sizes, limits, login."""

    max_frame_size: Annotated[int, Field(ge=512, le=16 * MIB), SIZE] = 64 * KIB
    """Largest frame offered to the peer; the specification demands at least 512."""
    channel_max: Annotated[int, Field(ge=0, le=65_535), NUMBER] = 255
    """Highest channel number, so sessions per connection minus one."""
    links_max: SomeCount = 1000
    """Links per connection."""
    link_credit: SomeCount = 1000
    """Credit granted to a sending client, in messages."""
    idle_timeout_s: Seconds = 60.0
    """Silence after which a peer is dead, as offered to it; 0 = never."""
    max_message_size: ValueSize = 100 * MIB
    """Bytes of one message over all its frames."""
    outbox_max: SomeSize = 640 * KIB
    """Bytes that wait for a slow peer; beyond it nothing more is delivered to it."""
    held_max: SomeSize = 8 * MIB
    """Bytes of transfers kept while a peer's message waits for room; then it is not read."""
    transactions_max: SomeCount = 256
    """Open transactions of one connection; clients use one per session."""
    add_user_annotation: bool = False
    """Name the sender in the annotation x-opt-user-id of messages without a user-id."""
    open_timeout_s: SomeSeconds = 10.0
    """Time from accept to open; a stranger may not hold a connection longer."""
    login_frame_max: Annotated[int, Field(ge=512), SIZE] = 64 * KIB
    """Bytes of a SASL frame."""
    sasl_mechanisms: Names = ("SCRAM-SHA-256", "PLAIN")
    """Mechanisms offered, best first: SCRAM-SHA-256, PLAIN, EXTERNAL."""
    allow_anonymous: bool = False
    """Let in peers without a login (SASL ANONYMOUS, or no SASL layer)."""

    @field_validator("sasl_mechanisms")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in ("SCRAM-SHA-256", "PLAIN", "EXTERNAL"):
                raise ValueError(
                    f"{name!r} is not offered; there are SCRAM-SHA-256, PLAIN and EXTERNAL"
                    " (ANONYMOUS is allow_anonymous)"
                )
        return names


class HttpSettings(Record):
    """The HTTP side of a connector: management, metrics, STOMP over WebSocket."""

    allowed_origins: Names = ()
    """Web pages that may open a WebSocket or call the API, as `https://host:port`."""
    body_max: ValueSize = 10 * MIB
    """Bytes of a request body."""
    request_timeout_s: SomeSeconds = 30.0
    """Time for one request, its body included."""
    idle_timeout_s: SomeSeconds = 5.0
    """Time for the head of a request, and between two requests of a connection."""
    sessions_max: SomeCount = 1000
    """Browsers that are signed in at a time; one more ends one of the user who has the most."""
    session_idle_s: SomeSeconds = 3600.0
    """A browser that has asked for nothing for so long has to sign in again."""
    session_max_s: SomeSeconds = 43_200.0
    """And so has one that has signed in so long ago."""
    event_streams_max: SomeCount = 100
    """Streams of server-sent events that are open at a time."""


class TlsSettings(Record):
    """TLS of a connector; its presence turns TLS on."""

    certificate: Text
    """File with the certificate chain, PEM."""
    key: Text
    """File with the private key, PEM."""
    client_ca: Text | None = None
    """File with the authorities that sign client certificates, PEM."""
    client_auth: Literal["none", "optional", "required"] = "none"
    """Ask clients for a certificate."""
    handshake_timeout_s: SomeSeconds = 5.0
    """Time for the handshake; a slow one holds memory of a stranger."""

    @model_validator(mode="after")
    def _authority_known(self) -> Self:
        if self.client_auth != "none" and self.client_ca is None:
            raise ValueError(f"client_auth {self.client_auth} needs client_ca")
        return self


def split_bind(bind: str) -> tuple[str, int]:
    """Split `host:port` or `[::1]:port`; Apollo's `tcp://` may stand before either."""
    host, colon, port = bind.removeprefix("tcp://").rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{bind!r}: write an IPv6 address in brackets, [::1]:61613")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= PORT_MAX):
        raise ValueError(f"{bind!r} is not host:port with a port up to {PORT_MAX}")
    return host, int(port)


class ConnectorSettings(Record):
    """One listening port."""

    id: Text
    """Its name, in logs and in `COVEY_CONNECTOR__<ID>__...`."""
    protocol: ProtocolName
    """stomp, amqp or http."""
    bind: Text
    """host:port; port 0 lets the system choose."""
    connections_max: SomeCount = 10_000
    """Connections of this port; the broker's own connections_max holds as well."""
    write_timeout_s: Seconds = 300.0
    """A peer that takes none of the bytes meant for it for so long is cut off; 0 = never. Long,
    because a consumer may think about one message while the next ones wait in its socket."""
    proxy_protocol: bool = False
    """A load balancer tells with the PROXY protocol (version 2) who connects; nobody else may reach
    the port then. Not for HTTP with TLS."""
    tls: TlsSettings | None = None
    """Certificate and key; unset: no TLS."""
    stomp: StompSettings = StompSettings()
    """STOMP options."""
    amqp: AmqpSettings = AmqpSettings()
    """AMQP options."""
    http: HttpSettings = HttpSettings()
    """HTTP options."""

    @property
    def host(self) -> str:
        """The host part of `bind`."""
        return split_bind(self.bind)[0]

    @property
    def port(self) -> int:
        """The port part of `bind`."""
        return split_bind(self.bind)[1]

    @field_validator("bind")
    @classmethod
    def _bindable(cls, bind: str) -> str:
        split_bind(bind)
        return bind

    @model_validator(mode="after")
    def _speaks_its_options(self) -> Self:
        if self.proxy_protocol and self.protocol == "http" and self.tls is not None:
            raise ValueError(f"connector {self.id}: proxy_protocol with TLS is not for http")
        for name in SPOKEN:
            if name in self.model_fields_set and name not in SPOKEN[self.protocol]:
                raise ValueError(
                    f"connector {self.id} has {name} options but speaks {self.protocol}"
                )
        return self
