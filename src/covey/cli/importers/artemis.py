"""Artemis' `broker.xml`: acceptors, addresses and queues, address settings, security settings.

- Address settings add up in Artemis, from the widest match to the narrowest; here the first entry
  that fits a name holds alone. So each entry is written with all that it inherits, the narrowest
  first. `#` is our `**`.
- Security settings do not add up: the narrowest holds alone (`access.closed`).
- A full address that pages its messages out (`PAGE`) needs no limit here: bodies leave memory.
- A whole file asks for a login and allows what its security settings say, unless
  `security-enabled` is false. A snippet says nothing about that.
- `wildcard-addresses` may give the delimiter and the wildcards other characters.
- Users are in `artemis-users.properties` and `artemis-roles.properties` beside the file.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from xml.etree.ElementTree import Element

from covey.cli.importers.access import Entry, closed, covers, write
from covey.cli.importers.imported import (
    NEEDS_CERTIFICATE,
    Imported,
    local_name,
    named,
    size_of,
    value_of,
)

MARKS: Final = frozenset(
    {"acceptors", "address-settings", "security-settings", "addresses", "address-setting"}
)
ROOTS: Final = frozenset({"configuration", "core"})

FULL_POLICIES: Final = {"BLOCK": "block", "FAIL": "reject", "DROP": "drop tail"}
PAGED: Final = (
    "address-full-policy PAGE needs no limit here: bodies beyond memory_window_queue leave memory"
)
SETTINGS: Final = {
    "dead-letter-address": "dlq",
    "max-delivery-attempts": "nak_limit",
    "redelivery-delay": "redelivery_delay_ms",
    "redelivery-delay-multiplier": "redelivery_backoff",
    "max-redelivery-delay": "redelivery_delay_max_ms",
    "max-size-messages": "quota_messages",
    "max-size-bytes": "quota",
    "default-ring-size": "quota_messages",
    "default-last-value-key": "lvq_key",
    "default-group-buckets": "groups.bucket_count",
    "default-consumers-before-dispatch": "groups.consumers_before_dispatch",
    "default-delay-before-dispatch": "groups.time_before_dispatch_ms",
}
QUEUE_ATTRIBUTES: Final = {
    "ring-size": "quota_messages",
    "last-value-key": "lvq_key",
    "group-buckets": "groups.bucket_count",
    "consumers-before-dispatch": "groups.consumers_before_dispatch",
    "delay-before-dispatch": "groups.time_before_dispatch_ms",
}
DECIMAL: Final = re.compile(r"[0-9]+(\.[0-9]+)?")
# What is read elsewhere, or is so here with these values; "" stands for any.
UNDERSTOOD: Final = {
    "address-full-policy": "",
    "expiry-address": "",
    "auto-create-queues": "true",
    "auto-create-addresses": "true",
    "auto-delete-queues": "",
    "auto-delete-addresses": "",
    "default-address-routing-type": "ANYCAST",
    "default-queue-routing-type": "ANYCAST",
    "default-group-rebalance": "false",
    "default-group-first-key": "JMSXGroupFirstForConsumer",
}
AUTO_CREATE: Final = ("auto-create-queues", "auto-create-addresses")
WORDS: Final = {"delimiter": ".", "any-words": "#", "single-word": "*"}
OPEN: Final = (
    "security-enabled is false, so security-settings meant nothing: here users log in all the same"
)
VERBS: Final = {
    "send": ("send",),
    "consume": ("consume",),
    "browse": ("browse",),
    "createAddress": ("create",),
    "createDurableQueue": ("create",),
    "createNonDurableQueue": ("create",),
    "deleteAddress": ("destroy",),
    "deleteDurableQueue": ("destroy",),
    "deleteNonDurableQueue": ("destroy",),
    "manage": ("manage",),
}
NO_LIMIT: Final = -1
ATTEMPTS: Final = 10  # Artemis' own, where max-delivery-attempts is not said
DEFAULT_PORT: Final = 61616
PORT: Final = re.compile(r"[:}][^\]]*$")  # the placeholder of a whole place may hold a port
SPOKEN: Final = {"STOMP": "stomp", "AMQP": "amqp"}


def read(root: Element, found: Imported) -> None:
    """Read a whole file, or any part of one."""
    readers = {
        "acceptors": _read_acceptors,
        "address-settings": _read_settings,
        "security-settings": _read_security,
        "addresses": _read_addresses,
    }
    name = local_name(root)
    if name in readers:
        readers[name](root, found)
    elif name == "address-setting":
        _write_settings([root], found)
    elif name in ROOTS:
        _say_wildcards_as_usual(root)
        _look_at_security(root, found)
        # Policies first, so that an address with settings of its own goes before them.
        for child in sorted(root, key=lambda each: list(readers).index(local_name(each))
                            if local_name(each) in readers else -1):  # fmt: skip
            if local_name(child) not in ("security-enabled", "wildcard-addresses", "name"):
                read(child, found)
    elif name:
        found.notes.append(f"<{name}> has no counterpart")


def _look_at_security(core: Element, found: Imported) -> None:
    """Find out whether a whole file keeps anybody out."""
    parts = {local_name(child): child for child in core}
    if "acceptors" not in parts:
        return
    enabled = parts.get("security-enabled")
    if enabled is not None and (enabled.text or "").strip() == "false":
        found.notes.append(OPEN)
        if "security-settings" in parts:
            core.remove(parts["security-settings"])
        return
    found.asks_for_login = True
    if "security-settings" not in parts:
        write([], found)  # without settings nobody may do anything


def _say_wildcards_as_usual(core: Element) -> None:
    """Write every match with Artemis' usual characters, if the file has chosen others."""
    words = dict(WORDS)
    for child in core:
        if local_name(child) == "wildcard-addresses":
            words |= {local_name(one): (one.text or "").strip() for one in child}
    if words == WORDS:
        return
    usual = {words["any-words"]: "#", words["single-word"]: "*"}
    for setting in core.iter():
        match = setting.get("match")
        if match is not None and words["delimiter"]:
            levels = match.split(words["delimiter"])
            setting.set("match", ".".join(usual.get(level, level) for level in levels))


