"""Transfers: the handlers for commands on single groups, single messages and dead letters.

All of them go through `core.management.transfers`, as `$management` does. A command may take long:
it is answered when all of it is done and safe. A retry with a rate is done in portions, one
each `RATE_STEP_S`, by this request itself: if its client goes, what was done stays done.
"""

from __future__ import annotations

import time
from typing import Final

import anyio
from starlette.responses import Response

from covey.core.errors import RefusedError
from covey.core.management import transfers
from covey.core.management.describe import Attributes, Plain
from covey.core.publishing.transfer import Numbered, Transfer
from covey.protocols.http.answer import json_answer
from covey.protocols.http.ask import Ask
from covey.protocols.http.schemas import (
    BuryGroupBody,
    BurySeqsBody,
    HeldBody,
    MoveGroupBody,
    MoveSeqsBody,
    RetryBody,
    SeqsBody,
)

RATE_STEP_S: Final = 0.1


async def move_group(ask: Ask) -> Response:
    """Move a group to another queue."""
    assert isinstance(ask.body, MoveGroupBody)
    waits = ask.body.held == "wait"
    group = ask.names["group"]
    job = transfers.move_group(ask.admin, ask.name, group, ask.body.to, ask.now, waits=waits)
    return await _answer(ask, job, "moved")


async def purge_group(ask: Ask) -> Response:
    """Drop a group's messages."""
    waits = isinstance(ask.body, HeldBody) and ask.body.held == "wait"
    job = transfers.purge_group(ask.admin, ask.name, ask.names["group"], ask.now, waits=waits)
    return await _answer(ask, job, "purged")


async def dead_letter_group(ask: Ask) -> Response:
    """Send a group to the dead-letter queue."""
    body = ask.body if isinstance(ask.body, BuryGroupBody) else BuryGroupBody()
    job = transfers.dead_letter_group(
        ask.admin,
        ask.name,
        ask.names["group"],
        ask.now,
        reason=body.reason,
        waits=body.held == "wait",
    )
    return await _answer(ask, job, "dead_lettered")


async def retry_group(ask: Ask) -> Response:
    """Send the dead letters of a group back to where they came from."""
    job = transfers.retry(ask.admin, ask.name, ask.now, group=ask.names["group"])
    return await _answer(ask, job, "retried")


async def retry_queue(ask: Ask) -> Response:
    """Send dead letters back to where each came from."""
    body = ask.body if isinstance(ask.body, RetryBody) else RetryBody()
    if not body.rate:
        job = transfers.retry(
            ask.admin,
            ask.name,
            ask.now,
            group=body.group,
            selector=body.selector,
            count=body.count,
        )
        return await _answer(ask, job, "retried")
    return json_answer(await _retry_slowly(ask, body))


async def move_messages(ask: Ask) -> Response:
    """Move messages by their numbers."""
    assert isinstance(ask.body, MoveSeqsBody)
    job = transfers.move_messages(ask.admin, ask.name, ask.body.seqs, ask.body.to, ask.now)
    return await _answer(ask, job, "moved")


async def delete_messages(ask: Ask) -> Response:
    """Drop messages by their numbers."""
    assert isinstance(ask.body, SeqsBody)
    job = transfers.delete_messages(ask.admin, ask.name, ask.body.seqs, ask.now)
    return await _answer(ask, job, "purged")


async def dead_letter_messages(ask: Ask) -> Response:
    """Send messages by their numbers to the dead-letter queue."""
    assert isinstance(ask.body, BurySeqsBody)
    job = transfers.dead_letter_messages(
        ask.admin, ask.name, ask.body.seqs, ask.now, reason=ask.body.reason
    )
    return await _answer(ask, job, "dead_lettered")


async def retry_messages(ask: Ask) -> Response:
    """Send dead letters by their numbers back to where each came from."""
    assert isinstance(ask.body, SeqsBody)
    job = transfers.retry_messages(ask.admin, ask.name, ask.body.seqs, ask.now)
    return await _answer(ask, job, "retried")


async def peek_group(ask: Ask) -> Response:
    """Show the first messages of a group, held ones too."""
    job = transfers.look(
        ask.admin, ask.name, ask.now, group=ask.names["group"], count=ask.number("limit")
    )
    ask.broker.run(ask.now)
    await ask.until_over(job)
    lane = job.queue.state.lanes.get(ask.names["group"])
    items: list[Plain] = list(job.found)
    return json_answer({"items": items, "total": 0 if lane is None else lane.count})


async def show_message(ask: Ask) -> Response:
    """Show one message by its number."""
    text = ask.names["seq"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RefusedError(f"{text[:40]!r} is not the number of a message", "invalid")
    job = transfers.look(ask.admin, ask.name, ask.now, numbers=[int(text)])
    ask.broker.run(ask.now)
    await ask.until_over(job)
    if not job.found:
        raise RefusedError(f"queue {job.queue.name} has no message {text}", "not-found")
    return json_answer(job.found[0])


async def _answer(ask: Ask, job: Transfer, key: str) -> Response:
    ask.broker.run(ask.now)
    await ask.until_over(job)
    return json_answer(_told(job, key))


def _told(job: Transfer, key: str) -> Attributes:
    answer: Attributes = dict(job.answer(key))
    if isinstance(job.choice, Numbered):
        answer["missing"] = job.choice.missing
    return answer


async def _retry_slowly(ask: Ask, body: RetryBody) -> Attributes:
    """Send back the dead letters that are there at the start, at a limited rate."""
    last = ask.admin.backlog(ask.name).next_seq - 1
    done = 0
    began = now = time.monotonic()
    while True:
        due = int((now - began) * body.rate) + 1 - done
        if body.count:
            due = min(due, body.count - done)
        if due > 0:
            job = transfers.retry(
                ask.admin,
                ask.name,
                now,
                group=body.group,
                selector=body.selector,
                count=due,
                last=last,
            )
            ask.broker.run(now)
            await ask.until_over(job)
            answer = _told(job, "retried")
            done += job.count
            if job.count < due or done == body.count:
                return {**answer, "retried": done}
        await anyio.sleep(min(RATE_STEP_S, 1 / body.rate))
        now = time.monotonic()
