"""Settings check: mistakes that only the core can find: bad names, patterns, password records.

`config` lies below the core and cannot parse destinations. So `config.load` is handed `flaws`, and
adds what `flaws` finds to its own problems, each with file and line. A broker that starts or
reloads without this check refuses the same entries, but cannot name the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from covey.config.queues import QueueSettings
from covey.config.settings import Settings
from covey.core.errors import RefusedError
from covey.core.naming.destination import DURABLE_PREFIX, TEMPORARY_ROOT, Kind, Syntax
from covey.core.naming.pattern import Pattern
from covey.core.queue.policy import QUEUE_PREFIX
from covey.core.security.passwords import RECORD_PREFIX, parse_record
from covey.core.security.permissions import Permission

Flaw = tuple[tuple[str | int, ...], str]  # the path of the key, and what is wrong with its value

SYNTAX: Final = Syntax()
TOPIC_PREFIX: Final = "/topic/"
GROUPLESS: Final = (
    "priorities",
    "lvq_key",
)  # they reorder messages, or take them out of the middle


def flaws(settings: Settings) -> Iterator[Flaw]:
    """Yield every name, pattern and record of a configuration that is not valid."""
    if settings.broker.workers > 1 and settings.store.kind == "postgres":
        yield ("broker", "workers"), "several workers need a store of this machine, as sqlite"
    for at, queue in enumerate(settings.queues):
        pattern = queue.id.removeprefix(DURABLE_PREFIX)
        yield from _told(("queue", at, "id"), pattern_flaw(QUEUE_PREFIX, pattern))
        if queue.mirrored and pattern != queue.id:
            yield ("queue", at, "mirrored"), "a durable subscription hears its topics anyway"
        yield from _told(("queue", at, "dlq"), dead_letter_flaw(queue))
        yield from _told(("queue", at, "groups", "strategy"), strategy_flaw(queue))
    for at, topic in enumerate(settings.topics):
        yield from _told(("topic", at, "id"), pattern_flaw(TOPIC_PREFIX, topic.id))
    for at, permission in enumerate(settings.permissions):
        try:
            Permission(permission)
        except RefusedError as error:
            yield ("permission", at, "on"), error.text
    for at, user in enumerate(settings.users):
        yield from _told(("user", at, "password"), password_flaw(user.password.get_secret_value()))


def password_flaw(password: str) -> str:
    """Return what is wrong with a password record, without quoting it; "" if nothing is."""
    if not password.startswith(RECORD_PREFIX):
        return ""
    try:
        parse_record(password)
    except ValueError:
        return "starts like a SCRAM record and is none"
    return ""


def pattern_flaw(prefix: str, text: str) -> str:
    """Return what is wrong with the id of an entry; "" if nothing is."""
    try:
        (destination, *others) = SYNTAX.parse(prefix + text, allow_patterns=True)
        Pattern(destination)
    except RefusedError as error:
        return error.text
    return f"{text!r} is more than one name" if others else ""


def strategy_flaw(queue: QueueSettings) -> str:
    """Return which option makes groups, and so the given strategy, impossible; "" if none does.

    `QueueSettings` itself does not refuse this: a queue may be declared with such an option even
    if its policy names a strategy. Then the queue has no groups.
    """
    groupless = [name for name in GROUPLESS if getattr(queue, name)]
    if not groupless or "strategy" not in queue.groups.model_fields_set:
        return ""
    return f"queue {queue.id}: a queue with {' and '.join(groupless)} has no message groups"


def dead_letter_flaw(queue: QueueSettings) -> str:
    """Return what is wrong with the name of a dead-letter queue; "" if nothing is."""
    if queue.dlq is None:
        return ""
    example = f"{DURABLE_PREFIX}x" if queue.id.startswith(DURABLE_PREFIX) else "x"
    written = queue.dlq.removeprefix(QUEUE_PREFIX).replace("*", example)
    try:
        found = SYNTAX.parse(QUEUE_PREFIX + written, allow_patterns=False)
    except RefusedError as error:
        return error.text
    is_one_queue = len(found) == 1 and found[0].kind is Kind.QUEUE
    if is_one_queue and not found[0].name.startswith(TEMPORARY_ROOT):
        return ""
    return f"{queue.dlq!r} is not the name of one queue that stays"


def _told(path: tuple[str | int, ...], text: str) -> Iterator[Flaw]:
    if text:
        yield path, text