def _read_acceptors(element: Element, found: Imported) -> None:
    acceptors = [_Acceptor(child, found) for child in element if local_name(child)]
    alone = {one.spoken[0] for one in acceptors if one.is_tcp and one.is_of_one_protocol}
    for acceptor in acceptors:
        if not acceptor.is_tcp:
            found.notes.append(f"acceptor {acceptor.name}: {acceptor.scheme} is not spoken here")
        elif acceptor.is_tls:
            found.notes.append(f"acceptor {acceptor.name}: {NEEDS_CERTIFICATE}")
        elif not acceptor.spoken:
            found.notes.append(f"acceptor {acceptor.name}: {acceptor.protocols} is not spoken here")
        elif not acceptor.is_of_one_protocol and alone >= set(acceptor.spoken):
            found.notes.append(
                f"acceptor {acceptor.name}: a port speaks one protocol here; others have these"
            )
        else:
            acceptor.write(found)


class _Acceptor:
    """One acceptor: `tcp://0.0.0.0:61613?protocols=STOMP;useEpoll=true`."""

    def __init__(self, element: Element, found: Imported) -> None:
        text = found.resolved((element.text or "").strip())
        url = urlsplit(text)
        self.name = element.get("name") or "acceptor"
        self.scheme = url.scheme
        self.bind = url.netloc if PORT.search(url.netloc) else f"{url.netloc}:{DEFAULT_PORT}"
        self.options = dict(parse_qsl(url.query.replace(";", "&")))
        self.protocols = self.options.pop("protocols", "CORE,AMQP,STOMP,OPENWIRE,MQTT")
        self.spoken = [SPOKEN[each] for each in self.protocols.split(",") if each in SPOKEN]
        self.is_tls = self.options.pop("sslEnabled", "false") == "true"

    @property
    def is_tcp(self) -> bool:
        """True unless it is for clients in the same process (`vm://0`)."""
        return self.scheme in ("tcp", "netty")

    @property
    def is_of_one_protocol(self) -> bool:
        """True if nothing else is spoken there, and we speak it, too."""
        return len(self.spoken) == 1 and "," not in self.protocols and not self.is_tls

    def write(self, found: Imported) -> None:
        """Add the connector; of several protocols it speaks the first."""
        connector: dict[str, Any] = {"id": self.name, "protocol": self.spoken[0], "bind": self.bind}
        limit = self.options.get("connectionsAllowed", "")
        if limit.isdigit():
            connector["connections_max"] = int(limit)
        others = [name for name in self.options if name != "connectionsAllowed"]
        if others:
            found.notes.append(
                f"acceptor {self.name}: {', '.join(others)}: options without a counterpart"
            )
        if len(self.spoken) > 1:
            found.notes.append(f"acceptor {self.name}: a port speaks one protocol here")
        found.add("connector", connector)


