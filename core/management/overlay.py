"""Overlay: users, permissions and policies that operators set while the broker runs.

The configuration file belongs to the operator, and the broker never writes it. The broker keeps
what is set at run time as named records of the virtual host through which it was set. These entries
lie over the file:

- A user or a policy of the same name replaces the file's. Removing it brings the file's back. An
  entry that only the file has can only be removed there.
- Policies set at run time come before those of the file: exact names first, then narrow patterns.
- Permissions have names here, and add to those of the file.

All or nothing: an entry that makes no sense together with the file is refused, and nothing changes.
A change that would leave no admin is refused, too. A reload keeps the overlay. `describe` says
where each entry comes from.

Other processes of the same configuration (workers) have overlays, too. All overlays hold in each
process. A process tells the others what was set in it (`Shared.entry_changed`), and they tell it.

In a cluster the records of all virtual hosts are in one database. Each broker reads those of the
virtual hosts that others serve (`hear_all`), so all of them hold everywhere. The newest entry of a
name holds (`core.management.entries`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

from cachetools import LRUCache
from pydantic import BaseModel, ValidationError

from covey.config.explain import cause
from covey.config.queues import QueueSettings
from covey.config.settings import CLUSTER_HOST, PermissionSettings, Settings, UserSettings
from covey.core.broker.broker import Broker
from covey.core.broker.shared import Entries
from covey.core.errors import RefusedError
from covey.core.management.describe import Attributes, Plain
from covey.core.management.entries import AT, REMOVED, Fields, age, in_force, later
from covey.core.management.reload import reconfigure
from covey.core.management.settings_check import flaws
from covey.core.security.passwords import RECORD_PREFIX, make_record
from covey.core.security.users import ADMIN

USER: Final = "user"
PERMISSION: Final = "permission"
POLICY: Final = "policy"
KINDS: Final = (USER, PERMISSION, POLICY)
FILE: Final = "file"
RUN_TIME: Final = "run time"
BOTH: Final = "run time, over the file's"
FIELDS: Final = {USER: ("password", "roles"), PERMISSION: ("who", "may", "on")}
Model = TypeVar("Model", bound=BaseModel)
ENTRIES_MAX: Final = 10_000  # of one kind; each is read at every start and reload
CACHED_MAX: Final = 3 * ENTRIES_MAX
_models: LRUCache[str, tuple[Fields, BaseModel]] = LRUCache(CACHED_MAX)


class Overlay:
    """What was set at run time, over the settings of the file."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        """Join the entries of all brokers of a process; the first one keeps what is set here."""
        self.brokers = brokers
        self.file: Settings = brokers[0].shared.file_settings

    def entries(self, kind: str) -> dict[str, Fields]:
        """Return what was set of a kind and holds, by name, here or in another process."""
        own = [self._kept(broker, kind) for broker in self.brokers]
        return in_force([*self._elsewhere(kind), *own])

    def own_entries(self, kind: str) -> dict[str, Fields]:
        """Return what was set of a kind in this process, by name."""
        found: dict[str, Fields] = {}
        for broker in self.brokers:
            found |= self._kept(broker, kind)
        return found

    def _kept(self, broker: Broker, kind: str) -> dict[str, Fields]:
        """Return what a virtual host keeps of a kind."""
        records = broker.commits.ledger.records_of(broker.host.id, kind)
        return {name: _parsed(value) for name, value in records.items()}

    def _elsewhere(self, kind: str) -> list[dict[str, Fields]]:
        """Return what other processes keep; what they had of a host of ours is out of date."""
        shared = self.brokers[0].shared
        ours = set() if shared.cluster is None else {broker.host.id for broker in self.brokers}
        return [each.get(kind, {}) for place, each in shared.elsewhere.items() if place not in ours]

    def settings(self, file: Settings) -> Settings:
        """Return the settings in force: those of a file, and what lies over them."""
        return _merged(file, {kind: self.entries(kind) for kind in KINDS})

    def put(self, kind: str, name: str, fields: Mapping[str, object], now: float) -> None:
        """Set an entry; a field that `fields` does not name stays, None removes a field."""
        self._check_keeper(kind)
        entries = self.entries(kind)
        known = entries.get(name) or self._of_file(kind, name)
        if len(entries) >= ENTRIES_MAX and name not in entries:
            raise RefusedError(f"there are {ENTRIES_MAX} {kind} entries already", "limit")
        wanted = _joined(known, _fields(kind, name, fields))
        for path, text in flaws(_alone(self.file, kind, name, wanted)):
            raise RefusedError(f"{path[0]}: {text}", "invalid")
        self._apply({kind: {**entries, name: wanted}}, now)
        self._keep(kind, name, wanted)
        self._tell(kind, name, wanted)

    def remove(self, kind: str, name: str, now: float) -> None:
        """Remove an entry; the file's entry of the same name, if any, holds again."""
        self._check_keeper(kind)
        entries = self.entries(kind)
        if name not in entries:
            if self._of_file(kind, name):
                raise RefusedError(f"{kind} {name} is in the configuration file only", "conflict")
            raise RefusedError(f"there is no {kind} {name}", "not-found")
        del entries[name]
        self._apply({kind: entries}, now)
        if self.brokers[0].shared.cluster and any(name in each for each in self._elsewhere(kind)):
            self._keep(kind, name, {REMOVED: True})
        else:
            self._forget(kind, name)
        self._tell(kind, name, None)

    def hear(self, place: str, entries: Entries, now: float) -> None:
        """Apply all entries of another process; raises RefusedError if they make no sense."""
        self.brokers[0].shared.elsewhere[place] = entries
        reconfigure(self.brokers, self.settings(self.file), now)

    def hear_change(
        self, place: str, kind: str, name: str, fields: dict[str, object] | None, now: float
    ) -> None:
        """Called when another process has set or removed an entry; this one keeps it no longer."""
        self._forget(kind, name)
        self._drop_elsewhere(kind, name)
        entries = self.brokers[0].shared.elsewhere.get(place, {})
        if fields is not None:
            entries.setdefault(kind, {})[name] = fields
        self.hear(place, entries, now)

    def hear_all(self, places: Mapping[str, Entries], now: float) -> None:
        """Apply what virtual hosts keep that other brokers of the cluster serve.

        What is out of date is no longer kept by the virtual hosts that are served here. Raises
        RefusedError if the entries make no sense together with this broker's file.
        """
        self.brokers[0].shared.elsewhere = dict(places)
        for kind in KINDS:
            self._tidy(kind)
        reconfigure(self.brokers, self.settings(self.file), now)

    def _tidy(self, kind: str) -> None:
        """Forget entries that newer ones have replaced, and notes of removals that are done."""
        others = self._elsewhere(kind)
        kept = [(broker, self._kept(broker, kind)) for broker in self.brokers]
        for broker, entries in kept:
            for name, fields in entries.items():
                rivals = [place[name] for place in others if name in place]
                rivals += [own[name] for one, own in kept if one is not broker and name in own]
                is_done = REMOVED in fields and not rivals
                if is_done or any(age(each) > age(fields) for each in rivals):
                    broker.commits.ledger.take_away(broker.host.id, kind, name)

    def _keep(self, kind: str, name: str, fields: Fields) -> None:
        """Have the first broker keep an entry, and no other."""
        keeper = self.brokers[0]
        if keeper.shared.cluster is not None:
            places = [*self._elsewhere(kind), self.own_entries(kind)]
            known = [place[name] for place in places if name in place]
            fields = {**fields, AT: later(keeper.clock.wall_ms, known)}
        self._forget(kind, name, but=keeper)
        keeper.commits.ledger.put(keeper.host.id, kind, name, json.dumps(fields))

    def _check_keeper(self, kind: str) -> None:
        if self.brokers[0].host.id == CLUSTER_HOST.id:
            raise RefusedError(
                f"a {kind} is kept by a virtual host: name one instead of {CLUSTER_HOST.id}",
                "conflict",
            )

    def _tell(self, kind: str, name: str, fields: dict[str, object] | None) -> None:
        self._drop_elsewhere(kind, name)
        self.brokers[0].shared.entry_changed(kind, name, fields)

    def _drop_elsewhere(self, kind: str, name: str) -> None:
        for entries in self.brokers[0].shared.elsewhere.values():
            entries.get(kind, {}).pop(name, None)

    def describe(self, kind: str) -> list[Attributes]:
        """Return every entry in force, with its origin and without secrets."""
        entries = self.entries(kind)
        rows = [
            {"name": name, "type": kind, **_shown(kind, fields), "origin": FILE}
            for name, fields in self._all_of_file(kind)
            if name not in entries
        ]
        for name, fields in entries.items():
            origin = BOTH if self._of_file(kind, name) else RUN_TIME
            rows.append({"name": name, "type": kind, **_shown(kind, fields), "origin": origin})
        rows.sort(key=lambda row: str(row["name"]))
        return rows

    def passwords(self) -> dict[str, str]:
        """Return every user's password as it is kept: a record, or the file's own text."""
        found = {user.name: user.password.get_secret_value() for user in self.file.users}
        for name, fields in self.entries(USER).items():
            found[name] = str(fields.get("password", found.get(name, "")))
        return found

    def _apply(self, changed: dict[str, dict[str, dict[str, object]]], now: float) -> None:
        """Apply changed entries; raises RefusedError, and changes nothing, if they are invalid."""
        entries = {kind: self.entries(kind) for kind in KINDS} | changed
        settings = _merged(self.file, entries)
        if not any(ADMIN in user.roles for user in settings.users):
            raise RefusedError("no user would have the role admin: nobody could manage", "conflict")
        reconfigure(self.brokers, settings, now, are_policies_same=POLICY not in changed)

    def _forget(self, kind: str, name: str, but: Broker | None = None) -> None:
        for broker in self.brokers:
            if broker is not but and name in broker.commits.ledger.records_of(broker.host.id, kind):
                broker.commits.ledger.take_away(broker.host.id, kind, name)

    def _of_file(self, kind: str, name: str) -> dict[str, object]:
        return dict(self._all_of_file(kind)).get(name, {})

    def _all_of_file(self, kind: str) -> list[tuple[str, dict[str, object]]]:
        """Return the file's entries; its permissions have no names, so they get numbers."""
        if kind == USER:
            return [
                (
                    user.name,
                    {"password": user.password.get_secret_value(), "roles": list(user.roles)},
                )
                for user in self.file.users
            ]
        if kind == POLICY:
            queues = self.file.queues
            return [(each.id, _said(each)) for each in queues]
        rules = self.file.permissions
        return [(f"file-{at}", _said(rule)) for at, rule in enumerate(rules, 1)]


