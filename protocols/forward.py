"""Forward: connections between the brokers of a cluster, as bytes behind a PROXY v2 head.

A broker that does not serve the virtual host of a connection copies the connection's bytes to the
broker that does, the owner (`passing`, `relay`). It connects to the owner's `forward` port and
first says whose connection this is:

    PROXY v2 head     the client's address, and in a field of its own (FORWARDED) the rest: the
                      owner's key, the port's id, the virtual host, what was agreed on with the
                      client so far
    what was read     then all that the client says

A request of HTTP goes the same way: the field has only the key and the port's id, and then the
request follows (`protocols.request_stream`). A stream carries one request.

The field says who has logged in, and the port believes it. Therefore both sides show certificates
of the cluster's own authority (`[cluster.tls]`), unless the port listens on this machine alone. And
each broker has a key, random for each run, which only those know that can read the database: so
other users of the machine are not believed, and an address that another broker has by now is noted.

A connection is never passed on twice: a broker that has ceased to be the owner refuses it. When a
virtual host has another owner, the connections to the former one end (`ClusterOwners.look`). A
machine that lost its power does not say so, and its clients would wait for ever.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import Final, NamedTuple, cast
from weakref import WeakKeyDictionary

import structlog

from covey.config.connectors import TlsSettings, split_bind
from covey.core.broker.cluster import Cluster
from covey.core.errors import BrokerError, ProtocolError, RefusedError
from covey.core.storage.cluster import NodeRow
from covey.protocols.doorman import Passed
from covey.protocols.passing import Adoption, Owners, Stream, pack, unpack
from covey.protocols.proxy_v2 import HEAD_SIZE, Source, field_of, rest_size, write_head
from covey.protocols.relay import Upstream
from covey.protocols.tls import make_context

FORWARDED: Final = 0xE1  # one of the numbers for private fields (0xE0 to 0xEF)
CONNECT_S: Final = 2.0  # for the owner to answer
HEAD_S: Final = 5.0  # for a broker to say whose connection it is
READ_MAX: Final = 1024 * 1024  # bytes that a doorman may have read
HEADS_MAX: Final = 1000  # connections whose head is still being read
NOWHERE: Final = Source("0.0.0.0", 0)  # a request says itself where it comes from

Log = structlog.typing.FilteringBoundLogger
Answer = Callable[[str, Stream], Awaitable[None]]


class ForwardHead(NamedTuple):
    """What a broker says first on a connection to another one."""

    key: str
    """The owner's."""
    connector: str
    """The id of the port that is to serve what follows."""
    passed: Passed | None
    """Whose connection it is; None: a request follows."""
    rest: bytes
    """What was read beyond the head."""


def forward_head(key: str, connector: str, passed: Passed) -> bytes:
    """Write the head of a forwarded connection, and the client's bytes that were read already."""
    told, _, read = pack(connector, passed).partition(b"\n")
    fields = json.dumps({"key": key, "told": json.loads(told), "read": len(read)}).encode()
    source = Source(passed.peer.host, passed.peer.port)
    return write_head(source, source, ((FORWARDED, fields),)) + read


def request_head(key: str, connector: str) -> bytes:
    """Write the head of a stream that carries a request for the port of this id."""
    fields = json.dumps({"key": key, "request": connector}).encode()
    return write_head(NOWHERE, NOWHERE, ((FORWARDED, fields),))


def read_forward_head(data: bytes) -> ForwardHead | None:
    """Read such a head and the bytes that follow; return None if the head is not whole yet.

    Raises ProtocolError if the head makes no sense.
    """
    if len(data) < HEAD_SIZE:
        return None
    end = HEAD_SIZE + rest_size(data[:HEAD_SIZE])
    if len(data) < end:
        return None
    try:
        fields = json.loads(field_of(data[:HEAD_SIZE], data[HEAD_SIZE:end], FORWARDED))
        key = str(fields["key"])
        if "request" in fields:
            return ForwardHead(key, str(fields["request"]), None, data[end:])
        told, size = json.dumps(fields["told"]).encode(), int(fields["read"])
        if not 0 <= size <= READ_MAX:
            raise ProtocolError(f"{size} bytes were read, at most {READ_MAX} are taken")
        if len(data) < end + size:
            return None
        connector, passed = unpack(told + b"\n" + data[end : end + size])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ProtocolError("a head of a forwarded connection that cannot be read") from error
    return ForwardHead(key, connector, passed, data[end + size :])


