"""`covey message`: send, receive, browse, move; over STOMP, the first three also over AMQP.

Single messages are known by their numbers: `show`, `delete`, `dead-letter` and `move --seq` ask the
broker itself, over AMQP. So does `retry`, which sends dead letters back to where they came from.

A destination is written as in STOMP (`/queue/a`, `/topic/b`, `/dsub/c`); a bare name is a queue.
Receiving takes one message at a time, so that nothing is held that is not printed. Moving is one
transaction per batch: a message is in one of both queues at any time, never in none.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from covey.cli.completion import queue_names
from covey.cli.options import (
    EXAMPLE,
    LOCAL,
    LONG_S,
    SEQ_OPTION,
    AsJson,
    Broker,
    DoneAsJson,
    EitherBroker,
    Noun,
    OverAmqp,
    QueueName,
    Reason,
    SeqCommand,
    managed,
    messaging,
    stomped,
)
from covey.cli.output import (
    BODY_SHOWN,
    SHOWN,
    Row,
    done,
    printable,
    progress,
    say,
    show,
    show_one,
    shown_message,
    told,
)
from covey.client.base import SEQ_HEADER, Delivery, Headers, MessageClient
from covey.client.errors import AnswerError
from covey.client.management import Management
from covey.client.stomp import StompClient, own_headers

CONFIRM_EVERY = 100  # messages sent between two receipts: few enough to see a refusal soon
MOVE_BATCH = 100  # messages of one transaction
ONE_AT_A_TIME = ("credit", "1,0,false")  # the next one comes when it is asked for
RATE_STEP_S = 0.1  # between two portions of a retry with a rate
STDIN = "-"

COLUMNS = ("seq", "group", "size", "body")
DEAD_COLUMNS = ("seq", "group", "size", "origin", "number", "failures", "reason", "body")
GROUP_HEADERS = ("message_group", "JMSXGroupID", "group-id", "covey-dead-group")
DEAD_HEADERS = {
    "origin": "covey-dead-queue",
    "number": "covey-dead-seq",
    "failures": "covey-dead-count",
    "reason": "covey-dead-reason",
}

Target = Annotated[
    str,
    typer.Argument(
        metavar="DESTINATION",
        help="NAME of a queue, /topic/NAME or /dsub/NAME",
        autocompletion=queue_names,
    ),
]
SEQ_HELP = "the numbers of messages"
Seqs = Annotated[list[int], typer.Option(SEQ_OPTION, min=1, metavar="N...", help=SEQ_HELP)]
SomeSeqs = Annotated[
    list[int] | None, typer.Option(SEQ_OPTION, min=1, metavar="N...", help=SEQ_HELP)
]
Selector = Annotated[str, typer.Option(metavar="SQL", help="only messages that match")]

app = Noun(help="Send, read and move messages.")


@app.command(epilog=EXAMPLE.format("covey message send orders 'create it' --group order-17"))
def send(
    target: Target,
    body: Annotated[str, typer.Argument(metavar="BODY", help="the message's text")] = "",
    file: Annotated[
        str, typer.Option(metavar="FILE", help="the body comes from here; - is standard input")
    ] = "",
    lines: Annotated[bool, typer.Option("--lines", help="one message for each line")] = False,
    count: Annotated[int, typer.Option(min=1, help="how often to send it")] = 1,
    group: Annotated[str, typer.Option(metavar="ID", help="its message group")] = "",
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME:VALUE", help="repeatable")
    ] = None,
    persistent: Annotated[bool, typer.Option(help="it survives a restart")] = True,
    broker: EitherBroker = "",
    amqp: OverAmqp = False,
    as_json: DoneAsJson = False,
) -> None:
    """Send messages, and return when the broker has them."""
    headers = [_header(text) for text in header or []]
    headers += [("persistent", "true")] if persistent else []
    headers += [("message_group", group)] if group else []
    data = _read(file) if file else body.encode()
    bodies = (data.splitlines() if lines else [data]) * count
    with messaging(broker, over_amqp=amqp) as client:
        destination = _destination(target)
        for number, each in enumerate(progress(bodies, "sending", len(bodies)), 1):
            client.send(destination, headers, each)
            if number % CONFIRM_EVERY == 0:
                client.confirm()
        client.confirm()
    without = "" if any(bodies) else ", without a body"  # more often forgotten than meant
    done(f"{len(bodies)} sent{without}", {"sent": len(bodies)}, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey message receive orders --count 10 --json"))
def receive(
    source: Target,
    count: Annotated[int, typer.Option(min=0, help="how many; 0 = without end")] = 1,
    timeout: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="wait so long for each; 0 = for ever")
    ] = 10,
    selector: Selector = "",
    broker: EitherBroker = "",
    amqp: OverAmqp = False,
    as_json: AsJson = False,
) -> None:
    """Take messages and print them; exit code 1 if they do not come in time."""
    with messaging(broker, over_amqp=amqp) as client:
        client.subscribe(_destination(source), [*_taking(selector), ONE_AT_A_TIME])
        received = 0
        while not count or received < count:
            delivery = client.message(timeout or None)
            if delivery is None:
                client.confirm()  # what was acknowledged is gone for sure
                raise AnswerError(f"no message within {timeout:g} s")
            _print(delivery, as_json=as_json)
            received += 1
            client.ack(delivery, credit=int(received != count))
        client.confirm()


@app.command(epilog=EXAMPLE.format("covey message browse orders --from-seq 100"))
def browse(
    source: Target,
    from_seq: Annotated[int, typer.Option(min=0, help="start at this number")] = 0,
    selector: Selector = "",
    broker: EitherBroker = "",
    amqp: OverAmqp = False,
    as_json: AsJson = False,
) -> None:
    """Show what is in a queue without taking it."""
    headers = [("browser", "true"), ("include-seq", SEQ_HEADER), ("from-seq", str(from_seq))]
    headers += [("selector", selector)] if selector else []
    with messaging(broker, over_amqp=amqp) as client:
        client.subscribe(_destination(source), headers)
        found = list(progress(_browsed(client), "browsing", None))
    if as_json:
        say(json.dumps([_record(each) for each in found], indent=2))
        return
    rows = [_row(each) for each in found]
    columns = DEAD_COLUMNS if any(row["reason"] for row in rows) else COLUMNS
    show(rows, columns, as_json=False)


@app.command(
    epilog=EXAMPLE.format("covey message move dead.orders orders --count 100"), cls=SeqCommand
)
def move(
    source: Target,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="where they go")],
    count: Annotated[int, typer.Option(min=0, help="how many; 0 = all")] = 0,
    wait: Annotated[
        float, typer.Option(min=0.01, metavar="SECONDS", help="silence that means: no more")
    ] = 1.0,
    selector: Selector = "",
    seq: SomeSeqs = None,
    broker: EitherBroker = "",
    as_json: DoneAsJson = False,
) -> None:
    """Move messages to another destination, in order, as a consumer of the first one.

    With --seq the broker moves those of these numbers itself, over its AMQP port.
    """
    if _destination(source) == _destination(target):
        raise typer.BadParameter(f"{source} is where they are", param_hint="TARGET")
    if seq:
        if selector or count:
            raise typer.BadParameter(
                "it goes with neither --selector nor --count", param_hint="--seq"
            )
        place = broker or os.environ.get("COVEYCTL_BROKER", LOCAL)
        _take(place, "MOVE-MESSAGES", source, seq, as_json=as_json, to=target)
        return
    with stomped(broker or os.environ.get("COVEYCTL_STOMP", LOCAL)) as client:
        # A window that acknowledgements do not open again brings just as many as are wanted.
        window = ("credit", f"{count},0,false" if count else f"{MOVE_BATCH},0")
        client.subscribe(_destination(source), [*_taking(selector), window])
        moving = _moved(client, _destination(target), count, wait)
        moved = sum(1 for _ in progress(moving, "moving", count or None))
    done(f"{moved} moved", {"moved": moved}, as_json=as_json)


@app.command("show", epilog=EXAMPLE.format("covey message show orders --seq 17"), cls=SeqCommand)
def show_messages(
    queue: QueueName, seq: Seqs, broker: Broker = LOCAL, as_json: AsJson = False
) -> None:
    """Show messages by their numbers, without taking them."""
    with managed(broker, LONG_S) as client:
        found = client.ask("SHOW-MESSAGES", "queue", queue, body={"seqs": seq})["items"]
    if not found:
        raise AnswerError(f"queue {queue} has no such message")
    if len(found) == 1 and not as_json:
        show_one(found[0], as_json=False)
    else:
        show(found if as_json else [shown_message(each) for each in found], SHOWN, as_json=as_json)


@app.command(epilog=EXAMPLE.format("covey message delete orders --seq 17 18"), cls=SeqCommand)
def delete(
    queue: QueueName, seq: Seqs, broker: Broker = LOCAL, as_json: DoneAsJson = False
) -> None:
    """Drop messages by their numbers."""
    _take(broker, "DELETE-MESSAGES", queue, seq, as_json=as_json)


@app.command(
    "dead-letter",
    epilog=EXAMPLE.format("covey message dead-letter orders --seq 17"),
    cls=SeqCommand,
)
def dead_letter(
    queue: QueueName,
    seq: Seqs,
    reason: Reason = "",
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Send messages by their numbers to the queue's dead-letter queue."""
    _take(broker, "DEAD-LETTER-MESSAGES", queue, seq, as_json=as_json, reason=reason)


