"""Apollo's `apollo.xml`: connectors with their STOMP options, virtual hosts, queues, topics.

Names and meanings follow Apollo's user manual and the Apollo STOMP manual; most of our names are
taken from there.

Access rules are tried in turn in Apollo, ours add up. So they are translated as long as they only
allow. One that denies makes their order matter: then nobody but an admin may do anything. Rules of
one connector, and of names by a regular expression, are left out: they give nothing.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

from covey.cli.importers.imported import (
    NEEDS_CERTIFICATE,
    Imported,
    ImportRefused,
    local_name,
    named,
)
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
DENIES: Final = (
    "an <access_rule> denies, and permissions here only allow: nobody but an admin may do anything"
    " until there are [[permission]] entries"
)
OLD_RULES: Final = (
    "<acl> is of an older Apollo and is not read: nobody but an admin may do anything until there"
    " are [[permission]] entries"
)
NARROWED: Final = ("connector", "id_regex")
ACTIONS: Final = {
    "connect": ("connect",),
    "create": ("create",),
    "destroy": ("destroy",),
    "send": ("send",),
    "receive": ("browse",),
    "consume": ("consume", "browse"),
    "admin": ("manage",),
    "*": ("*",),
}
# What monitors and configures is not said by destination here.
UNSAID: Final = ("monitor", "config")
KINDS: Final = ("queue", "topic", "dsub")
WITHOUT_DESTINATION: Final = ("broker", "virtual_host", "connector")
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
        _read_rule(root, found)
    elif reader is None:
        found.notes.append(f"<{local_name(root)}> has no counterpart")
    else:
        reader(root, found)


def _read_all(element: Element, found: Imported) -> None:
    for name, text in element.attrib.items():
        if name == "security_factory":
            found.open_up(f"security_factory={text} may have kept somebody out")
        elif name != "id" and "}" not in name:
            found.notes.append(f"<broker {name}> has no counterpart")
    for child in element:
        if local_name(child) == "authentication":
            _read_authentication(child, found)
        elif local_name(child) == "acl":
            _close(OLD_RULES, found)
        elif local_name(child) != "notes":
            read(child, found)


def _read_authentication(element: Element, found: Imported) -> None:
    """Users are in files beside; without them the default login would let somebody in."""
    if element.get("enabled", "true") == "false":
        return
    found.asks_for_login = True
    found.notes.append("<authentication>: name its users.properties and groups.properties")


def _close(reason: str, found: Imported) -> None:
    """Let nobody but an admin do anything, for rules that cannot be said here."""
    found.notes.append(reason)
    found.tables["permission"] = [{"who": ["role:admin"], "may": ["*"], "on": EVERYTHING}]


def _read_host(element: Element, found: Imported) -> None:
    names = [(child.text or "").strip() for child in element if local_name(child) == "host_name"]
    name = element.get("id", "default")
    found.add("virtual_host", {"id": name, "host_names": names or [name]})
    named(element, {}, found, skipped=("id",))
    for child in element:
        if local_name(child) in ("queue", "topic", "dsub", "access_rule"):
            read(child, found)
        elif local_name(child) == "acl":
            _close(OLD_RULES, found)
        elif local_name(child) == "authentication":
            _read_authentication(child, found)
        elif local_name(child) != "host_name":
            found.notes.append(f"<{local_name(child)}> of virtual host {name} has no counterpart")


def _read_rule(element: Element, found: Imported) -> None:
    """Read one rule. The first one lets nobody do anything that none of them allows."""
    if "deny" in element.attrib or {DENIES, OLD_RULES} & set(found.notes):
        _close(DENIES, found)
        return
    found.allow(["role:admin"], ["*"], EVERYTHING)
    if not element.attrib.keys().isdisjoint(NARROWED):
        rule = " ".join(f"{name}={value}" for name, value in element.attrib.items())
        found.notes.append(f"<access_rule {rule}> has no counterpart")
        return
    separator = element.get("separator")
    allowed = element.get("allow", "*")
    names = [name.strip() for name in (allowed.split(separator) if separator else [allowed])]
    who = ["*"] if "*" in names else [each for name in names for each in (name, f"role:{name}")]
    for action in element.get("action", "*").replace(",", " ").split():
        if action in UNSAID:
            found.notes.append(f"<access_rule action={action}> has no counterpart")
        elif action not in ACTIONS:
            raise ImportRefused(f"<access_rule action={action}> is no action of Apollo")
        else:
            _allow(who, list(ACTIONS[action]), element, found)


def _allow(who: list[str], may: list[str], element: Element, found: Imported) -> None:
    name = element.get("id", EVERYTHING)
    pattern = EVERYTHING if name == "*" else name
    for kind in element.get("kind", "*").replace(",", " ").split():
        if kind == "*":
            found.allow(who, may, pattern)
        elif kind in WITHOUT_DESTINATION:
            found.allow(who, ["connect"], EVERYTHING)
        elif kind in KINDS:
            found.allow(who, may, f"{kind}:{pattern}")
        else:
            found.notes.append(f"<access_rule kind={kind}> has no counterpart")


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
    _note_parts(element, found)


def _read_durable(element: Element, found: Imported) -> None:
    queue = named(element, QUEUE_NAMES, found, skipped=tuple(NEEDLESS))
    found.add("queue", {**queue, "id": DURABLE + str(queue.get("id", EVERYTHING))})


def _read_topic(element: Element, found: Imported) -> None:
    found.add("topic", {"id": EVERYTHING} | named(element, TOPIC_NAMES, found))
    _note_parts(element, found)


def _note_parts(element: Element, found: Imported) -> None:
    names = [local_name(child) for child in element]
    found.notes += [f"<{name}> of a {local_name(element)} has no counterpart" for name in names]
