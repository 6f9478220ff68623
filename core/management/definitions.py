"""Definitions: everything that operators have declared, as one document, out and in again.

| section       | what is in it                                                                 |
|---------------|-------------------------------------------------------------------------------|
| policies      | how queues of a pattern are: those of the file, and those set at run time      |
| queues        | those that were declared, with their arguments                                |
| subscriptions | durable subscriptions, with their topics and selectors                         |
| permissions   | who may do what                                                               |
| users         | with their roles; with the records of their passwords only if that is asked for |

An import makes what is missing and changes what differs, in the order of this table. It deletes
nothing, and leaves alone what is the same already. So it can be repeated. A user that does not
exist is made only if the document has the record of the password. A dry import tells what would be
done, and does nothing.

An import is a job (`core.jobs`), as an export is: a long document goes in portions. The user who
imports needs the right to each single change. An entry that is refused ends the import, with a
sentence that names the entry. The entries before it stay done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from heapq import merge
from typing import Final, NamedTuple

from pydantic import ValidationError

from covey.config.definitions import (
    VERSION,
    Definitions,
    Entry,
    PermissionDefinition,
    PolicyDefinition,
    QueueDefinition,
    SubscriptionDefinition,
    UserDefinition,
)
from covey.core.errors import RefusedError
from covey.core.host.subscription import Durable
from covey.core.jobs.job import LOOK_EVERY, Job, Steps
from covey.core.management import describe
from covey.core.management.admin import Admin
from covey.core.management.describe import Attributes, Plain
from covey.core.management.inspection import SYNTAX
from covey.core.management.overlay import (
    PERMISSION,
    POLICY,
    USER,
    Overlay,
    overlay_of,
    record_of,
)
from covey.core.naming.destination import Destination
from covey.core.security.users import ADMIN, Verb, denied
from covey.core.selector import Selector, compile_selector

NEW: Final = "new"
CHANGE: Final = "change"
SAME: Final = "same"
LEFT: Final = "left alone"
RUN: Final = 1000  # names that are sorted at a time
OF_FILE: Final = "file-"  # prefix for the permissions of a file: there they have no names


def parse(text: str) -> Definitions:
    """Read a document; raises RefusedError that names the place."""
    try:
        return Definitions.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise RefusedError(f"the document at {place[:80]}: {first['msg']}", "invalid") from error


def export(admin: Admin, *, passwords: bool = False) -> Export:
    """Begin an export; only an admin gets the records of passwords."""
    admin.check_manage("broker")
    if passwords and not admin.identity.has_role(ADMIN):
        raise denied(admin.identity, Verb.MANAGE, "users")
    work = Export(admin, passwords=passwords)
    admin.broker.jobs.begin(work)
    return work


def bring_in(admin: Admin, wanted: Definitions, *, dry_run: bool = False) -> Import:
    """Begin an import; the job's `result` tells what was done, once it is over."""
    try:
        admin.check_manage("broker")
    except RefusedError as error:
        _put_on_record(admin, error)
        raise
    work = Import(admin, wanted, dry_run=dry_run)
    if not dry_run:
        work.then(lambda: _put_on_record(admin, work.flaw))
    admin.broker.jobs.begin(work)
    return work


def _put_on_record(admin: Admin, flaw: RefusedError | None) -> None:
    with suppress(RefusedError), admin.acting("import", "broker", ""):
        if flaw is not None:
            raise flaw