@app.command(epilog=EXAMPLE.format("covey message retry dead.orders --rate 100"))
def retry(
    queue: QueueName,
    group: Annotated[str, typer.Option(metavar="ID", help="only of this group")] = "",
    selector: Selector = "",
    count: Annotated[int, typer.Option(min=0, help="at most so many; 0 = all")] = 0,
    rate: Annotated[
        float, typer.Option(min=0, metavar="N", help="at most so many a second; 0 = no limit")
    ] = 0,
    broker: Broker = LOCAL,
    as_json: DoneAsJson = False,
) -> None:
    """Send dead letters back to the queues they came from, in order; safe when this ends.

    What was there when it began goes. Begun again after a break, it goes on with the rest.
    """
    options: dict[str, Any] = {"group": group, "selector": selector}
    with managed(broker, LONG_S) as client:
        if not rate:
            answer = client.ask("RETRY", "queue", queue, count=count, **options)
        else:
            answer = _retried_slowly(client, queue, options, count, rate)
    answer.pop("last", None)
    done(told(answer), {"queue": queue, **answer}, as_json=as_json)


def _retried_slowly(
    client: Management, queue: str, options: dict[str, Any], count: int, rate: float
) -> Row:
    retried = last = 0
    began = time.monotonic()
    while True:
        due = int((time.monotonic() - began) * rate) + 1 - retried
        due = min(due, count - retried) if count else due
        if due > 0:
            answer = client.ask("RETRY", "queue", queue, count=due, last=last, **options)
            last = last or int(answer["last"])
            retried += int(answer["retried"])
            if answer["retried"] < due or retried == count:
                return {**answer, "retried": retried}
        time.sleep(min(RATE_STEP_S, 1 / rate))


