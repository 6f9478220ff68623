"""Options of the data source `covey`: read once, on the driver; each error names its option.

Names are Kafka's where Kafka has the same option (`subscribe`, `startingOffsets`, ...). Spark
ignores upper and lower case in them. An unknown name is refused: a misspelt `failOnDataLoss` must
not look as if it were set.

`commit=trim` removes the messages that were processed. So it must read every message, from the
earliest on. It allows no other start and no selector, or it would remove messages that nobody has
read.

`startingTimestamp` is in milliseconds, as the header `timestamp` of the messages. A stream that
waits for `minOffsetsPerTrigger` messages waits no longer than `maxTriggerDelay` for them.

An option of a job names a broker and a destination in one text (`Address`):

    covey://[user[:password]@]host[:port][/destination]

    covey://broker:61613/orders           the queue orders
    covey://alice@broker/topic/news       a topic; the password comes from COVEY_PASSWORD

Characters that are special in a URL are percent-encoded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final
from urllib.parse import unquote, urlsplit

from covey.client.place import DEFAULT_PASSWORD, DEFAULT_USER, Place, parse_place
from covey.client.stomp import PORT
from covey.pipeline.datasource.offsets import EARLIEST, LATEST, Offsets, Spec
from covey.pipeline.datasource.patience import RETRY_INTERVAL_MS, RETRY_TIMEOUT_MS, Patience
from covey.pipeline.errors import PipelineError

ARROW_BATCH_ROWS: Final = 10_000
TRANSACTION_ROWS: Final = 1_000  # few enough for one turn of the broker: others must not wait long
TRIGGER_DELAY_S: Final = 900.0  # Kafka's default
UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}

LOGIN: Final = ("brokers", "user", "password", "virtualHost")
RETRYING: Final = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "retryTimeoutMs")
SHARED: Final = (*LOGIN, *RETRYING, "groupHeader")
READING: Final = (
    *SHARED,
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "startingTimestamp",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "failOnDataLoss",
    "includeHeaders",
    "includeValue",
    "selector",
    "commit",
    "arrowBatchRows",
    "pushFilters",
)
WRITING: Final = (
    *SHARED,
    "queue",
    "idColumn",
    "groupColumn",
    "orderColumn",
    "persistent",
    "exactlyOnce",
    "transactionRows",
    "txnAppId",
    "txnVersion",
)
# These are refused where they have no effect, or they would look as if they limited something.
STREAMS_ONLY: Final = (
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
)
BATCHES_ONLY: Final = ("endingOffsets", "pushFilters")
SPARKS_OWN: Final = frozenset(("checkpointlocation", "queryname", "path"))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What to read, from where, and in which portions."""

    places: tuple[Place, ...]
    patience: Patience
    group_header: str
    subscribe: tuple[str, ...]
    pattern: str
    starting: Spec
    starting_ms: int  # the time to begin at; 0: begin at `starting`
    ending: Spec
    rows_max: int  # of one trigger; 0: no limit, also below
    bytes_max: int
    rows_min: int  # a batch waits for this many, but no longer than the delay
    delay_s: float
    partitions_min: int
    fails_on_loss: bool
    has_headers: bool
    has_value: bool
    selector: str
    is_trimming: bool
    batch_rows: int
    pushes_filters: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where to send rows, and which columns say what."""

    places: tuple[Place, ...]
    patience: Patience
    group_header: str
    queue: str  # "": the column `queue` names it
    id_column: str
    group_column: str
    order_column: str
    is_persistent: bool
    is_fenced: bool  # sent in transactions, each of which the broker takes only once
    piece_rows: int  # of one transaction
    application: str  # "", or the user's name for this write and its repetitions
    version: int


def read_options(given: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    """Read the options of a source; raises PipelineError that names the one that is wrong."""
    known = Given(given, READING)
    for name in BATCHES_ONLY if is_stream else STREAMS_ONLY:
        if known.has(name):
            raise PipelineError(f"{name}: it is for a {'batch' if is_stream else 'stream'} only")
    trims = known.choice("commit", ("none", "trim")) == "trim"
    options = ReadOptions(
        places=known.places(),
        patience=known.patience(),
        group_header=known.text("groupHeader"),
        subscribe=known.names("subscribe"),
        pattern=known.text("subscribePattern"),
        starting=known.offsets("startingOffsets", LATEST if is_stream and not trims else EARLIEST),
        starting_ms=known.number("startingTimestamp", 0),
        ending=known.offsets("endingOffsets", LATEST),
        rows_max=known.number("maxOffsetsPerTrigger", 0),
        bytes_max=known.number("maxBytesPerTrigger", 0),
        rows_min=known.number("minOffsetsPerTrigger", 0),
        delay_s=known.seconds("maxTriggerDelay", TRIGGER_DELAY_S),
        partitions_min=known.number("minPartitions", 0),
        fails_on_loss=known.flag("failOnDataLoss", default=True),
        has_headers=known.flag("includeHeaders", default=True),
        has_value=known.flag("includeValue", default=True),
        selector=known.text("selector"),
        is_trimming=trims,
        batch_rows=known.number("arrowBatchRows", ARROW_BATCH_ROWS),
        pushes_filters=known.flag("pushFilters", default=False),
    )
    if options.starting_ms and known.has("startingOffsets"):
        raise PipelineError("startingTimestamp: give either it or startingOffsets")
    if known.has("maxTriggerDelay") and not options.rows_min:
        raise PipelineError("maxTriggerDelay: it goes with minOffsetsPerTrigger")
    _check(options, is_stream=is_stream)
    return options


def write_options(given: Mapping[str, str], columns: list[str]) -> WriteOptions:
    """Read the options of a sink for rows of these columns."""
    known = Given(given, WRITING)
    options = WriteOptions(
        places=known.places(),
        patience=known.patience(),
        group_header=known.text("groupHeader", "message_group"),
        queue=known.text("queue"),
        id_column=known.column("idColumn", "message_id", columns),
        group_column=known.column("groupColumn", "group_id", columns),
        order_column=known.column("orderColumn", "seq", columns),
        is_persistent=known.flag("persistent", default=True),
        is_fenced=known.flag("exactlyOnce", default=True),
        piece_rows=known.number("transactionRows", TRANSACTION_ROWS),
        application=known.text("txnAppId"),
        version=known.count("txnVersion", 0),
    )
    if known.has("txnVersion") != bool(options.application):
        raise PipelineError("txnAppId: it goes with txnVersion, as both or none")
    if options.application and not options.is_fenced:
        raise PipelineError("exactlyOnce=false: then txnAppId would do nothing")
    if not options.queue and "queue" not in columns:
        raise PipelineError("queue: name the queue to write to, as an option or as a column")
    if "value" not in columns:
        raise PipelineError(f"there is no column value to send; there are {', '.join(columns)}")
    return options


def _check(options: ReadOptions, *, is_stream: bool) -> None:
    if bool(options.subscribe) == bool(options.pattern):
        raise PipelineError("subscribe: give either it or subscribePattern")
    for name in options.subscribe:
        if name.startswith("/topic/"):
            raise PipelineError(
                f"subscribe={name}: a topic keeps nothing that could be read again; read a"
                " durable subscription of it, /dsub/NAME"
            )
    if options.rows_max and options.bytes_max:
        raise PipelineError("maxBytesPerTrigger: give either it or maxOffsetsPerTrigger")
    if 0 < options.rows_max < options.rows_min:
        raise PipelineError("minOffsetsPerTrigger: it is more than maxOffsetsPerTrigger")
    if not options.is_trimming:
        return
    if not is_stream:
        raise PipelineError("commit=trim is for streams: a batch does not know when it is safe")
    if options.selector or options.starting_ms or options.starting != EARLIEST:
        late = "startingTimestamp" if options.starting_ms else "startingOffsets"
        which = "selector" if options.selector else late
        raise PipelineError(f"{which}: commit=trim would remove what is left out by it")


class Given:
    """Options as given, with a reader for each kind of value."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        names = {name.lower(): name for name in known}
        self._values: dict[str, str] = {}
        for key, value in given.items():
            name = names.get(key.lower())
            if name is not None:
                self._values[name] = str(value).strip()
            elif key.lower() not in SPARKS_OWN:
                near = get_close_matches(key.lower(), list(names), 1)
                hint = f"; is {names[near[0]]} meant?" if near else ""
                raise PipelineError(f"{key}: there is no such option{hint}")

    def has(self, name: str) -> bool:
        """Return True if an option is given."""
        return name in self._values

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return self._values.get(name) or default

    def names(self, name: str) -> tuple[str, ...]:
        """Return the names of a list."""
        found = [one.strip() for one in self.text(name).split(",")]
        return tuple(dict.fromkeys(one for one in found if one))

    def number(self, name: str, default: int) -> int:
        """Return a number above 0."""
        text = self._values.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and int(text) > 0):
            raise PipelineError(f"{name}={text}: a whole number above 0 is meant")
        return int(text)

    def count(self, name: str, default: int) -> int:
        """Return a number, 0 or above."""
        return 0 if self._values.get(name) == "0" else self.number(name, default)

    def seconds(self, name: str, default: float) -> float:
        """Return a time as 500ms, 30s, 15m or 1h."""
        text = self._values.get(name)
        if text is None:
            return default
        unit = text.lstrip("0123456789")
        digits = text.removesuffix(unit)
        if not digits.isascii() or not digits or unit not in UNITS_S:
            raise PipelineError(f"{name}={text}: a time as 500ms, 30s, 15m or 1h is meant")
        return int(digits) * UNITS_S[unit]

    def patience(self) -> Patience:
        """Return how long, and how often, to try a broker that does not answer."""
        tries, interval, total = RETRYING
        return Patience(
            self.count(tries, -1),
            self.number(interval, RETRY_INTERVAL_MS) / 1000,
            self.count(total, RETRY_TIMEOUT_MS) / 1000,
        )

    def choice(self, name: str, words: tuple[str, ...]) -> str:
        """Return one of the words, the first if none is given."""
        text = self.text(name, words[0]).lower()
        if text not in words:
            raise PipelineError(f"{name}={text}: {' or '.join(words)} is meant")
        return text

    def flag(self, name: str, *, default: bool) -> bool:
        """Return true or false."""
        words = ("true", "false") if default else ("false", "true")
        return self.choice(name, words) == "true"

    def column(self, name: str, default: str, columns: list[str]) -> str:
        """Return a column's name; "" if it is the default name and there is no such column."""
        text = self._values.get(name)
        if text is None:
            return default if default in columns else ""
        if text and text not in columns:
            raise PipelineError(f"{name}={text}: there are only the columns {', '.join(columns)}")
        return text

    def offsets(self, name: str, default: str) -> Spec:
        """Return `earliest`, `latest`, or numbers by queue."""
        text = self.text(name, default)
        if text in (EARLIEST, LATEST):
            return text
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict) or not all(_is_number(one) for one in found.values()):
            raise PipelineError(
                f'{name}={text}: {EARLIEST}, {LATEST} or {{"queue": number, ...}} is meant'
            )
        return Offsets(found)

    def places(self) -> tuple[Place, ...]:
        """Return the brokers, each with the login."""
        user = self.text("user", DEFAULT_USER)
        password = self._values.get("password") or os.environ.get("COVEY_PASSWORD", "")
        if not password and user == DEFAULT_USER:
            password = DEFAULT_PASSWORD
        found: list[Place] = []
        for address in self.names("brokers") or ("127.0.0.1",):
            try:
                place = parse_place(address, PORT)
            except ValueError as error:
                raise PipelineError(f"brokers={address}: {error}") from None
            if "@" in address:
                raise PipelineError("brokers: the login goes into user and password")
            host = self.text("virtualHost")
            found.append(replace(place, user=user, password=password, virtual_host=host))
        return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= -2


SCHEME: Final = "covey"
KINDS: Final = ("queue", "topic", "dsub")


@dataclass(frozen=True, slots=True)
class Address:
    """A broker's STOMP address, a login, and a destination or none."""

    brokers: str
    user: str
    password: str
    destination: str  # a name without a prefix is a queue

    def options(self) -> dict[str, str]:
        """Return the data source's options for the broker."""
        given = {"brokers": self.brokers, "user": self.user, "password": self.password}
        return {name: value for name, value in given.items() if value}


def parse_address(option: str, text: str) -> Address:
    """Read an address; raises PipelineError that names the option."""
    form = "covey://[user[:password]@]host[:port][/destination] is meant"
    try:
        parts = urlsplit(text)
        port = parts.port or PORT
    except ValueError:
        raise PipelineError(f"{option}: {form}") from None
    if parts.scheme != SCHEME or not parts.hostname:
        raise PipelineError(f"{option}: {form}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    path = unquote(parts.path).strip("/")
    kind, _, name = path.partition("/")
    return Address(
        f"{host}:{port}",
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        f"/{path}" if name and kind in KINDS[1:] else name if name and kind == KINDS[0] else path,
    )