class Export(Job):
    """Everything in force, on its way out as a JSON text.

    What is deleted before the export comes to it is left out.
    """

    def __init__(self, admin: Admin, *, passwords: bool) -> None:
        """Prepare an export, with or without the records of passwords."""
        host = admin.host
        super().__init__(
            "export", "definitions", admin.session, len(host.declared) + len(host.durables)
        )
        self.passwords = passwords
        self._admin = admin
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """Return the document, once the job is over."""
        return "".join(self._pieces)

    def steps(self) -> Steps:
        """Write one row after the other."""
        overlay = overlay_of(self._admin.broker)
        policies = [_only(row, "name", "settings") for row in overlay.describe(POLICY)]
        rights = overlay.describe(PERMISSION)
        permissions = [_only(row, "name", "who", "may", "on") for row in rights]
        self._pieces.append(f'{{"version":{_written(VERSION)}')
        yield from self._section("policies", policies)
        names: list[list[str]] = []
        for run in _runs(list(self._admin.host.declared)):
            names.append(sorted(run))
            yield LOOK_EVERY
        yield from self._section("queues", map(self._queue, merge(*names)))
        durables = list(self._admin.host.durables.values())
        yield from self._section("subscriptions", map(self._subscription, durables))
        yield from self._section("permissions", permissions)
        yield from self._users(overlay)
        self._pieces.append("}")

    def _section(self, name: str, rows: Iterable[dict[str, Plain]]) -> Steps:
        opening = f',"{name}":['
        self._pieces.append(opening)
        for row in rows:
            if row:
                self._pieces.append(("" if self._pieces[-1] == opening else ",") + _written(row))
            yield 1
        self._pieces.append("]")

    def _queue(self, name: str) -> dict[str, Plain]:
        host = self._admin.host
        queue = host.queues.get(name)
        if queue is None or name not in host.declared:
            return {}
        return {"name": name, "arguments": describe.queue(queue, host)["arguments"]}

    def _subscription(self, durable: Durable) -> dict[str, Plain]:
        if self._admin.host.durables.get(durable.name) is not durable:
            return {}
        selector = durable.binding.selector
        return {
            "name": durable.name,
            "destinations": [SYNTAX.render(one) for one in durable.destinations],
            "selector": "" if selector is None else selector.text,
        }

    def _users(self, overlay: Overlay) -> Steps:
        kept = overlay.passwords() if self.passwords else {}
        rows: list[dict[str, Plain]] = []
        for row in overlay.describe(USER):
            rows.append(_only(row, "name", "roles"))
            if self.passwords:
                rows[-1]["password"] = record_of(kept[str(row["name"])])
                yield LOOK_EVERY  # a password in clear text has to be hashed, which takes long
        yield from self._section("users", rows)


class ImportStep(NamedTuple):
    """What an import does, or would do, to one thing."""

    kind: str
    name: str
    action: str
    before: Plain = None
    after: Plain = None
    why: str = ""

    def told(self) -> dict[str, Plain]:
        """Return the step as plain data."""
        found: dict[str, Plain] = dict(self._asdict())
        return {key: value for key, value in found.items() if value not in (None, "")}