def _take(
    broker: str, operation: str, queue: str, seqs: list[int], *, as_json: bool, **options: object
) -> None:
    with managed(broker, LONG_S) as client:
        answer = client.ask(operation, "queue", queue, body={"seqs": seqs}, **options)
    done(told(answer), {"queue": queue, **answer}, as_json=as_json)


def _moved(client: StompClient, target: str, count: int, wait_s: float) -> Iterator[None]:
    """Move in batches, and tell each message that has arrived."""
    moved = 0
    while not count or moved < count:
        room = min(MOVE_BATCH, count - moved) if count else MOVE_BATCH
        batch = _batch(client, room, wait_s)
        if not batch:
            return
        client.begin("move")
        for delivery in batch:
            client.send(target, [*own_headers(delivery), ("transaction", "move")], delivery.body)
            client.ack(delivery, transaction="move")
        client.commit("move")
        moved += len(batch)
        yield from [None] * len(batch)


def _batch(client: StompClient, size: int, wait_s: float) -> list[Delivery]:
    batch: list[Delivery] = []
    while len(batch) < size:
        delivery = client.message(wait_s)
        if delivery is None:
            break
        batch.append(delivery)
    return batch


def _browsed(client: MessageClient) -> Iterator[Delivery]:
    while True:
        delivery = client.message(client.timeout_s)
        if delivery is None or delivery.is_end:
            return
        yield delivery


def _taking(selector: str) -> Headers:
    headers = [("ack", "client-individual")]
    return headers + ([("selector", selector)] if selector else [])


def _destination(name: str) -> str:
    return name if name.startswith("/") else f"/queue/{name}"


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise typer.BadParameter(f"{text}: NAME:VALUE is needed", param_hint="--header")
    return name, value


def _read(file: str) -> bytes:
    if file == STDIN:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}", param_hint="--file") from error


def _print(delivery: Delivery, *, as_json: bool) -> None:
    """Print a message: a line of JSON, or its body; raw into a pipe, harmless on a terminal."""
    if as_json:
        say(json.dumps(_record(delivery)))
    elif sys.stdout.isatty():
        say(printable(delivery.body.decode("utf-8", "backslashreplace")))
    else:
        sys.stdout.buffer.write(delivery.body + b"\n")
        sys.stdout.buffer.flush()


def _record(delivery: Delivery) -> dict[str, object]:
    """Return a message as plain data; a body that is not text is Base64."""
    record: dict[str, object] = {"headers": delivery.headers}
    try:
        record["body"] = delivery.body.decode("utf-8")
    except UnicodeDecodeError:
        record["body_base64"] = base64.b64encode(delivery.body).decode("ascii")
    return record


def _row(delivery: Delivery) -> dict[str, object]:
    headers = delivery.headers
    groups = [headers[name] for name in GROUP_HEADERS if name in headers]
    return {
        "seq": headers.get(SEQ_HEADER, ""),
        "group": groups[0] if groups else "",
        "size": len(delivery.body),
        **{name: headers.get(header, "") for name, header in DEAD_HEADERS.items()},
        "body": delivery.body.decode("utf-8", "backslashreplace")[:BODY_SHOWN],
    }
