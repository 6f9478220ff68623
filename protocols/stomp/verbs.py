"""Verbs: what each client frame but SEND does.

There is one function a verb. Its parameters are the session, the frame and the frame's decoded
headers; `versions.check` has found the required headers. The function of CONNECT gets the engine,
because there is no session yet. Any BrokerError raised here ends the connection with an ERROR. A
RECEIPT is sent when what the frame asked for is done and safe.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from covey import __version__
from covey.core.errors import ProtocolError, RefusedError
from covey.core.host.access import check_one_group
from covey.core.host.subscription import Subscription
from covey.core.jobs.job import Job
from covey.core.management.admin import Admin
from covey.core.model.consumer import Consumer, Window
from covey.core.naming.destination import Destination, Kind
from covey.core.publishing.fences import parse_fence
from covey.core.queue.purge import Purge
from covey.core.queue.queue import Queue
from covey.core.security.users import Identity, Verb, authorise
from covey.protocols.stomp import ack as acks
from covey.protocols.stomp.consumer import StompConsumer
from covey.protocols.stomp.frame import Frame
from covey.protocols.stomp.heartbeat import Heartbeat
from covey.protocols.stomp.message_frame import MessageFrames
from covey.protocols.stomp.session import StompSession
from covey.protocols.stomp.settings import buffer_size, full_limits, typed_name
from covey.protocols.stomp.subscribe import (
    AckMode,
    Credit,
    SubscribeHeaders,
    read,
    read_durable_name,
)
from covey.protocols.stomp.versions import Version, negotiate

if TYPE_CHECKING:
    from covey.protocols.stomp.engine import StompEngine

Headers = dict[str, str]
WAIT_HEADER: Final = "covey-wait-ms"  # of CONNECT: an ERROR ends a longer wait for room


def on_connect(engine: StompEngine, frame: Frame, headers: Headers) -> None:
    """Log a client in."""
    if engine.session is not None:
        raise ProtocolError("CONNECT on a connection that is connected already")
    version = negotiate(headers.get("accept-version"))
    if version is None:
        offered = headers.get("accept-version", "")[:64]
        raise ProtocolError(f"none of the versions {offered} is spoken here", "version")
    host: str | None = None
    if version is Version.V1_0:
        headers = frame.headers(version)
    else:
        host = headers.get("host")
        if host is None and engine.settings.require_host:
            raise ProtocolError("CONNECT without the header host")
    broker = engine.broker
    identity = _log_in(engine, headers)
    settings = engine.settings
    heartbeat = Heartbeat(
        headers.get("heart-beat"),
        engine.now,
        send_ms_min=settings.heartbeat_send_ms,
        receive_ms_wanted=settings.heartbeat_receive_ms,
        tolerance=settings.heartbeat_tolerance,
    )
    patience_s = _patience(headers.get(WAIT_HEADER, ""))
    # Nothing may be refused from here on: the engine does not have the session yet, so nobody would
    # drop it.
    core = broker.open(broker.host_named(host), identity, engine.now, engine)
    core.patience_s = patience_s
    core.client_id = headers.get("client-id", "")
    session = StompSession(engine, core, version, heartbeat)
    _welcome(engine, session)
    _receipt_after(session, headers)


def _log_in(engine: StompEngine, headers: Headers) -> Identity:
    login, passcode = headers.get("login", ""), headers.get("passcode", "")
    try:
        identity = engine.broker.users.login(
            login, passcode, is_loopback=engine.is_loopback, remote=engine.remote
        )
    except RefusedError:
        engine.answer_delay_s = engine.broker.limits.login_failed_wait_s
        raise
    authorise(identity, Verb.CONNECT, "broker")
    return identity


def _patience(wait_ms: str) -> float:
    """Return for how many seconds a client's message may wait for room; 0: for ever."""
    if not wait_ms:
        return 0.0
    if not (wait_ms.isascii() and wait_ms.isdigit() and len(wait_ms) < 10):
        raise ProtocolError(f"{WAIT_HEADER}:{wait_ms[:40]} is no number of milliseconds")
    return int(wait_ms) / 1000


