"""Declaration: what a declared queue does to other destinations, and which rights that needs.

Some options make one destination feed another. Whoever sets such an option needs the rights for
what the queue will then do, as if they did it themselves:

| option   | what the queue does                              | needed                             |
|----------|--------------------------------------------------|------------------------------------|
| dlq      | puts its dead messages into another queue        | send on that queue                 |
| mirrored | reads the topic of its name, and sends to it     | consume and send on that topic     |

`create` is needed as well if the other destination does not exist yet. Two things need no right,
since whoever declares or changes the queue did not cause them: what the operator's file gives a
queue of that name, and what the queue does already.

The rights are checked when the option is set, and never again. A dead-letter queue that is deleted
later is made again by the next dead message. No user asked for that, so there are no rights to
check. Without its dead-letter queue the message would be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from covey.config.queues import QueueSettings
from covey.core.host.temporary import exists
from covey.core.host.virtual_host import VirtualHost
from covey.core.naming.destination import Destination, Kind
from covey.core.queue.policy import dead_letter_name
from covey.core.security.users import Identity, Verb, authorise

Deed = tuple[Verb, Destination]


def _dead_letters(name: str, settings: QueueSettings) -> list[Deed]:
    if settings.dlq is None:
        return []
    return [(Verb.SEND, Destination(Kind.QUEUE, dead_letter_name(settings.dlq, name)))]


def _mirror(name: str, settings: QueueSettings) -> list[Deed]:
    if not settings.mirrored:
        return []
    topic = Destination(Kind.TOPIC, name)
    return [(Verb.CONSUME, topic), (Verb.SEND, topic)]


# Every option that names another destination, or implies one.
REACHING: Final[dict[str, Callable[[str, QueueSettings], list[Deed]]]] = {
    "dlq": _dead_letters,
    "mirrored": _mirror,
}


def caused(name: str, settings: QueueSettings) -> list[Deed]:
    """List what a queue with these settings does to other destinations."""
    return [deed for deeds in REACHING.values() for deed in deeds(name, settings)]


def authorise_caused(
    identity: Identity,
    host: VirtualHost,
    name: str,
    wanted: QueueSettings,
    given: Iterable[QueueSettings],
) -> None:
    """Raise RefusedError if the queue would do what this user may not; `given` needs no right."""
    known = [deed for settings in given for deed in caused(name, settings)]
    for deed in caused(name, wanted):
        if deed in known:
            continue
        verb, destination = deed
        authorise(identity, verb, str(destination))
        if not exists(host, destination):
            authorise(identity, Verb.CREATE, str(destination))