def _read_settings(element: Element, found: Imported) -> None:
    _write_settings([child for child in element if local_name(child) == "address-setting"], found)


def _write_settings(elements: list[Element], found: Imported) -> None:
    """Write an entry for each match with all that it inherits, the narrowest first."""
    values = {_pattern(each.get("match", "#")): _values(each, found) for each in elements}
    for pattern in sorted(values, key=_narrowness):
        inherited: dict[str, str] = {}
        for wide in sorted(values, key=_narrowness, reverse=True):
            if covers(wide, pattern):
                inherited |= values[wide]
        found.add("queue", {"id": pattern, **_policy(inherited, found)})


def _values(element: Element, found: Imported) -> dict[str, str]:
    values = {
        local_name(child): found.resolved((child.text or "").strip())
        for child in element
        if local_name(child)
    }
    for name, value in values.items():
        if name in SETTINGS or (name in UNDERSTOOD and UNDERSTOOD[name] in ("", value)):
            continue
        if name in AUTO_CREATE:
            found.notes.append(f"{name} {value}: auto_create of [broker] is about all names")
            continue
        told = f" {value}" if name in UNDERSTOOD else ""
        found.notes.append(f"<address-setting {name}>{told} has no counterpart")
    return values


def _policy(values: dict[str, str], found: Imported) -> dict[str, Any]:
    """Return a queue's policy for all that holds for an address."""
    policy: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    is_paged = values.get("address-full-policy", "PAGE") == "PAGE"
    for theirs, ours in SETTINGS.items():
        if theirs in values and value_of(values[theirs]) not in (NO_LIMIT, "-1", ""):
            _set(ours, value_of(values[theirs]), policy, groups)
    if "dlq" in policy and "max-delivery-attempts" not in values:
        policy["nak_limit"] = ATTEMPTS
    if is_paged and (policy.pop("quota", None) or policy.pop("quota_messages", None)):
        found.notes.append(PAGED)
    elif "address-full-policy" in values and not is_paged:
        theirs = values["address-full-policy"]
        policy["full_policy"] = FULL_POLICIES.get(theirs, theirs)  # what is none is refused by name
    if values.get("default-ring-size", "-1") != "-1":
        ring = value_of(values["default-ring-size"])
        policy |= {"quota_messages": ring, "full_policy": "drop head"}
    if "expiry-address" in values:
        policy |= _expired(values, policy, found)
    if values.get("auto-delete-queues") == "false":
        policy["auto_delete_after_s"] = 0
    _finish(policy, groups, found)
    return policy


def _expired(values: dict[str, str], policy: dict[str, Any], found: Imported) -> dict[str, Any]:
    """Expired messages go where dead ones go, or nowhere."""
    target = values["expiry-address"]
    if target == policy.get("dlq"):
        return {"dlq_expired": True}
    if "dlq" not in policy:
        found.notes.append(f"expired messages went to {target}: here they go where dead ones do")
        return {"dlq": target, "dlq_expired": True}
    found.notes.append(f"expired messages went to {target}: here they are dropped (dlq_expired)")
    return {}


def _set(name: str, value: object, policy: dict[str, Any], groups: dict[str, Any]) -> None:
    if name.startswith("groups."):
        groups[name.removeprefix("groups.")] = value
    elif name == "quota":
        policy[name] = value_of(size_of(str(value)))
    elif name == "redelivery_backoff" and DECIMAL.fullmatch(str(value)):
        policy[name] = float(str(value))
    else:
        policy[name] = value


