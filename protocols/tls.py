"""TLS: encrypted connections, a connector's certificates, and whose certificate a peer showed.

`Secured` stands between a socket and a connection, with Python's ssl and two buffers in memory.

To the socket it is a protocol, to the connection a transport. The event loop's own TLS would need
a read buffer of 256 KiB for each connection, and does not tell how many written bytes still wait
for the peer.

What bounds its memory:
- At most one buffer is read from a socket in a turn of the loop. Nothing is read while the
  connection does not read, or while the peer does not take TLS's own answers (new keys).
- Only as much is encrypted as the socket takes, a piece at a time.

The handshake has a time limit. Its end is reported once: by `secured`, or by `failed` with a cause.
A peer may close without TLS's farewell (close_notify). That is a normal end, since each protocol
marks the ends of its own frames.

`make_context` turns a connector's certificates into a context: TLS 1.2 or newer, by OpenSSL. A file
that cannot be used is refused at start with its name. A client's certificate is checked against
`client_ca` alone: a certificate that it has not signed, or that is expired, fails the handshake.
The certificate's common name is the user that AMQP's EXTERNAL logs in. A certificate with several
common names stands for no user.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final, cast

from covey.config.settings import TlsSettings
from covey.protocols.connection import Connection

# Bytes encrypted at once: a batch of the usual size, and a small part of a large one.
WRITE_SIZE = 256 * 1024


class Secured(asyncio.BufferedProtocol):
    """One socket with TLS."""

    __slots__ = (
        "_buffer",
        "_connection",
        "_failed",
        "_incoming",
        "_is_blocking",
        "_is_clogged",
        "_is_closing",
        "_is_ending",
        "_is_paused",
        "_is_reading",
        "_is_shaking",
        "_loop",
        "_outgoing",
        "_rest",
        "_secured",
        "_socket",
        "_timer",
        "_tls",
    )

    def __init__(
        self,
        context: ssl.SSLContext,
        *,
        buffer: memoryview,
        timeout_s: float,
        secured: Callable[[Secured], None],
        failed: Callable[[Secured, Exception], None],
    ) -> None:
        """Wait for a socket; `secured` is to call `join`, or `abort`."""
        self._loop = asyncio.get_running_loop()
        self._buffer = buffer
        self._secured = secured
        self._failed = failed
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._timer = self._loop.call_later(timeout_s, self._time_out)
        self._rest = memoryview(b"")  # bytes still to be encrypted
        self._is_shaking = True
        self._is_reading = True  # the socket is read
        self._is_paused = False  # the connection does not read
        self._is_clogged = False  # the socket does not take what is encrypted
        self._is_blocking = False  # the connection was told to pause writing
        self._is_ending = False  # the farewell is to be sent after the rest
        self._is_closing = False

    def join(self, connection: Connection) -> None:
        """Serve a connection from now on."""
        self._connection = connection
        connection.join(self)
        self._loop.call_soon(self._read)  # bytes that came with the end of the handshake

    def certificate(self) -> Mapping[str, object] | None:
        """Return the peer's certificate if one was shown and found good."""
        return self._tls.getpeercert()

    # The socket's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the peer's first word."""
        self._socket = cast(asyncio.Transport, transport)
        self._socket.set_write_buffer_limits(high=0)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Lend the shared buffer: its bytes are taken before another connection can use it."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Take the bytes in the buffer; if it was full, let other connections have their turn."""
        if self._is_shaking:
            self._incoming.write(self._buffer[:nbytes])
            self._shake_hands()
        elif self._connection is not None and self._is_ending:
            self._connection.receive(self._buffer[:nbytes].tobytes())  # to be thrown away
        elif self._connection is not None:
            self._incoming.write(self._buffer[:nbytes])
            self._read()
        if nbytes == len(self._buffer) and self._is_reading and not self._is_closing:
            self._is_reading = False
            self._the_socket.pause_reading()
            self._loop.call_soon(self._steer)

    def eof_received(self) -> bool:
        """Pass on that nothing more will come."""
        self._is_paused = True
        self._give_up(EOFError())
        if self._connection is not None:
            self._connection.eof_received()
        return True

    def pause_writing(self) -> None:
        """Encrypt nothing more: the peer is slow."""
        self._is_clogged = True

    def resume_writing(self) -> None:
        """Go on: the peer has taken everything."""
        self._is_clogged = False
        self._flush()
        self._encrypt()
        self._steer()
        is_free = not self._rest and not self._is_clogged
        if self._connection is not None and self._is_blocking and is_free:
            self._is_blocking = False
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass on that it is over."""
        self._socket = None
        self._is_closing = True
        self._give_up(exc or EOFError())
        if self._connection is not None:
            self._connection.connection_lost(exc)

    # The connection's side.

    def write(self, data: bytes) -> None:
        """Encrypt and send, or keep what the socket does not take."""
        assert not self._rest, "writing is paused while something waits"
        self._rest = memoryview(data)
        self._encrypt()
        if self._connection is not None and (self._rest or self._is_clogged):
            self._is_blocking = True
            self._connection.pause_writing()

    def write_eof(self) -> None:
        """Say farewell."""
        self._is_ending = True
        self._encrypt()

    def close(self) -> None:
        """Say farewell and close."""
        self._is_closing = True
        self.write_eof()

    def abort(self) -> None:
        """Close at once; tell neither the peer nor `failed`."""
        self._is_closing = True
        self._is_shaking = False
        self._timer.cancel()
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        """Return True if the transport is closed, or about to be."""
        return self._is_closing

    def pause_reading(self) -> None:
        """Hand no more bytes to the connection."""
        self._is_paused = True
        self._steer()

    def resume_reading(self) -> None:
        """Go on, first with the bytes that came meanwhile."""
        self._is_paused = False
        self._loop.call_soon(self._read)

    def get_write_buffer_size(self) -> int:
        """Count the bytes that wait for the peer, encrypted or not."""
        waiting = 0 if self._socket is None else self._socket.get_write_buffer_size()
        return len(self._rest) + self._outgoing.pending + waiting

    # The handshake.

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # the alert that says why
            self._give_up(error)
        else:
            self._flush()
            self._timer.cancel()
            self._is_shaking = False
            self._secured(self)

    def _time_out(self) -> None:
        self._give_up(TimeoutError())

    def _give_up(self, cause: Exception) -> None:
        """End a handshake that has failed."""
        if not self._is_shaking:
            return
        self._is_shaking = False
        self._is_closing = True
        self._timer.cancel()
        if self._socket is not None:
            self._socket.close()
        self._failed(self, cause)

    # Bytes.

    def _read(self) -> None:
        """Decrypt what there is and hand it in, as long as the connection reads."""
        connection = self._connection
        assert connection is not None
        try:
            while not (self._is_paused or self._is_ending or self._is_closing):
                data = self._tls.read(len(self._buffer))
                if data:
                    connection.receive(data)
                else:  # the peer's farewell
                    self.eof_received()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:  # what came is no TLS: a stream that breaks is a normal end
            self.abort()
        self._flush()  # TLS's own answers
        self._steer()

    def _encrypt(self) -> None:
        """Encrypt and send until the socket takes no more; after the rest, send the farewell."""
        try:
            while self._rest and not self._is_clogged:
                sent = self._tls.write(self._rest[:WRITE_SIZE])
                self._rest = self._rest[sent:]
                self._flush()
        except ssl.SSLError:  # the peer has broken it off
            self.abort()
        if self._is_ending and not self._rest and not self._is_clogged:
            self._say_farewell()

    def _say_farewell(self) -> None:
        if self._socket is None:
            return
        with suppress(ssl.SSLError):  # ssl waits for the peer's farewell, which may never come
            self._tls.unwrap()
        self._flush()
        if self._is_closing:
            self._socket.close()
        else:
            self._socket.write_eof()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._is_clogged and self._socket is not None:
            self._socket.write(self._outgoing.read())

    def _steer(self) -> None:
        """Read the socket if the connection reads and the peer takes TLS's own answers."""
        wants = not self._is_paused and not (self._is_clogged and self._outgoing.pending)
        if wants is self._is_reading or self._is_closing:
            return
        self._is_reading = wants
        if wants:
            self._the_socket.resume_reading()
        else:
            self._the_socket.pause_reading()

    @property
    def _the_socket(self) -> asyncio.Transport:
        assert self._socket is not None
        return self._socket


VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
COMMON_NAME: Final = "commonName"
# OpenSSL's names for bytes that are not TLS: it takes a STOMP CONNECT for an "https proxy request".
NOT_TLS: Final = ("HTTP_REQUEST", "HTTPS_PROXY_REQUEST", "WRONG_VERSION_NUMBER")


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Read the files; raises OSError that names a file which cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # a peer could make us compute for nothing
    try:
        context.load_cert_chain(settings.certificate, settings.key, _no_passphrase)
    except (OSError, ValueError) as error:
        raise OSError(
            f"TLS certificate {settings.certificate} with key {settings.key}: {_cause(error)}"
        ) from error
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise OSError(f"TLS client_ca {settings.client_ca}: {_cause(error)}") from error
    context.verify_mode = VERIFY[settings.client_auth]
    return context


def certificate_name(certificate: Mapping[str, object] | None) -> str | None:
    """Return the one common name of a checked certificate, in the form of `getpeercert`."""
    subject = (certificate or {}).get("subject", ())
    assert isinstance(subject, tuple)
    names = [value for part in subject for key, value in part if key == COMMON_NAME]
    return str(names[0]) if len(names) == 1 else None


def handshake_failure(error: Exception) -> str:
    """Say in a few words why a handshake failed; never more than OpenSSL's own reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in NOT_TLS:
        return "the peer does not speak TLS"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "not TLS").lower().replace("_", " ")
    return "no handshake in time" if isinstance(error, TimeoutError) else "the peer went away"


def _no_passphrase() -> str:
    """Refuse a key with a passphrase: OpenSSL would ask at the terminal, and the broker hang."""
    raise ValueError("the key has a passphrase; the broker needs one without")


def _cause(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and error.reason in NOT_TLS:
        return "the peer does not speak TLS"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "not PEM").lower().replace("_", " ")
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
