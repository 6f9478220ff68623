"""Artemis' `broker.xml`: acceptors, addresses and queues, address settings, security settings.

- Address settings add up in Artemis, from the widest match to the narrowest; here the first entry
  that fits a name holds alone. So each entry is written with all that it inherits, the narrowest
  first. `#` is our `**`.
- Security settings do not add up: the narrowest holds alone (`access.closed`).
- A full address that pages its messages out (`PAGE`) needs no limit here: bodies leave memory.
- Users are in `artemis-users.properties` and `artemis-roles.properties` beside the file.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit
from xml.etree.ElementTree import Element

from covey.cli.importers.access import Entry, closed, covers, write
from covey.cli.importers.imported import NEEDS_CERTIFICATE, Imported, local_name, value_of

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
# What is read elsewhere, or is what happens here anyway.
UNDERSTOOD: Final = frozenset(
    {"address-full-policy", "expiry-address", "auto-create-queues", "auto-create-addresses",
     "default-address-routing-type", "default-queue-routing-type", "enable-metrics",
     "default-group-rebalance", "default-group-first-key", "auto-delete-queues",
     "page-size-bytes", "message-counter-history-day-limit", "auto-delete-addresses"}
)  # fmt: skip
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
        # Policies first, so that an address with settings of its own goes before them.
        for child in sorted(root, key=lambda each: list(readers).index(local_name(each))
                            if local_name(each) in readers else -1):  # fmt: skip
            read(child, found)
    elif name:
        found.notes.append(f"<{name}> has no counterpart")


def _read_acceptors(element: Element, found: Imported) -> None:
    acceptors = [_Acceptor(child, found) for child in element if local_name(child)]
    alone = {one.spoken[0] for one in acceptors if one.is_of_one_protocol}
    for acceptor in acceptors:
        if acceptor.is_tls:
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
        self.name = element.get("name", "")
        self.bind = url.netloc
        self.options = dict(parse_qsl(url.query.replace(";", "&")))
        self.protocols = self.options.pop("protocols", "CORE,AMQP,STOMP,OPENWIRE,MQTT")
        self.spoken = [SPOKEN[each] for each in self.protocols.split(",") if each in SPOKEN]
        self.is_tls = self.options.pop("sslEnabled", "false") == "true"

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
    for name in values:
        if name not in SETTINGS and name not in UNDERSTOOD:
            found.notes.append(f"<{name}> of an address-setting has no counterpart")
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
        policy["full_policy"] = FULL_POLICIES[values["address-full-policy"]]
    if "default-ring-size" in values and values["default-ring-size"] != "-1":
        policy |= {"quota_messages": int(values["default-ring-size"]), "full_policy": "drop head"}
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
    else:
        policy[name] = float(str(value)) if name == "redelivery_backoff" else value


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
        for routing in address:
            queues = [child for child in routing if local_name(child) == "queue"]
            if local_name(routing) == "multicast":
                found.notes += [
                    f"queue {each.get('name')} of topic {name}: here a durable subscription, which"
                    " its client makes"
                    for each in queues
                ]
                continue
            for queue in queues:
                _read_queue(name, queue, found)


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
            found.notes.append(f"queue {name}: its filter has no counterpart")
        elif local_name(child) == "durable" and (child.text or "").strip() == "false":
            policy["durable"] = False
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
            if ours is None:
                found.notes.append(f"permission {permission.get('type')} has no counterpart")
                continue
            for role in found.resolved(permission.get("roles", "")).split(","):
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
