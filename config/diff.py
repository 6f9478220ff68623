"""Changes: what differs between two configurations, in words, and what a reload can change.

Entries of a list are identified by their `id` or `name`, permissions by their place, counted from 0
as in the problems that `load` reports. The order of entries matters: the first `queue` or `topic`
entry that matches a name is its policy, and the first `virtual_host` serves clients that name none.
So a changed order is reported, too. A reload can add a virtual host or change its host names. A
virtual host that is removed stays until a restart. The change of a secret is reported, but not the
secret. Where the broker listens, where and how it keeps its messages, its name and how its threads
share the processor cannot change while it runs: a reload leaves those as they are and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import SecretStr

from covey.config.connectors import ConnectorSettings
from covey.config.settings import Settings, VirtualHostSettings

FIXED_TABLES: Final = ("event_log", "telemetry", "cluster")
FIXED_IN_STORE: Final = ("kind", "path", "dsn", "allow_unsafe", "journal_size")
FIXED_IN_BROKER: Final = (
    "id", "workers", "work_per_turn", "work_per_turn_max", "work_per_turn_ms", "busy_poll_us",
    "switch_interval_ms",
)  # fmt: skip
FIXED_IN_CONNECTOR: Final = ("protocol", "bind", "proxy_protocol")
ABSENT: Final = "nothing"


def changes(old: Settings, new: Settings) -> list[str]:
    """Return a line for each value that differs; for a new or removed entry, its given values."""
    before = _flat(old.model_dump(by_alias=True), "")
    after = _flat(new.model_dump(by_alias=True), "")
    known = set(map(_entry, before)) & set(map(_entry, after))
    given = {
        *_flat(old.model_dump(by_alias=True, exclude_unset=True), ""),
        *_flat(new.model_dump(by_alias=True, exclude_unset=True), ""),
    }
    keys = [*before, *[key for key in after if key not in before]]
    values = [
        _line(key, before.get(key, ABSENT), after.get(key, ABSENT))
        for key in keys
        if before.get(key, ABSENT) != after.get(key, ABSENT)
        and (_entry(key) in known or key in given)
    ]
    return [
        *values,
        *_order(
            "virtual_host",
            [entry.id for entry in old.virtual_hosts],
            [entry.id for entry in new.virtual_hosts],
        ),
        *_order("queue", [entry.id for entry in old.queues], [entry.id for entry in new.queues]),
        *_order("topic", [entry.id for entry in old.topics], [entry.id for entry in new.topics]),
    ]


def reloadable(old: Settings, new: Settings) -> tuple[Settings, list[str]]:
    """Return the new settings as far as a running broker can apply them, and what it cannot."""
    update: dict[str, object] = {name: getattr(old, name) for name in FIXED_TABLES}
    fixed = {name: getattr(old.broker, name) for name in FIXED_IN_BROKER}
    update["broker"] = new.broker.model_copy(update=fixed)
    kept = {name: getattr(old.store, name) for name in FIXED_IN_STORE}
    update["store"] = new.store.model_copy(update=kept)
    update["virtual_hosts"] = _virtual_hosts(old, new)
    update["connectors"] = tuple([_connector(entry, new) for entry in old.connectors])
    taken = new.model_copy(update=update)
    return taken, changes(taken, new)


def _virtual_hosts(old: Settings, new: Settings) -> tuple[VirtualHostSettings, ...]:
    """Return the present virtual hosts with their new names, then the added ones; keep all."""
    wanted = {entry.id: entry for entry in new.virtual_hosts}
    stay = [wanted.get(entry.id, entry) for entry in old.virtual_hosts]
    known = {entry.id for entry in stay}
    merged = (*stay, *[entry for entry in new.virtual_hosts if entry.id not in known])
    names = [name for entry in merged for name in entry.host_names]
    return merged if len(names) == len(set(names)) else old.virtual_hosts


def _connector(old: ConnectorSettings, new: Settings) -> ConnectorSettings:
    """Return a connector with its new options; a connector that is removed stays as it is."""
    for entry in new.connectors:
        if entry.id == old.id and bool(entry.tls) == bool(old.tls):
            fixed = {name: getattr(old, name) for name in FIXED_IN_CONNECTOR}
            return entry.model_copy(update=fixed)
    return old


def _order(table: str, before: list[str], after: list[str]) -> list[str]:
    """Return a line with the new order of the entries that stay, if the order has changed."""
    stayed = [name for name in before if name in after]
    placed = [name for name in after if name in before]
    return [] if stayed == placed else [f"{table}: in the order {', '.join(placed)}"]


def _flat(node: object, path: str) -> dict[str, object]:
    """Return every value under its full name, `queue[orders.**].groups.strategy`."""
    if isinstance(node, Mapping):
        parts = [_flat(value, f"{path}.{key}" if path else str(key)) for key, value in node.items()]
    elif isinstance(node, Sequence) and node and isinstance(node[0], Mapping):
        parts = [_flat(entry, f"{path}[{_name(entry, at)}]") for at, entry in enumerate(node)]
    else:
        return {path: node}
    return {key: value for part in parts for key, value in part.items()}


def _entry(key: str) -> str:
    """Return the list entry that a key belongs to; for a key outside of lists, the key itself."""
    entry, bracket, _ = key.partition("].")
    return entry if bracket else key


def _name(entry: Mapping[str, object], at: int) -> str:
    return str(entry.get("id") or entry.get("name") or at)


def _line(key: str, before: object, after: object) -> str:
    if isinstance(before, SecretStr) or isinstance(after, SecretStr):
        return f"{key}: changed"
    return f"{key}: {_text(before)} -> {_text(after)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join([str(each) for each in value])}]"
    return ABSENT if value is None or value == ABSENT else str(value)
