"""`covey shovel`: carry messages from a queue of one broker to a queue of another, in order.

Either broker may be another product's: STOMP and AMQP 1.0 are enough. One reader and one writer
keep the order of every group, and of the queue as a whole.

- A message is acknowledged at the source when the target has confirmed it (a STOMP receipt, an AMQP
  outcome). Nothing is lost, whoever dies: what was not acknowledged is in the source yet, at its
  old place, and the next run takes it up. What a kill leaves between the two comes twice.
- A message keeps its message-id, so a target queue with a `duplicate_window` takes it once.
- A connection that breaks is made again, for as long as `--retry` says.

A message without an id that survives (a foreign broker makes one for each delivery) cannot be known
again; then a repeated one is there twice.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from covey.cli.options import AsJson, messaging
from covey.cli.output import complain, progress, say
from covey.client.base import Delivery, Headers, MessageClient
from covey.client.errors import UnreachableError
from covey.client.stomp import StompClient, own_headers

TRANSACTION: Final = "shovel"
BATCH: Final = 100  # messages between two confirmations
GROUP_HEADERS: Final = ("message_group", "JMSXGroupID", "group-id")
RETRY_FIRST_S: Final = 0.2
RETRY_MOST_S: Final = 5.0
# Each broker reads the one that it knows: a window of one batch.
WINDOW: Final = (
    ("credit", f"{BATCH},0"),
    ("prefetch-count", str(BATCH)),
    ("activemq.prefetchSize", str(BATCH)),
    ("consumer-window-size", "-1"),
)


@dataclass(slots=True)
class Shovel:
    """One way from a queue to another."""

    read: Callable[[], MessageClient]
    write: Callable[[], MessageClient]
    source: str
    target: str
    is_one_by_one: bool  # AMQP: the client reads one message at a time
    selector: str = ""
    rate: float = 0
    moved: int = 0

    def carry(self, count: int, wait_s: float | None) -> Iterator[None]:
        """Carry messages until there are no more, and tell of each that has arrived."""
        with self.read() as reader, self.write() as writer:
            headers: Headers = [("ack", "client-individual"), *WINDOW]
            headers += [("selector", self.selector)] if self.selector else []
            reader.subscribe(self.source, headers)
            while not count or self.moved < count:
                batch = self._batch(reader, count - self.moved if count else BATCH, wait_s)
                if not batch:
                    return
                started = time.monotonic()
                self._write_all(writer, batch)
                for delivery in batch:
                    reader.ack(delivery)
                reader.confirm()
                self.moved += len(batch)
                yield from [None] * len(batch)
                if self.rate:
                    time.sleep(max(0.0, len(batch) / self.rate - (time.monotonic() - started)))

    def _write_all(self, writer: MessageClient, batch: list[Delivery]) -> None:
        """Write a batch; returns when the target answers for it.

        Over STOMP that is a transaction: the receipt of its COMMIT is the one word that every
        broker keeps for all that was sent.
        """
        if not isinstance(writer, StompClient):
            for delivery in batch:
                writer.send(self.target, kept_headers(delivery), delivery.body)
            writer.confirm()
            return
        writer.begin(TRANSACTION)
        for delivery in batch:
            headers = [*kept_headers(delivery), ("transaction", TRANSACTION)]
            writer.send(self.target, headers, delivery.body)
        writer.commit(TRANSACTION)

    def _batch(self, reader: MessageClient, room: int, wait_s: float | None) -> list[Delivery]:
        """Wait for one message, then take those that are there already."""
        size = 1 if self.is_one_by_one else min(BATCH, room)
        first = reader.message(wait_s)
        batch = [] if first is None else [first]
        while batch and len(batch) < size:
            delivery = reader.message(0.01)
            if delivery is None:
                break
            batch.append(delivery)
        return batch


def kept_headers(delivery: Delivery) -> Headers:
    """Return what a copy carries: the producer's headers, its id, its group by every name."""
    headers = [pair for pair in own_headers(delivery) if pair[0] not in GROUP_HEADERS]
    own = delivery.headers.get("message-id")
    message_id = delivery.headers.get("covey-message-id", own)
    headers += [("message-id", message_id)] if message_id else []
    groups = [delivery.headers[name] for name in GROUP_HEADERS if name in delivery.headers]
    if groups:
        headers += [("message_group", groups[0]), ("JMSXGroupID", groups[0])]
    return headers


def shovel(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="where they are")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="where they go")],
    from_place: Annotated[str, typer.Option("--from", metavar="PLACE", help="its broker")] = "",
    to_place: Annotated[str, typer.Option("--to", metavar="PLACE", help="its broker")] = "",
    from_amqp: Annotated[bool, typer.Option("--from-amqp", help="read over AMQP")] = False,
    to_amqp: Annotated[bool, typer.Option("--to-amqp", help="write over AMQP")] = False,
    count: Annotated[int, typer.Option(min=0, help="how many; 0 = all")] = 0,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="silence that means: no more; 0 = never")
    ] = 1.0,
    rate: Annotated[
        float, typer.Option(min=0, metavar="N", help="messages a second at most; 0 = no limit")
    ] = 0,
    selector: Annotated[str, typer.Option(metavar="SQL", help="only messages that match")] = "",
    retry: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="try again so long if a broker is away"),
    ] = 60,
    as_json: AsJson = False,
) -> None:
    """Carry messages to another broker or queue, in order; none is lost, whoever dies."""
    if (source, from_place, from_amqp) == (target, to_place, to_amqp):
        raise typer.BadParameter(f"{source} is where they are", param_hint="TARGET")
    job = Shovel(
        read=lambda: messaging(from_place, over_amqp=from_amqp),
        write=lambda: messaging(to_place, over_amqp=to_amqp),
        source=_destination(source, is_amqp=from_amqp),
        target=_destination(target, is_amqp=to_amqp),
        is_one_by_one=from_amqp,
        selector=selector,
        rate=rate,
    )
    for _ in progress(_persistent(job, count, wait or None, retry), "carrying", count or None):
        pass
    say(json.dumps({"moved": job.moved}) if as_json else f"{job.moved} moved")


def _persistent(job: Shovel, count: int, wait_s: float | None, retry_s: float) -> Iterator[None]:
    """Carry on over broken connections until one side has been away for too long."""
    away_since: float | None = None
    pause_s = RETRY_FIRST_S
    while True:
        try:
            for arrived in job.carry(count, wait_s):
                away_since, pause_s = None, RETRY_FIRST_S
                yield arrived
            return
        except UnreachableError as error:
            now = time.monotonic()
            away_since = now if away_since is None else away_since
            if now + pause_s > away_since + retry_s:
                raise
            complain(f"covey: {error}; {job.moved} moved so far, trying again")
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_MOST_S)


def _destination(name: str, *, is_amqp: bool) -> str:
    """Return a destination; over AMQP a bare name is an address as it stands."""
    return name if is_amqp or name.startswith("/") else f"/queue/{name}"