def record_of(password: str) -> str:
    """Return the record of a password that is kept as a record or in clear text."""
    return password if password.startswith(RECORD_PREFIX) else make_record(password).text()


def overlay_of(broker: Broker) -> Overlay:
    """Return the overlay of a broker's process; this broker keeps what is set through it."""
    others = [each for each in broker.shared.brokers if each is not broker]
    return Overlay([broker, *others])


def take_over(
    brokers: Sequence[Broker],
    file: Settings,
    now: float,
    then: Callable[[list[str]], None] | None = None,
) -> list[str]:
    """Apply a file's settings and the overlay; return what could not change, and why.

    With very many queues that takes a while: `then` is called with the whole list at the end.
    """
    notes = reconfigure(brokers, Overlay(brokers).settings(file), now, then)
    brokers[0].shared.file_settings = file
    return notes


def _merged(file: Settings, entries: dict[str, dict[str, dict[str, object]]]) -> Settings:
    users = {user.name: user for user in file.users}
    for name, fields in entries[USER].items():
        users[name] = _model(UserSettings, f"user {name}", {"name": name, **fields})
    rules = [
        _model(PermissionSettings, f"permission {name}", fields)
        for name, fields in entries[PERMISSION].items()
    ]
    policies = [
        _model(QueueSettings, f"policy {name}", {**fields, "id": name})
        for name, fields in sorted(entries[POLICY].items(), key=lambda entry: _width(entry[0]))
    ]
    others = [each for each in file.queues if each.id not in entries[POLICY]]
    return file.model_copy(
        update={
            "users": tuple(users.values()),
            "permissions": (*file.permissions, *rules),
            "queues": (*policies, *others),
        }
    )