class Import(Job):
    """One document on its way in."""

    def __init__(self, admin: Admin, wanted: Definitions, *, dry_run: bool) -> None:
        """Prepare an import; with `dry_run` it only tells what it would do."""
        entries = [*wanted.policies, *wanted.queues, *wanted.subscriptions]
        total = len(entries) + len(wanted.permissions) + len(wanted.users)
        super().__init__("import", "definitions", admin.session, total)
        self.wanted = wanted
        self.dry_run = dry_run
        self.done_steps: list[ImportStep] = []
        self.flaw: RefusedError | None = None
        self._admin = admin

    def steps(self) -> Steps:
        """Bring in one entry after the other; the first one that is refused ends the import."""
        try:
            for look, entry in self._entries():
                yield 1  # before it: whoever is cut off by the last one gets the answer first
                self.done_steps.append(look(entry))
        except RefusedError as error:
            self.flaw = error

    def result(self) -> Attributes:
        """Return what was done, or raise the refusal that ended the import."""
        if self.flaw is not None:
            raise self.flaw
        changed = [step for step in self.done_steps if step.action in (NEW, CHANGE)]
        left = [step for step in self.done_steps if step.action == LEFT]
        steps: list[Plain] = [step.told() for step in self.done_steps if step.action != SAME]
        return {
            "changed": [] if self.dry_run else [f"{one.kind} {one.name}" for one in changed],
            "steps": steps,
            "same": len(self.done_steps) - len(changed) - len(left),
            "users_left_alone": len([step for step in left if step.kind == USER]),
        }

    def _entries(self) -> Iterator[tuple[Callable[[Entry], ImportStep], Entry]]:
        wanted = self.wanted
        ours = self._admin.identity.name  # comes last, for a changed user has to log in again
        users = sorted(wanted.users, key=lambda user: user.name == ours)
        for look, entries in (
            (self._policy, wanted.policies),
            (self._queue, wanted.queues),
            (self._subscription, wanted.subscriptions),
            (self._permission, wanted.permissions),
            (self._user, users),
        ):
            for entry in entries:
                yield look, entry

    def _queue(self, entry: Entry) -> ImportStep:
        assert isinstance(entry, QueueDefinition)
        admin, arguments = self._admin, entry.arguments
        after = _plain(arguments)
        try:
            queue = admin.queue(entry.name)
        except RefusedError as error:
            if error.code != "not-found":
                raise
            if not self.dry_run:
                admin.create("queue", entry.name, arguments, self.now)
            return ImportStep("queue", entry.name, NEW, None, after)
        is_declared = queue.name in admin.host.declared
        if is_declared and admin.settings_with(queue, arguments) == queue.settings:
            return ImportStep("queue", entry.name, SAME)
        before = describe.queue(queue, admin.host)["arguments"]
        if not self.dry_run:
            admin.update("queue", entry.name, arguments, self.now)
        return ImportStep("queue", entry.name, CHANGE, before, after)

    def _subscription(self, entry: Entry) -> ImportStep:
        assert isinstance(entry, SubscriptionDefinition)
        admin = self._admin
        topics, selector = _topics(entry), _selector(admin, entry)
        name = SYNTAX.durable(entry.name).name
        known = admin.host.durables.get(name)
        after: Plain = {"destinations": list(entry.destinations), "selector": entry.selector}
        before: Plain = None
        if known is not None:
            said = "" if known.binding.selector is None else known.binding.selector.text
            if known.destinations == topics and said == entry.selector:
                return ImportStep("subscription", entry.name, SAME)
            rendered = [SYNTAX.render(one) for one in known.destinations]
            before = {"destinations": rendered, "selector": said}
        if not self.dry_run:
            admin.make_durable(entry.name, name, topics, selector, self.now)
        return ImportStep(
            "subscription", entry.name, NEW if known is None else CHANGE, before, after
        )

    def _policy(self, entry: Entry) -> ImportStep:
        assert isinstance(entry, PolicyDefinition)
        return self._set(POLICY, entry.name, entry.settings, "settings")

    def _permission(self, entry: Entry) -> ImportStep:
        assert isinstance(entry, PermissionDefinition)
        fields = {"who": list(entry.who), "may": list(entry.may), "on": entry.on}
        rows = overlay_of(self._admin.broker).describe(PERMISSION)
        if any(_only(row, *fields) == fields for row in rows):
            return ImportStep(PERMISSION, entry.name, SAME)
        name = entry.name
        if name.startswith(OF_FILE):  # from another broker's file: the name is only a number
            told = json.dumps(fields, sort_keys=True).encode()
            name = f"imported-{blake2b(told, digest_size=4).hexdigest()}"
        return self._set(PERMISSION, name, fields)

    def _user(self, entry: Entry) -> ImportStep:
        assert isinstance(entry, UserDefinition)
        overlay = overlay_of(self._admin.broker)
        known = {str(row["name"]): row for row in overlay.describe(USER)}.get(entry.name)
        if known is None and entry.password is None:
            why = "it has no record of a password here: covey user add"
            return ImportStep(USER, entry.name, LEFT, why=why)
        fields: dict[str, object] = {"roles": list(entry.roles)}
        is_same = known is not None and known["roles"] == fields["roles"]
        if entry.password is not None:
            is_same = is_same and overlay.passwords().get(entry.name) == entry.password
            fields["password"] = entry.password
        if is_same:
            return ImportStep(USER, entry.name, SAME)
        step = self._set(USER, entry.name, fields)
        return step._replace(after={"roles": list(entry.roles)})  # without the password

    def _set(
        self, kind: str, name: str, fields: Mapping[str, object], under: str = ""
    ) -> ImportStep:
        """Set an entry of the overlay, if it differs."""
        admin = self._admin
        rows = overlay_of(admin.broker).describe(kind)
        known = {str(row["name"]): row for row in rows}.get(name)
        before: Plain = None
        if known is not None:
            shown = known[under] if under else _only(known, *fields)
            before = shown
            if isinstance(shown, dict) and all(
                shown.get(key) == _plain(value) for key, value in fields.items()
            ):
                return ImportStep(kind, name, SAME)
        if not self.dry_run:
            (admin.create if known is None else admin.update)(kind, name, fields, self.now)
        return ImportStep(kind, name, NEW if known is None else CHANGE, before, _plain(fields))


def _only(row: Attributes, *names: str) -> dict[str, Plain]:
    return {name: row[name] for name in names if name in row}


def _written(value: Plain) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _runs(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), RUN):
        yield names[start : start + RUN]


def _plain(value: object) -> Plain:
    found: Plain = json.loads(json.dumps(value))
    return found


def _topics(definition: SubscriptionDefinition) -> tuple[Destination, ...]:
    found: list[Destination] = []
    for text in definition.destinations:
        try:
            found.extend(SYNTAX.parse(text, allow_patterns=True))
        except RefusedError as error:
            raise _refused(definition, error) from error
    return tuple(found)


def _selector(admin: Admin, definition: SubscriptionDefinition) -> Selector | None:
    if not definition.selector:
        return None
    limits = admin.broker.limits
    try:
        return compile_selector(
            definition.selector,
            length_max=limits.selector_length_max,
            depth_max=limits.selector_depth_max,
        )
    except RefusedError as error:
        raise _refused(definition, error) from error


def _refused(definition: SubscriptionDefinition, error: RefusedError) -> RefusedError:
    return RefusedError(f"subscription {definition.name}: {error.text}", error.code)
