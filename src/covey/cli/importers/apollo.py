"""Apollo's `apollo.xml`: connectors with their STOMP options, virtual hosts, queues, topics.

Names and meanings follow Apollo's user manual and the Apollo STOMP manual; most of our names are
taken from there. Access rules are not translated: a rule guessed wrong would let somebody in.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

from covey.cli.importers.imported import NEEDS_CERTIFICATE, Imported, local_name, named
from covey.config.connectors import StompSettings
from covey.config.record import plain_name

MARKS: Final = frozenset({"connector", "virtual_host", "stomp", "queue", "topic"})

QUEUE_NAMES: Final = {
    "id": "id",
    "dlq": "dlq",
    "dlq_expired": "dlq_expired",
    "nak_limit": "nak_limit",
    "quota": "quota",
    "quota_messages": "quota_messages",
    "full_policy": "full_policy",
    "auto_delete_after": "auto_delete_after_s",
    "persistent": "durable",
    "round_robin": "round_robin",
    "mirrored": "mirrored",
    "slow_consumer_policy": "slow_consumer_policy",
}
TOPIC_NAMES: Final = {"id": "id", "slow_consumer_policy": "slow_consumer_policy"}
CONNECTOR_NAMES: Final = {"id": "id", "connection_limit": "connections_max"}
NEEDLESS: Final = {
    "message_group_graceful_handoff": "a group never moves before its messages are settled",
    "tail_buffer": "memory_window_queue bounds what a queue keeps in memory",
}
TLS: Final = ("tls", "ssl")
NO_RULES: Final = (
    "<access_rule> is not translated: until there are [[permission]] entries every user may send to"
    " and read from everything"
)
EVERYTHING: Final = "**"
DURABLE: Final = "dsub:"


def read(root: Element, found: Imported) -> None:
    """Read a whole file, or any part of one."""
    readers = {
        "broker": _read_all,
        "virtual_host": _read_host,
        "connector": _read_connector,
        "queue": _read_queue,
        "dsub": _read_durable,
        "topic": _read_topic,
        "stomp": _read_bare_stomp,
    }
    reader = readers.get(local_name(root))
    if local_name(root) == "access_rule":
        found.notes.append(NO_RULES)
    elif reader is None:
        found.notes.append(f"<{local_name(root)}> has no counterpart")
    else:
        reader(root, found)


def _read_all(element: Element, found: Imported) -> None:
    for child in element:
        if local_name(child) != "notes":
            read(child, found)


def _read_host(element: Element, found: Imported) -> None:
    names = [(child.text or "").strip() for child in element if local_name(child) == "host_name"]
    name = element.get("id", "default")
    found.add("virtual_host", {"id": name, "host_names": names or [name]})
    for child in element:
        if local_name(child) in ("queue", "topic", "dsub", "access_rule"):
            read(child, found)
        elif local_name(child) != "host_name":
            found.notes.append(f"<{local_name(child)}> of virtual host {name} has no counterpart")


def _read_connector(element: Element, found: Imported) -> None:
    entry = named(element, CONNECTOR_NAMES, found, skipped=("bind", "protocol"))
    bind = element.get("bind", "")
    url = urlsplit(bind)
    if url.scheme != "tcp" or element.get("protocol", "any") not in ("any", "stomp"):
        reason = NEEDS_CERTIFICATE if url.scheme in TLS else "only STOMP over TCP is read"
        found.notes.append(f"connector {entry.get('id', '')} at {bind}: {reason}")
        return
    connector: dict[str, Any] = {**entry, "protocol": "stomp", "bind": url.netloc}
    for child in element:
        if local_name(child) == "stomp":
            connector["stomp"] = _stomp(child, found)
        else:
            found.notes.append(f"<{local_name(child)}> of a connector has no counterpart")
    found.add("connector", connector)


def _read_bare_stomp(element: Element, found: Imported) -> None:
    connector = {"id": "stomp", "protocol": "stomp", "bind": "127.0.0.1:61613"}
    found.add("connector", {**connector, "stomp": _stomp(element, found)})


def _stomp(element: Element, found: Imported) -> dict[str, Any]:
    known = {
        name: plain_name(name)
        for name in element.attrib
        if plain_name(name) in StompSettings.model_fields
    }
    options = named(element, known, found)
    headers = [child for child in element if local_name(child) == "add_user_header"]
    if headers:
        options["add_user_header"] = [_user_header(child) for child in headers]
    return options


def _user_header(element: Element) -> dict[str, Any]:
    header = {"header": (element.text or "").strip()}
    return header | {
        key: element.attrib[key] for key in ("separator", "kind") if key in element.attrib
    }


def _read_queue(element: Element, found: Imported) -> None:
    queue = {"id": EVERYTHING} | named(element, QUEUE_NAMES, found, skipped=tuple(NEEDLESS))
    for name in NEEDLESS:
        if name in element.attrib:
            found.notes.append(f"<queue {name}> is not needed: {NEEDLESS[name]}")
    found.add("queue", queue)


def _read_durable(element: Element, found: Imported) -> None:
    queue = named(element, QUEUE_NAMES, found, skipped=tuple(NEEDLESS))
    found.add("queue", {**queue, "id": DURABLE + str(queue.get("id", EVERYTHING))})


def _read_topic(element: Element, found: Imported) -> None:
    found.add("topic", {"id": EVERYTHING} | named(element, TOPIC_NAMES, found))