class ClusterOwners(Owners):
    """The other brokers of a cluster."""

    def __init__(self, cluster: Cluster, tls: TlsSettings | None) -> None:
        """Prepare to connect to them; raises OSError if the certificates cannot be used."""
        self._cluster = cluster
        self._context = None if tls is None else client_context(tls)
        # The virtual host of each connection, and the epoch of the owner that it goes to.
        self._upstreams: WeakKeyDictionary[Upstream, tuple[str, int]] = WeakKeyDictionary()

    @property
    def open_count(self) -> int:
        """Return how many connections are passed on now."""
        return sum(1 for each in self._upstreams if each.transport is not None)

    def look(self) -> None:
        """End the connections to brokers that do not own the virtual host any more."""
        view = self._cluster.view(time.monotonic())
        epochs = {row.space: row.epoch for row in view.spaces}
        for upstream, (space, epoch) in list(self._upstreams.items()):
            if upstream.transport is not None and epochs.get(space, epoch) != epoch:
                upstream.transport.abort()

    def is_elsewhere(self, space: str) -> bool:
        """Return True if another broker serves a virtual host and takes connections for it."""
        owner = self._cluster.owner(space, time.monotonic())
        return owner is not None and bool(owner.address)

    @property
    def here(self) -> str:
        """Return this broker's name."""
        return self._cluster.node

    def place_of(self, space: str) -> str:
        """Return the name of the other broker that serves a virtual host, if requests reach it."""
        owner = self._cluster.owner(space, time.monotonic())
        return owner.node if owner is not None and owner.address else ""

    async def open_stream(self, place: str, connector: str) -> Stream:
        """Return a stream to another broker for one request."""
        owner = self._cluster.view(time.monotonic()).node(place)
        if owner is None or not owner.address:
            raise RefusedError(f"node {place} is not there now", "unavailable")
        host, port = split_bind(owner.address)
        async with _reaching(owner, f"node {place}"):
            reader, writer = await asyncio.open_connection(host, port, ssl=self._context)
        writer.write(request_head(owner.key, connector))
        return reader, writer

    async def connect(self, connector: str, passed: Passed, upstream: Upstream) -> None:
        """Connect the owner with an upstream, and say whose connection it is."""
        now = time.monotonic()
        row = self._cluster.view(now).space(passed.space)
        owner = self._cluster.owner(passed.space, now)
        if row is None or owner is None or not owner.address:
            raise RefusedError(self._cluster.whereabouts(passed.space, now), "unavailable")
        host, port = split_bind(owner.address)
        loop = asyncio.get_running_loop()
        async with _reaching(owner, f"virtual host {passed.space} is served by node {owner.node}"):
            await loop.create_connection(lambda: upstream, host, port, ssl=self._context)
        assert upstream.transport is not None
        upstream.transport.write(forward_head(owner.key, connector, passed))
        self._upstreams[upstream] = (passed.space, row.epoch)


@asynccontextmanager
async def _reaching(owner: NodeRow, whom: str) -> AsyncIterator[None]:
    """Give a broker CONNECT_S to answer; raises RefusedError that names it if it does not."""
    try:
        async with asyncio.timeout(CONNECT_S):
            yield
    except (OSError, TimeoutError) as error:
        cause = str(error) or f"no answer within {CONNECT_S:g} s"
        raise RefusedError(
            f"{whom}, which cannot be reached at {owner.address}: {cause}", "unavailable"
        ) from error


