"""Fuzz: broken input for every protocol, as much as one likes; it may end its connection only.

    scripts/fuzz [--inputs N] [--seed N] [--kind stomp|amqp|http|websocket] [--compiled]

An input is known by its kind, the seed and its number, so that it can be had again. It is found at
fault if an exception comes out of an engine (also one that became a 500 or an internal error), if a
connection ends without its protocol's last words, or if it leaves a session behind.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random
from typing import Final, NamedTuple

from tests.properties.builds import is_compiled
from tests.properties.mutators import mutated_talk
from tests.properties.stage import Stage, Talk, cut_by, whole
from tests.properties.talks import all_talks
from tests.properties.web import Web

INPUTS: Final = 200_000
SHARES: Final = {"stomp": 0.48, "amqp": 0.44, "http": 0.06, "websocket": 0.02}  # by what each takes
TALK_MAX: Final = 2000  # bytes; a longer one takes too long
BATCH: Final = 1000
FAULTS_SHOWN: Final = 10
LAST_FRAME: Final = re.compile(rb"(?:^|\0\n*)([A-Z]+)\n[^\0]*\0\n*$")
CLOSE, SASL_OUTCOME = 0x18, 0x44


class Batch(NamedTuple):
    """What came of some inputs."""

    inputs: int
    ended: int  # connections that the broker has ended
    faults: list[str]


def stomp_fault(said: bytes, heard: bytes, *, is_closed: bool) -> str:
    """Say what is wrong with how a STOMP connection went on, "" if nothing."""
    if b"\ncovey-code:internal" in heard:
        return "an internal error"
    last = LAST_FRAME.search(heard)
    is_told = last is not None and last[1] == b"ERROR"
    return "closed without an ERROR" if is_closed and not is_told and b"DISC" not in said else ""


def amqp_fault(said: bytes, heard: bytes, *, is_closed: bool) -> str:
    """Say what is wrong with how an AMQP connection went on, "" if nothing."""
    if b"amqp:internal-error" in heard:
        return "an internal error"
    at, code = 0, 0
    while at < len(heard):
        size = int.from_bytes(heard[at : at + 4], "big")
        if heard.startswith(b"AMQP", at):
            at, code = at + 8, SASL_OUTCOME  # a header is all that a stranger may be told
            continue
        if size < 8 or at + size > len(heard):
            return "a frame that is none"
        code = heard[at + 10] if size > 11 else code
        at += size
    is_told = code in (CLOSE, SASL_OUTCOME)
    return f"closed behind a frame {code:#x}" if is_closed and not is_told else ""


FAULT_OF: Final = {"stomp": stomp_fault, "amqp": amqp_fault}


def try_talk(talk: Talk, dice: Random) -> tuple[int, str]:
    """Play a talk; return how many connections were ended, and what was wrong."""
    stage = Stage(talk.clients)
    cut = cut_by(dice.getrandbits(32)) if dice.random() < 0.5 else whole
    for number, (client, step) in enumerate(talk.steps):
        for piece in cut(number, step):
            stage.say(client, piece)
    ended = [seat.engine.is_closed for seat in stage.seats]
    stage.close()
    for client, seat in enumerate(stage.seats):
        if seat.fault:
            return 0, seat.fault
        said = b"".join(step for each, step in talk.steps if each == client)
        judge = FAULT_OF[talk.clients[client]]
        fault = judge(said, stage.heard(client), is_closed=ended[client])
        if fault:
            return 0, f"client {client}: {fault}"
    left = len(stage.broker.sessions)
    return sum(ended), f"{left} sessions are left" if left else ""


def dice_of(kind: str, seed: int, number: int) -> Random:
    """Return what decides about one input."""
    return Random(f"{kind} {seed} {number}")


def fuzz_talks(kind: str, seed: int, first: int, count: int) -> Batch:
    """Break talks of a protocol."""
    talks = [talk for talk in all_talks() if kind in talk.clients and talk.size <= TALK_MAX]
    ended = 0
    faults = []
    for number in range(first, first + count):
        dice = dice_of(kind, seed, number)
        talk = mutated_talk(dice.choice(talks), dice)
        gone, fault = try_talk(talk, dice)
        ended += gone
        if fault:
            faults.append(f"{kind}, seed {seed}, input {number} ({talk.name}): {fault}")
    return Batch(count, ended, faults)


def fuzz_web(kind: str, seed: int, first: int, count: int) -> Batch:
    """Break requests, or WebSockets: some at a time, since an end may take a second."""

    async def main() -> Batch:
        numbers = range(first, first + count)
        heard, faults = await Web().try_all(kind, [dice_of(kind, seed, each) for each in numbers])
        where = f"{kind}, seed {seed}, inputs {first} to {numbers[-1]}"
        return Batch(count, heard, [f"{where}: {fault}" for fault in faults])

    return asyncio.run(main())


def fuzz(kind: str, seed: int, first: int, count: int) -> Batch:
    """Try inputs of a kind, from number `first` on."""
    way = fuzz_web if kind in ("http", "websocket") else fuzz_talks
    return way(kind, seed, first, count)


def fuzz_all(
    inputs: int,
    seed: int,
    kinds: list[str],
    progress: Callable[[str, Batch], None],
    *,
    workers: int = 2,
) -> Batch:
    """Try inputs of all kinds in worker processes; `progress` hears of every batch."""
    whole_share = sum(SHARES[kind] for kind in kinds)
    jobs: list[tuple[str, int, int]] = []
    for kind in kinds:
        count = int(inputs * SHARES[kind] / whole_share)
        jobs += [(kind, first, min(BATCH, count - first)) for first in range(0, count, BATCH)]
    total = Batch(0, 0, [])
    with ProcessPoolExecutor(workers) as pool:
        started = [
            (kind, pool.submit(partial(fuzz, kind, seed, first, count)))
            for kind, first, count in jobs
        ]
        for kind, job in started:
            done = job.result()
            total = Batch(
                total.inputs + done.inputs, total.ended + done.ended, total.faults + done.faults
            )
            progress(kind, total)
    return total


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description="Broken input, in bulk.")
    parser.add_argument("--inputs", type=int, default=INPUTS, help="how many, of all kinds")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--kind", choices=[*SHARES], action="append", help="all of them otherwise")
    parser.add_argument("--workers", type=int, default=2, help="processes that work at a time")
    asked = parser.parse_args()
    started = time.monotonic()
    tell(f"{'compiled' if is_compiled() else 'plain Python'}, seed {asked.seed}\n")

    def progress(kind: str, total: Batch) -> None:
        speed = total.inputs / (time.monotonic() - started)
        tell(
            f"\r{kind:9} {total.inputs:,} of {asked.inputs:,} inputs, {total.ended:,} connections"
            f" ended, {len(total.faults)} faults, {speed:,.0f}/s "
        )

    kinds = asked.kind or [*SHARES]
    total = fuzz_all(asked.inputs, asked.seed, kinds, progress, workers=asked.workers)
    tell("\n" + "".join(f"{fault}\n" for fault in total.faults[:FAULTS_SHOWN]))
    tell(f"{total.inputs:,} inputs in {time.monotonic() - started:.0f} s, ")
    tell(f"{len(total.faults)} faults\n")
    return 1 if total.faults else 0


def tell(text: str) -> None:
    """Show something at once."""
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