def _alone(file: Settings, kind: str, name: str, fields: Fields) -> Settings:
    """Return settings with one entry only: the file and all other entries were checked before."""
    entries: dict[str, dict[str, Fields]] = {each: {} for each in KINDS}
    nothing = {"queues": (), "topics": (), "users": (), "permissions": ()}
    return _merged(file.model_copy(update=nothing), entries | {kind: {name: fields}})


@lru_cache(CACHED_MAX)
def _parsed(text: str) -> Fields:
    """Return the fields of a record; nobody changes them."""
    parsed: Fields = json.loads(text)
    return parsed


def _width(pattern: str) -> tuple[bool, bool, int, str]:
    """Order exact names first, the widest pattern last."""
    return "**" in pattern, "*" in pattern or "{" in pattern, -pattern.count("."), pattern


def _model(kind: type[Model], title: str, fields: Mapping[str, object]) -> Model:
    """Return an entry as settings, made once: a change of one entry leaves the others."""
    known = _models.get(title)
    if known is not None and known[0] == fields and isinstance(known[1], kind):
        return known[1]
    try:
        made = kind.model_validate(dict(fields))
        _models[title] = (dict(fields), made)
        return made
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RefusedError(f"{title}: {place}: {cause(first)}", "invalid") from error


def _fields(kind: str, name: str, fields: Mapping[str, object]) -> dict[str, object]:
    """Return what is kept of an entry: known fields only, and a password only as its record."""
    known = FIELDS.get(kind)
    unknown = [field for field in fields if known is not None and field not in known]
    if unknown:
        raise RefusedError(f"a {kind} has no {unknown[0]}", "invalid")
    kept = dict(fields)
    for key, value in fields.items():
        if isinstance(value, tuple):
            kept[key] = list(value)
    password = kept.get("password")
    if password is not None:
        if not isinstance(password, str) or not password:
            raise RefusedError(f"user {name}: a password is a text", "invalid")
        kept["password"] = record_of(password)
    return kept


def _joined(known: Mapping[str, object], fields: Mapping[str, object]) -> dict[str, object]:
    """Return an entry with some fields changed; fields of an inner table are changed one by one."""
    joined = dict(known)
    for key, value in fields.items():
        before = joined.get(key)
        if value is None:
            joined.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            joined[key] = _joined(before, value)
        else:
            joined[key] = value
    return joined


def _said(model: BaseModel) -> dict[str, object]:
    """Return what an entry of the file says, as plain data."""
    said: dict[str, object] = model.model_dump(mode="json", exclude_unset=True)
    said.pop("id", None)
    return said


def _shown(kind: str, fields: Mapping[str, object]) -> dict[str, Plain]:
    if kind == POLICY:
        return {"settings": _plain(fields)}
    names = FIELDS[kind]
    default: dict[str, object] = {"on": "**", "roles": []}
    return {
        name: _plain(fields.get(name, default.get(name))) for name in names if name != "password"
    }


def _plain(value: object) -> Plain:
    """Return parsed JSON as what front ends write."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float | str) else None