class ForwardPort:
    """The port where other brokers pass connections on to this one."""

    def __init__(
        self,
        address: str,
        tls: TlsSettings | None,
        key: str,
        adoption: Adoption,
        log: Log,
        answer: Answer | None = None,
    ) -> None:
        """Be ready to listen; raises OSError if the certificates cannot be used.

        Who does not know the `key` is not served. `answer` answers requests for the port of an id.
        """
        self._key = key.encode()
        self._answer = answer
        self._requests: set[asyncio.Task[None]] = set()
        self._address = address
        self._tls = tls
        self._context = None if tls is None else make_context(tls)
        self._adoption = adoption
        self._log = log
        self._heads: set[HeadReader] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """Take the port; raises OSError that names the port if that fails."""
        host, port = split_bind(self._address)
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._reader,
                host,
                port,
                ssl=self._context,
                ssl_handshake_timeout=None if self._tls is None else self._tls.handshake_timeout_s,
            )
        except OSError as error:
            cause = error.strerror or error
            raise OSError(f"cannot listen on {self._address} (forward): {cause}") from error
        self._log.info("listening", protocol="forward", address=self._address)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    def _reader(self) -> HeadReader:
        return HeadReader(self._taken, self._refused, self._heads)

    def _taken(self, reader: HeadReader, head: ForwardHead) -> None:
        assert reader.transport is not None
        transport = reader.transport
        if not compare_digest(head.key.encode("utf-8", "surrogatepass"), self._key):
            self._refused(reader, "it does not know this broker's key: who is it?")
            return
        if head.passed is None:
            self._ask(head.connector, transport, head.rest)
            return
        try:
            connection = self._adoption.connection_of(head.connector, head.passed)
        except BrokerError as error:
            self._refused(reader, str(error))
            return
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if head.rest:
            connection.receive(head.rest)

    def _ask(self, connector: str, transport: asyncio.Transport, rest: bytes) -> None:
        """Have a port answer the request that follows."""
        if self._answer is None:
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if rest:
            reader.feed_data(rest)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        task = loop.create_task(self._answered(connector, (reader, writer)))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _answered(self, connector: str, stream: Stream) -> None:
        assert self._answer is not None
        try:
            await self._answer(connector, stream)
        except Exception:  # one request's trouble stays its own
            self._log.exception("request_failed")
        finally:
            stream[1].close()

    def _refused(self, reader: HeadReader, cause: str) -> None:
        self._log.warning("not_adopted", cause=cause)
        if reader.transport is not None:
            reader.transport.abort()


Taken = Callable[["HeadReader", ForwardHead], None]


class HeadReader(asyncio.Protocol):
    """A connection of another broker until it has said whose it is."""

    def __init__(
        self, taken: Taken, refused: Callable[[HeadReader, str], None], heads: set[HeadReader]
    ) -> None:
        """Wait for the head; `heads` are all readers that still wait for theirs."""
        self.transport: asyncio.Transport | None = None
        self._taken = taken
        self._refused = refused
        self._heads = heads
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called when a broker has connected: give it HEAD_S to send the head."""
        self.transport = cast(asyncio.Transport, transport)
        if len(self._heads) >= HEADS_MAX:
            self._refused(self, "too many heads are under way")
            return
        self._heads.add(self)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(HEAD_S, self._refused, self, "it did not come in time")

    def data_received(self, data: bytes) -> None:
        """Take bytes until the head is whole."""
        self._data += data
        try:
            found = read_forward_head(self._data)
        except ProtocolError as error:
            self._done()
            self._refused(self, str(error))
            return
        if found is not None:
            self._done()
            self._taken(self, found)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when the connection is gone."""
        self._done()
        self.transport = None

    def _done(self) -> None:
        self._heads.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def client_context(tls: TlsSettings) -> ssl.SSLContext:
    """Return the TLS context with which a broker connects to another one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # whoever the cluster's own authority signs is a broker
    make_context(tls)  # raises an error that names a file which cannot be used
    context.load_cert_chain(tls.certificate, tls.key)
    context.load_verify_locations(tls.client_ca)
    return context
