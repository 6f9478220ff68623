"""RabbitMQ's `definitions.json`: virtual hosts, users, permissions, queues, policies.

- A policy is a regular expression over names; of several the one with the highest priority holds.
  Queues with arguments come first here, each with the policy that holds for it, then policies by
  priority. An expression that cannot be
  said as a pattern of ours is noted, and its policy left out.
- Permissions are expressions, too. One that cannot be said gives nobody anything: closed, not open.
  Ours hold in every virtual host: a user who may do more in one than in another is reported.
- Passwords are salted hashes that nobody can turn into SCRAM records: users are named in notes.
- Exchanges and bindings: a fanout or topic exchange is a topic here, a queue bound to one a durable
  subscription, which its client makes.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from covey.cli.importers.access import Entry, write
from covey.cli.importers.imported import Imported, ImportRefused

Json = dict[str, Any]

MARKS: Final = frozenset({"queues", "vhosts", "permissions", "policies", "exchanges", "bindings"})
VERBS: Final = {
    "configure": ("create", "destroy"),
    "write": ("send",),
    "read": ("consume", "browse"),
}
FULL_POLICIES: Final = {
    "drop-head": "drop head",
    "reject-publish": "reject",
    "reject-publish-dlx": "reject",
}
# A queue's arguments without their `x-`, and a policy's keys.
NUMBERS: Final = {
    "max-length": "quota_messages",
    "max-length-bytes": "quota",
    "max-priority": "priorities",
    "delivery-limit": "nak_limit",
}
PRIORITIES_MAX: Final = 10
READ: Final = ("users", "vhosts", "permissions", "policies", "queues")
PASSWORD: Final = ("name", "password", "password_hash", "hashing_algorithm")
QUEUE_KEYS: Final = ("name", "vhost", "durable", "auto_delete", "arguments", "type")
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
DEFAULT_HOST: Final = "/"
# What a regular expression may be made of to be a name with something after it.
LITERAL: Final = re.compile(r"(?:[A-Za-z0-9_-]|\\\.|\\-|\.(?![*+?]))*")


def read(text: str, found: Imported) -> None:
    """Read a whole file."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ImportRefused(f"not JSON: {error}") from error
    if not isinstance(data, dict) or MARKS.isdisjoint(data):
        raise ImportRefused("JSON, but not the definitions of RabbitMQ")
    try:
        _read_parts(data, found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ImportRefused(f"JSON, but not as RabbitMQ writes definitions: {reason}") from error


def _read_parts(data: Json, found: Imported) -> None:
    _read_hosts(data, found)
    _read_users(data.get("users", []), found)
    _read_queues(data, found)
    _read_permissions(data, found)
    for name, part in data.items():
        if name in READ or name.endswith(("_version", "_name")) or name == "explanation":
            continue
        for entry in part if isinstance(part, list) else [part]:
            title = _title(entry) if isinstance(entry, dict) else str(entry)
            found.notes.append(f"{name}: {title} has no counterpart, see docs/migrate/")
    for entry in data.get("topic_permissions", []):
        found.open_up(
            f"user {entry['user']} was bound to routing keys of exchange {entry.get('exchange')}"
        )


def _note_rest(title: str, entry: Json, read: tuple[str, ...], found: Imported) -> None:
    """Note what else an entry says."""
    said = [f"{key} {entry[key]}" for key in entry if key not in read and entry[key]]
    found.notes += [f"{title}: {each} has no counterpart" for each in said]


def _read_hosts(data: Json, found: Imported) -> None:
    names = [str(entry["name"]) for entry in data.get("vhosts", [])]
    for entry in data.get("vhosts", []):
        _note_rest(f"virtual host {entry['name']}", entry, ("name", "tracing"), found)
    names.sort(key=lambda name: name != DEFAULT_HOST)  # the first serves clients that name none
    for name in names:
        is_default = name == DEFAULT_HOST
        host_names = [name, *(LOCAL_NAMES if is_default or len(names) == 1 else ())]
        found.add(
            "virtual_host", {"id": "default" if is_default else name, "host_names": host_names}
        )


def _read_users(users: list[Json], found: Imported) -> None:
    for user in users:
        tags = user.get("tags", [])
        roles = tags.split(",") if isinstance(tags, str) else tags
        found.lock(str(user["name"]), ["admin"] if "administrator" in roles else [])
        rest = {**user, "tags": [role for role in roles if role and role != "administrator"]}
        _note_rest(f"user {user['name']}", rest, PASSWORD, found)


def _read_queues(data: Json, found: Imported) -> None:
    policies = sorted(data.get("policies", []), key=lambda each: -int(each.get("priority", 0)))
    for queue in data.get("queues", []):
        arguments = {
            key.removeprefix("x-"): value for key, value in queue.get("arguments", {}).items()
        }
        held: Json = next((each for each in policies if _holds(each, str(queue["name"]))), {})
        arguments = {**held.get("definition", {}), **arguments} if arguments else {}
        title = f"queue {queue['name']}"
        policy = _policy(arguments, title, found)
        _note_rest(title, queue, QUEUE_KEYS, found)
        if not queue.get("durable", True):
            policy["durable"] = False
        stays = {} if queue.get("auto_delete") else {"auto_delete_after_s": 0}
        if policy:
            _add_queue({"id": str(queue["name"]), **stays, **policy}, queue, found)
        else:
            found.need_no_entry("queue", str(queue["name"]))
    for entry in policies:
        title = f"policy {entry['name']}"
        if entry.get("apply-to") == "exchanges":
            found.notes.append(f"{title}: exchanges have no counterpart")
            continue
        patterns = patterns_of(str(entry["pattern"]))
        if patterns is None:
            found.notes.append(f"{title}: {entry['pattern']} cannot be said as a pattern")
            continue
        policy = _policy(entry.get("definition", {}), title, found)
        known = {each["id"] for each in found.tables.get("queue", [])}
        for pattern in patterns:
            if policy and pattern not in known:
                found.add("queue", {"id": pattern, **policy})


def _add_queue(entry: Json, queue: Json, found: Imported) -> None:
    """Add a queue's policy, which holds in every virtual host: the first of a name is the one."""
    same = [each for each in found.tables.get("queue", []) if each["id"] == entry["id"]]
    if not same:
        found.add("queue", entry)
    elif same != [entry]:
        found.notes.append(
            f"queue {entry['id']} of virtual host {queue.get('vhost', DEFAULT_HOST)}: policies hold"
            " in every virtual host here, and another one's is the one that does"
        )


def _holds(policy: Json, name: str) -> bool:
    """Return True if a policy is about a queue."""
    if policy.get("apply-to") == "exchanges":
        return False
    try:
        return re.search(str(policy["pattern"]), name) is not None
    except re.error:
        return False


def _policy(definition: Json, title: str, found: Imported) -> dict[str, Any]:
    policy: dict[str, Any] = {
        ours: int(definition[theirs]) for theirs, ours in NUMBERS.items() if theirs in definition
    }
    if policy.get("priorities", 0) > PRIORITIES_MAX:
        policy["priorities"] = PRIORITIES_MAX
        found.notes.append(f"{title}: there are {PRIORITIES_MAX} priorities here")
    if "quota" in policy or "quota_messages" in policy:
        policy["full_policy"] = FULL_POLICIES[definition.get("overflow", "drop-head")]
    if definition.get("dead-letter-exchange") == "" and "dead-letter-routing-key" in definition:
        policy["dlq"] = definition["dead-letter-routing-key"]
        policy["dlq_expired"] = True
    elif "dead-letter-exchange" in definition:
        found.notes.append(
            f"{title}: dead messages went to exchange {definition['dead-letter-exchange']!r};"
            " name the queue as dlq"
        )
    understood = {*NUMBERS, "overflow", "dead-letter-exchange", "dead-letter-routing-key"}
    for key in sorted(set(definition) - understood):
        found.notes.append(f"{title}: {key} has no counterpart")
    return policy


def _read_permissions(data: Json, found: Imported) -> None:
    """Read who may do what. Everybody may connect who may do something."""
    permissions = data.get("permissions", [])
    if not permissions:
        return
    by_host: dict[str, set[tuple[str, str, str]]] = {}
    entries = []
    for entry in permissions:
        user, host = str(entry["user"]), str(entry.get("vhost", DEFAULT_HOST))
        for theirs, ours in VERBS.items():
            expression = str(entry.get(theirs, ""))
            by_host.setdefault(host, set()).add((user, theirs, expression))
            patterns = patterns_of(expression)
            if patterns is None:
                found.notes.append(
                    f"user {user} may {theirs} {expression!r} in {host}: that cannot be said as a"
                    " pattern, so it is not given"
                )
            entries += [Entry(each, "", {user: frozenset(ours)}) for each in patterns or []]
    hosts = {str(entry["name"]) for entry in data.get("vhosts", [])} | set(by_host)
    if len(hosts) > 1 and len({frozenset(by_host.get(host, ())) for host in hosts}) > 1:
        found.open_up("permissions hold in every virtual host here; RabbitMQ's differ by host")
    _write(entries, found)


def _write(entries: list[Entry], found: Imported) -> None:
    """Join what one user may on one pattern; rules of RabbitMQ are about users, not roles."""
    joined: dict[str, dict[str, frozenset[str]]] = {}
    for entry in entries:
        verbs = joined.setdefault(entry.pattern, {})
        for user, given in entry.verbs.items():
            verbs[user] = verbs.get(user, frozenset()) | given
    write([Entry(pattern, "", verbs) for pattern, verbs in joined.items()], found, are_users=True)


def patterns_of(expression: str) -> list[str] | None:
    """Return patterns that mean what a regular expression means; None if there are none.

    `.*` is everything, `^$` and the empty one nothing, `^a\\.b$` a name, `^a\\..*` all below it,
    `^a.*` all that begins so. Whatever is not bound to the start may mean any part of a name.
    """
    if expression in (".*", "^.*", "^.*$", ".+", "^.+$"):
        return ["**"]
    if expression in ("", "^$"):
        return []
    if not expression.startswith("^"):
        return None
    inner = expression[1:]
    group = re.fullmatch(r"\(([^()]*)\)(.*)", inner)
    alternatives = [one + group[2] for one in group[1].split("|")] if group else [inner]
    found: list[str] = []
    for one in alternatives:
        patterns = _one_pattern(one)
        if patterns is None:
            return None
        found += patterns
    return found


def _one_pattern(text: str) -> list[str] | None:
    literal = LITERAL.match(text)
    assert literal is not None  # the expression may match nothing
    name = literal[0].replace("\\", "")
    rest = text[literal.end() :]
    if rest == "$":
        return [name] if name else []
    if rest not in (".*", ".*$", ""):
        return None
    head, _, last = name.rpartition(".")
    if not last:
        return [f"{head}.**"] if head else ["**"]
    level = f"{{{re.escape(last)}.*}}"
    start = f"{head}.{level}" if head else level
    return [start, f"{start}.**"]


def _title(entry: Json) -> str:
    if "source" in entry:
        return f"{entry['source']} -> {entry.get('destination', '')}"
    return str(entry.get("name") or entry.get("user") or entry.get("component") or "entry")
