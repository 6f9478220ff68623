"""`covey bench`: how much a running broker carries on this machine, checked message by message.

The load is that of the project's own figures (`covey.bench`), so they can be compared. Each
repetition has a queue of its own, which goes when it is empty. The first one warms up and is not
counted. A repetition counts only if every message came once, and each group's messages in order;
one that does not makes the command fail.

The generator runs on this machine, beside the broker or across the network, and needs a core
for itself. It speaks plain TCP only: TLS would measure the generator's own.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from covey.bench.flows import LATENCY, TABLE, Workload
from covey.bench.generator import NoAnswerError, generate
from covey.bench.result import Result, figure, percentile
from covey.bench.wire.link import CONNECT_S, Job
from covey.cli.options import LOCAL, PLACE, AsJson, Wide, place_of
from covey.cli.output import Row, complain, progress, show
from covey.client import management, stomp
from covey.client.errors import UnreachableError
from covey.client.place import Place

# The flows that are run unless others are named: what one wants to know of a machine first.
USUAL: Final = ("queue", "groups", "durable", "latency", "amqp", "amqp-groups", "amqp-durable-100",
                "amqp-latency")  # fmt: skip
FLOWS: Final = {flow.name: flow for flow in TABLE if flow.beside is None}
WARM_UPS: Final = 1
SIZE_MIN: Final = 16  # the stamp by which a message is checked
WINDOW: Final = 20_000  # messages in flight, if the flow does not say
MS_PER_S: Final = 1000.0
COLUMNS: Final = (
    "workload",
    "size",
    "per_second",
    "lowest",
    "highest",
    "p50_ms",
    "p99_ms",
    "came",
)
TIMES: Final = ("p50_ms", "p99_ms")
SPARE: Final = ("lowest", "highest", "size")


@dataclass(frozen=True, slots=True)
class Target:
    """Where the broker is, for both protocols."""

    stomp: Place
    amqp: Place

    def place_of(self, flow: Workload) -> Place:
        """Return the port that a flow needs; the login is that port's, too."""
        return self.amqp if flow.needs == "amqp" else self.stomp

    def job(self, flow: Workload, count: int, size: int, groups: int) -> Job:
        """Return one repetition of a flow, with a destination of its own."""
        place = self.place_of(flow)
        fields: dict[str, Any] = {"window": WINDOW, **flow.job}
        if fields.get("groups"):
            fields["groups"] = groups
        return Job(
            port=self.stomp.port,
            amqp_port=self.amqp.port,
            address=place.host,
            host=place.virtual_host or place.host,
            user=place.user,
            password=place.password or "",
            destination=f"{flow.place}.{secrets.token_hex(4)}",
            count=count,
            size=size,
            **fields,
        )


def bench(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD...", help=f"of {', '.join(FLOWS)}"),
    ] = None,
    broker: Annotated[
        str,
        typer.Option(
            "-b", "--broker", metavar="PLACE", envvar="COVEYCTL_STOMP",
            help=f"{PLACE} the STOMP port ({stomp.PORT})",
        ),
    ] = LOCAL,
    amqp_broker: Annotated[
        str,
        typer.Option(
            "--amqp-broker", metavar="PLACE", envvar="COVEYCTL_BROKER",
            help=f"the same for AMQP ({management.PORT})",
        ),
    ] = LOCAL,
    repetitions: Annotated[int, typer.Option(min=1, max=1000, help="that count")] = 3,
    messages: Annotated[
        int, typer.Option(min=0, max=10_000_000, help="of a repetition; 0 is about a second's")
    ] = 0,
    size: Annotated[
        int, typer.Option(min=0, max=100_000_000, help="bytes of a body; 0 is the workload's own")
    ] = 0,
    groups: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="groups, where there are groups")
    ] = 1000,
    wide: Wide = False,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Measure a running broker: messages a second and latency, with order and loss checked."""
    names = workloads or list(USUAL)
    unknown = [name for name in names if name not in FLOWS]
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}", param_hint="WORKLOAD")
    if 0 < size < SIZE_MIN:
        raise typer.BadParameter(f"at least {SIZE_MIN} bytes", param_hint="--size")
    target = Target(place_of(broker, stomp.PORT), place_of(amqp_broker, management.PORT))
    if target.stomp.is_tls or target.amqp.is_tls:
        raise typer.BadParameter("tls:// would measure this command's own TLS; name the plain port")
    flows = [FLOWS[name] for name in names]
    for place in {target.place_of(flow) for flow in flows}:
        _reach(place)
    results: list[Result] = []
    for flow in flows:
        runs = _runs(flow, target, repetitions, messages or flow.count, size, groups)
        results += list(progress(runs, flow.name, 1))
    rows = [_record(result) if as_json else _row(result) for result in results]
    show(rows, COLUMNS, as_json=as_json, spare=SPARE, is_wide=wide)
    if any(result.failure for result in results):
        raise typer.Exit(1)


def _runs(
    flow: Workload, target: Target, repetitions: int, count: int, size: int, groups: int
) -> Iterator[Result]:
    """Run all repetitions of one flow; the first that fails is the last."""
    size = size or flow.sizes[0]
    result = Result(f"{flow.name}, {size} B", flow.name, flow.unit)
    result.notes["size"] = size
    for turn in range(WARM_UPS + repetitions):
        try:
            outcome, _ = generate(target.job(flow, count, size, groups))
        except NoAnswerError:
            place = target.place_of(flow)
            raise UnreachableError(f"{flow.name}: {place.address} does not answer") from None
        except RuntimeError as error:
            result.failure = str(error)
            complain(f"covey: {flow.name}: {result.failure}")
            break
        if turn < WARM_UPS:
            continue
        result.values.append(outcome.deliveries / outcome.elapsed_s)
        if flow.unit == LATENCY:
            trips = outcome.round_trips_s
            for note, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
                worst = percentile(trips, share) * MS_PER_S
                result.notes[note] = max(worst, result.notes.get(note, 0.0))
    yield result


def _reach(place: Place) -> None:
    """Raise UnreachableError if nobody listens there."""
    try:
        socket.create_connection((place.host, place.port), CONNECT_S).close()
    except OSError as error:
        raise UnreachableError(f"{place.address} does not answer: {error}") from error


def _record(result: Result) -> Row:
    """Return a result for programs."""
    record: Row = {"workload": result.contender, "size": int(result.notes["size"])}
    record |= {"per_second": result.values, "failure": result.failure}
    return record | {note: result.notes[note] for note in TIMES if note in result.notes}


def _row(result: Result) -> Row:
    """Return a line of the table; latencies are those of the worst repetition."""
    row: Row = {"workload": result.contender, "size": int(result.notes["size"])}
    checked = "all, in order" if is_ordered(FLOWS[result.contender].job) else "all"
    row["came"] = "failed" if result.failure else checked
    if result.values:
        values = (result.median, min(result.values), max(result.values))
        names = ("per_second", "lowest", "highest")
        row |= {name: figure(value) for name, value in zip(names, values, strict=True)}
    for note in TIMES:
        if note in result.notes:
            row[note] = f"{result.notes[note]:.2f}"
    return row


def is_ordered(fields: Mapping[str, Any]) -> bool:
    """Return True if the generator checks a flow's order; consumers that compete have none."""
    is_single = fields.get("consumers", 1) == fields.get("producers", 1) == 1
    return is_single or bool(fields.get("groups") or fields.get("is_fan_out"))
