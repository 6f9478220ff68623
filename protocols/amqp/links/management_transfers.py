"""ManagementTransfers: `$management`'s operations on single groups, messages and dead letters.

| operation                              | asks for, beside a queue by name                     |
|----------------------------------------|------------------------------------------------------|
| MOVE-GROUP                             | `group`, `to`, `held` ("leave" or "wait")            |
| PURGE-GROUP                            | `group`, `held`                                      |
| DEAD-LETTER-GROUP                      | `group`, `reason`, `held`                            |
| PEEK-GROUP                             | `group`, `count`                                     |
| RETRY                                  | `group`, `selector`, `count`, `last`                 |
| SHOW-, DELETE-, MOVE-,                 | `seqs`, a list of numbers in the body; `to`, `reason`|
| DEAD-LETTER-MESSAGES                   |                                                      |

An answer has `moved`, `purged`, `dead_lettered` or `retried`, and `held`. For messages by number it
also has `missing`. It comes when everything is done and safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from covey.core.errors import RefusedError
from covey.core.jobs.job import Job
from covey.core.management import transfers
from covey.core.management.admin import Admin
from covey.core.management.describe import Plain
from covey.core.publishing.transfer import Letters, Numbered, Transfer
from covey.protocols.amqp.links.management_request import Body, Request

Found = tuple[Job, Callable[[], tuple[int, Body]]]
Operation = Callable[[Admin, Request, float], Found]

PEEKED: Final = 20  # messages that PEEK-GROUP shows if the request has no `count`


def move_group(admin: Admin, request: Request, now: float) -> Found:
    """Move a group to another queue."""
    to = str(request.option("to") or "")
    name, group = request.the_name(), _group(request)
    return _told(transfers.move_group(admin, name, group, to, now, waits=_waits(request)), "moved")


def purge_group(admin: Admin, request: Request, now: float) -> Found:
    """Drop a group's messages."""
    name, group = request.the_name(), _group(request)
    return _told(transfers.purge_group(admin, name, group, now, waits=_waits(request)), "purged")


def dead_letter_group(admin: Admin, request: Request, now: float) -> Found:
    """Send a group to the dead-letter queue."""
    job = transfers.dead_letter_group(
        admin,
        request.the_name(),
        _group(request),
        now,
        reason=str(request.option("reason") or ""),
        waits=_waits(request),
    )
    return _told(job, "dead_lettered")


def peek_group(admin: Admin, request: Request, now: float) -> Found:
    """Show the first messages of a group."""
    count = request.number("count", PEEKED)
    return _looked(admin, request, now, group=_group(request), count=count)


def show_messages(admin: Admin, request: Request, now: float) -> Found:
    """Show messages by their numbers."""
    return _looked(admin, request, now, numbers=_seqs(request))


def retry(admin: Admin, request: Request, now: float) -> Found:
    """Send dead letters back to the queues that they came from."""
    job = transfers.retry(
        admin,
        request.the_name(),
        now,
        group=str(request.option("group") or ""),
        selector=str(request.option("selector") or ""),
        count=request.number("count", 0),
        last=request.number("last", 0),
    )
    return _told(job, "retried")


def delete_messages(admin: Admin, request: Request, now: float) -> Found:
    """Drop messages by their numbers."""
    job = transfers.delete_messages(admin, request.the_name(), _seqs(request), now)
    return _told(job, "purged")


def move_messages(admin: Admin, request: Request, now: float) -> Found:
    """Move messages by their numbers."""
    to = str(request.option("to") or "")
    job = transfers.move_messages(admin, request.the_name(), _seqs(request), to, now)
    return _told(job, "moved")


def dead_letter_messages(admin: Admin, request: Request, now: float) -> Found:
    """Send messages by their numbers to the dead-letter queue."""
    reason = str(request.option("reason") or "")
    seqs = _seqs(request)
    job = transfers.dead_letter_messages(admin, request.the_name(), seqs, now, reason=reason)
    return _told(job, "dead_lettered")


OPERATIONS: Final[dict[str, Operation]] = {
    "MOVE-GROUP": move_group,
    "PURGE-GROUP": purge_group,
    "DEAD-LETTER-GROUP": dead_letter_group,
    "PEEK-GROUP": peek_group,
    "RETRY": retry,
    "SHOW-MESSAGES": show_messages,
    "DELETE-MESSAGES": delete_messages,
    "MOVE-MESSAGES": move_messages,
    "DEAD-LETTER-MESSAGES": dead_letter_messages,
}


def _told(job: Transfer, key: str) -> Found:
    def result() -> tuple[int, Body]:
        answer: dict[str, Plain] = dict(job.answer(key))
        if isinstance(job.choice, Numbered):
            answer["missing"] = job.choice.missing
        if isinstance(job.choice, Letters):
            answer["last"] = job.choice.last
        return 200, answer

    return job, result


def _looked(
    admin: Admin,
    request: Request,
    now: float,
    *,
    group: str = "",
    numbers: list[int] | None = None,
    count: int = 0,
) -> Found:
    name = request.the_name()
    job = transfers.look(admin, name, now, group=group, numbers=numbers or (), count=count)

    def result() -> tuple[int, Body]:
        items: list[Plain] = list(job.found)
        return 200, {"items": items}

    return job, result


def _group(request: Request) -> str:
    group = str(request.option("group") or "")
    if not group:
        raise RefusedError(f"{request.operation} without a group", "invalid")
    return group


def _waits(request: Request) -> bool:
    word = request.option("held") or "leave"
    if word not in ("leave", "wait"):
        raise RefusedError(f"held: {str(word)[:40]!r} is neither leave nor wait", "invalid")
    return word == "wait"


def _seqs(request: Request) -> list[int]:
    given = request.body.get("seqs")
    numbers = given if isinstance(given, list) else []
    found = [each for each in numbers if isinstance(each, int) and each > 0]
    if not found or len(found) < len(numbers):
        raise RefusedError("seqs is no list of numbers of messages", "invalid")
    return found