def _welcome(engine: StompEngine, session: StompSession) -> None:
    settings = engine.settings
    version = session.version
    core = session.core
    engine.session = session
    engine.is_stranger = False
    engine.parser.version = version
    engine.parser.limits = full_limits(settings)
    engine.buffer_size = buffer_size(settings, len(engine.broker.sessions))
    core.protocol = f"stomp {version.text}"
    core.remote = engine.remote
    core.transactions_max = settings.transactions_max
    engine.report_login(core)
    engine.send_frame(
        "CONNECTED",
        [
            ("version", version.text),
            ("server", f"covey/{__version__}"),
            ("session", str(core.id)),
            ("host-id", core.host.id),
            ("user-id", core.identity.name),
            ("heart-beat", session.heartbeat.text),
        ],
    )


def on_subscribe(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Start a subscription; its RECEIPT precedes its first MESSAGE."""
    engine = session.engine
    core = session.core
    settings = engine.settings
    limits = engine.broker.limits
    asked = read(
        headers,
        default=Credit(settings.default_credit_count, settings.default_credit_bytes),
        socket_buffer=engine.socket_buffer,
        client_id=core.client_id,
        selector_length_max=limits.selector_length_max,
        selector_depth_max=limits.selector_depth_max,
    )
    places = session.names.destinations(typed_name(headers, settings), allow_patterns=True)
    is_one = len(places) == 1 and not places[0].is_pattern
    if asked.from_seq is not None and not is_one and not asked.is_look:
        raise RefusedError("from-seq needs one destination without wildcards", "invalid")
    if asked.group:
        check_one_group(places)
    if asked.trim_to:
        if not (is_one and asked.is_browser):
            raise RefusedError("covey-trim-to needs browser:true and one destination", "invalid")
        authorise(core.identity, Verb.CONSUME, str(places[0]))
    if asked.durable_name:
        places = (_durable(session, asked, places),)
    if asked.is_browser and any(place.kind is Kind.TOPIC for place in places):
        raise RefusedError("a topic keeps nothing that could be browsed", "invalid")
    reads_many = not (is_one or asked.durable_name)
    subscription = _make_subscription(session, asked, reads_many=reads_many)
    job: Job = engine.broker.subscribe(
        core,
        subscription,
        places,
        engine.now,
        is_browser=asked.is_browser,
        is_waited_for=True,
    )
    open_window = _opener(session, subscription, asked)

    def answer() -> None:
        if not subscription.is_ending:
            _receipt_after(session, headers)
            session.when_safe(open_window)

    source = next(iter(subscription.consumers)) if asked.trim_to else None
    if isinstance(source, Queue):
        job = Purge(source, asked.trim_to, core)
        engine.broker.jobs.begin(job, is_waited_for=True)
    job.then(answer)


def _opener(
    session: StompSession, subscription: Subscription, asked: SubscribeHeaders
) -> Callable[[], None]:
    """Return the call that starts deliveries.

    It is made after the RECEIPT, which may have to wait for earlier RECEIPTs.
    """
    engine = session.engine

    def open_window() -> None:
        if session.core.subscriptions.get(asked.id) is not subscription:
            return  # the subscription has ended meanwhile
        window = subscription.window
        window.is_paused = engine.is_paused
        window.reconsider()
        if asked.is_browser and asked.browse_ends and not subscription.consumers:
            frames = MessageFrames(asked.shown_id, session.version)
            engine.send(frames.write_notice([("browser", "end")]))
        engine.broker.wake()

    return open_window


def _make_subscription(
    session: StompSession, asked: SubscribeHeaders, *, reads_many: bool
) -> Subscription:
    credit = asked.credit
    is_automatic = asked.ack is AckMode.AUTO and not credit.is_explicit
    window = Window(credit.count, credit.size, is_automatic=is_automatic)
    window.is_paused = True
    frames = MessageFrames(
        asked.shown_id,
        session.version,
        seq_name=asked.include_seq,
        counter_name=session.engine.settings.add_redeliveries_header or "",
    )

    def make() -> Consumer:
        return StompConsumer(session, asked, window, frames, reads_many=reads_many)

    subscription = Subscription(session.core, asked.id, window, make)
    subscription.lost = partial(session.engine.fail_later, receipt=None)
    subscription.buffer_size = session.engine.buffer_size
    subscription.matches_zero = session.engine.settings.descendant_matches_zero
    subscription.is_lasting = not (asked.is_browser and asked.browse_ends)
    return subscription


def _durable(
    session: StompSession, asked: SubscribeHeaders, places: tuple[Destination, ...]
) -> Destination:
    """Create, re-attach to, or change a durable subscription; return its destination."""
    name = session.names.syntax.durable(asked.durable_name)
    engine = session.engine
    broker = engine.broker
    verb = Verb.BROWSE if asked.is_browser else Verb.CONSUME
    broker.check_subscription(session.core, asked.id, (name,), verb)  # before anything is changed
    topics = session.names.syntax.lasting(places)
    broker.make_durable(session.core, name.name, topics, asked.selector, engine.now)
    return name


def on_unsubscribe(session: StompSession, frame: Frame, headers: Headers) -> None:
    """End a subscription; with persistent:true, delete the durable subscription of that name."""
    engine = session.engine
    core = session.core
    name = headers.get("id") or headers.get("destination", "")
    durable_name = read_durable_name(headers, name, core.client_id)

    def finish() -> None:
        if durable_name:
            durable = session.names.syntax.durable(durable_name)
            admin = Admin(engine.broker, core.host, core.identity, core.protocol, core)
            admin.delete_durable(durable.name)
        _receipt_after(session, headers)

    if name in core.subscriptions:
        after = session.holding.forgetting(name)
        leave = engine.broker.unsubscribe(core, name, engine.now, is_waited_for=True, after=after)
        if leave.is_over:
            finish()
        else:
            leave.then(engine.guarded(finish))
    elif session.has_ended(name):
        finish()
    elif not durable_name:
        raise RefusedError(f"there is no subscription {name}", "not-found")
    else:
        finish()


def on_begin(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Start a transaction."""
    session.engine.broker.transactions.begin(session.core, headers["transaction"])
    _receipt_after(session, headers)


def on_commit(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Commit a transaction; then send the RECEIPTs of its frames, and the COMMIT's last."""
    name = headers["transaction"]
    engine = session.engine
    transactions = engine.broker.transactions
    answers = transactions.running(session.core, name).answers
    receipt = headers.get("receipt")
    if receipt is not None:
        answers.append(session.receipts.written(receipt))
    done = session.receipts.sender(answers) if answers else None
    text = headers.get("covey-fence")
    fence = None if text is None else parse_fence(session.core.identity.name, text)
    after = session.holding.committing(name)

    def refused(error: RefusedError) -> None:
        engine.fail_later(error, receipt)

    transactions.commit(session.core, name, engine.now, done, refused, after, fence)


def on_abort(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Undo a transaction."""
    name = headers["transaction"]
    engine = session.engine
    job = engine.broker.transactions.abort(session.core, name, engine.now)
    session.holding.aborted(name)
    job.then(lambda: _receipt_after(session, headers))


def on_disconnect(session: StompSession, frame: Frame, headers: Headers) -> None:
    """Close the connection; the RECEIPT leaves when everything that came before is safe."""
    engine = session.engine
    receipt = headers.get("receipt")
    if receipt is None:
        engine.close()
        return
    send = session.receipts.sender([session.receipts.written(receipt)])

    def finish() -> None:
        send()
        engine.close()

    session.is_leaving = True
    session.when_safe(finish)


def _receipt_after(session: StompSession, headers: Headers) -> None:
    """Send the RECEIPT when all that this client did is safe, in the order of the frames."""
    receipt = headers.get("receipt")
    if receipt is not None:
        session.when_safe(session.receipts.sender([session.receipts.written(receipt)]))


VERBS: dict[str, Callable[[StompSession, Frame, Headers], None]] = {
    "SUBSCRIBE": on_subscribe,
    "UNSUBSCRIBE": on_unsubscribe,
    "ACK": acks.on_ack,
    "NACK": acks.on_nack,
    "BEGIN": on_begin,
    "COMMIT": on_commit,
    "ABORT": on_abort,
    "DISCONNECT": on_disconnect,
}