def _finish(policy: dict[str, Any], groups: dict[str, Any], found: Imported) -> None:
    """Groups stick to their consumer in Artemis; with buckets, the bucket does."""
    groups["strategy"] = "hash-buckets" if "bucket_count" in groups else "simple"
    policy["groups"] = groups
    if "lvq_key" in policy:
        del policy["groups"]
        found.notes.append("message groups of a last-value queue have no counterpart")


def _read_addresses(element: Element, found: Imported) -> None:
    for address in element:
        name = address.get("name", "")
        if local_name(address) and name:
            is_topic = any(local_name(routing) == "multicast" for routing in address)
            found.need_no_entry("topic" if is_topic else "queue", name)
            named(address, {}, found, skipped=("name",))
        for routing in address:
            queues = [child for child in routing if local_name(child) == "queue"]
            if local_name(routing) == "multicast":
                for queue in queues:
                    _note_subscription(name, queue, found)
                continue
            for queue in queues:
                _read_queue(name, queue, found)


def _note_subscription(topic: str, queue: Element, found: Imported) -> None:
    """A topic's queue is a durable subscription, which its client makes with what it wants."""
    told = [f"{key}={value}" for key, value in queue.attrib.items() if key != "name"]
    told += [f"{local_name(each)}={each.get('string', each.text or '')}" for each in queue]
    found.notes.append(
        f"queue {queue.get('name')} of topic {topic}: here a durable subscription, which its client"
        f" makes{'; without ' if told else ''}{', '.join(told)}"
    )


def _read_queue(address: str, element: Element, found: Imported) -> None:
    """Read a queue that says more than its address' settings do."""
    name = element.get("name", "")
    if name != address:
        found.notes.append(f"queue {name} of address {address}: here a queue is its own address")
    policy: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for theirs, text in element.attrib.items():
        if theirs in QUEUE_ATTRIBUTES:
            _set(QUEUE_ATTRIBUTES[theirs], value_of(text), policy, groups)
        elif theirs != "name":
            found.notes.append(f"queue {name}: {theirs} has no counterpart")
    for child in element:
        if local_name(child) == "filter":
            selector = child.get("string", "")
            found.notes.append(f"queue {name}: its filter {selector!r} has no counterpart")
        elif local_name(child) == "durable":
            if (child.text or "").strip() == "false":
                policy["durable"] = False
        elif local_name(child):
            found.notes.append(f"queue {name}: {local_name(child)} has no counterpart")
    if "ring-size" in element.attrib:
        policy["full_policy"] = "drop head"
    if policy or groups:
        entries = found.tables.setdefault("queue", [])
        wide: dict[str, Any] = next(
            (entry for entry in entries if covers(entry["id"], name)), {"groups": {}}
        )
        merged = {**wide, "id": name, **policy}
        merged["groups"] = {**wide.get("groups", {}), **groups}
        if "bucket_count" in groups:
            merged["groups"]["strategy"] = "hash-buckets"
        if "lvq_key" in merged:
            del merged["groups"]
        entries.insert(0, merged)


def _read_security(element: Element, found: Imported) -> None:
    entries = []
    for setting in element:
        if local_name(setting) != "security-setting":
            found.notes.append(f"<{local_name(setting)}> has no counterpart")
            continue
        verbs: dict[str, frozenset[str]] = {}
        for permission in setting:
            ours = VERBS.get(permission.get("type", ""))
            roles = found.resolved(permission.get("roles", ""))
            if ours is None:
                kind = permission.get("type")
                found.notes.append(f"permission {kind} of {roles} has no counterpart")
                continue
            for role in roles.split(","):
                if role.strip():
                    verbs[role.strip()] = verbs.get(role.strip(), frozenset()) | frozenset(ours)
        pattern = _pattern(setting.get("match", "#"))
        entries.append(Entry(pattern, "", verbs))
        if pattern.endswith(".**"):  # `a.#` means `a` as well
            entries.append(Entry(pattern.removesuffix(".**"), "", verbs))
    write(closed(entries, found), found)


def _pattern(match: str) -> str:
    return ".".join("**" if level == "#" else level for level in match.split("."))


def _narrowness(pattern: str) -> tuple[bool, bool, int]:
    """Order exact names first, the widest pattern last."""
    return "**" in pattern, "*" in pattern, -pattern.count(".")
