"""Access: other brokers' rules about who may do what, as `[[permission]]` entries.

Our rules only allow, and what several of them allow adds up. In ActiveMQ it is the same. In Artemis
the entry that fits a name best stands alone: it may take away what a wider one gives. Such a grant
cannot be said here, so the wider entry loses it (`closed`): less is allowed than before, never
more, and a note says so.

The role `admin` may do everything here. One of that name that could not there is called
`old-admin`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from covey.cli.importers.imported import Imported

ANY_BELOW: Final = "**"
ANY_LEVEL: Final = "*"
EVERYBODY: Final = "*"
ADMIN: Final = "admin"
OLD_ADMIN: Final = "old-admin"
EVERYTHING: Final = frozenset(("create", "send", "consume", "browse", "destroy"))
VERBS: Final = ("connect", "create", "send", "consume", "browse", "destroy", "manage")


@dataclass(frozen=True, slots=True)
class Entry:
    """What one entry of the source allows: verbs by role, on names of one pattern of ours."""

    pattern: str
    kind: str  # queue, topic, or "" for both
    verbs: dict[str, frozenset[str]]

    @property
    def on(self) -> str:
        """The names, as a permission says them."""
        return f"{self.kind}:{self.pattern}" if self.kind else self.pattern


def covers(wide: str, narrow: str) -> bool:
    """Return True if every name that the second pattern can mean fits the first one."""
    wides, narrows = wide.split("."), narrow.split(".")
    for place, level in enumerate(wides):
        if level == ANY_BELOW:
            return len(narrows) > place
        if place >= len(narrows) or narrows[place] == ANY_BELOW:
            return False
        if level not in (ANY_LEVEL, narrows[place]):
            return False
    return len(narrows) == len(wides)


def overlap(one: str, other: str) -> bool:
    """Return True if there may be a name that fits both patterns."""
    ones, others = one.split("."), other.split(".")
    for left, right in zip(ones, others, strict=False):
        if ANY_BELOW in (left, right):
            return True
        if ANY_LEVEL not in (left, right) and left != right:
            return False
    return len(ones) == len(others)


def closed(entries: list[Entry], found: Imported) -> list[Entry]:
    """Take from wide entries what a narrower one of the source did not give."""
    kept = []
    for entry in entries:
        narrower = [
            other
            for other in entries
            if overlap(entry.pattern, other.pattern)
            and not covers(other.pattern, entry.pattern)
            and (entry.kind == other.kind or "" in (entry.kind, other.kind))
        ]
        verbs = {
            role: frozenset(
                verb
                for verb in given
                if all(verb in other.verbs.get(role, ()) for other in narrower)
            )
            for role, given in entry.verbs.items()
        }
        for role, given in entry.verbs.items():
            gone = sorted(given - verbs[role])
            if gone:
                found.notes.append(
                    f"{role} may no longer {', '.join(gone)} on {entry.on}: a narrower entry"
                    " forbids it, and permissions here only allow. Give it back name by name"
                )
        kept.append(Entry(entry.pattern, entry.kind, verbs))
    return kept


def write(entries: list[Entry], found: Imported, *, are_users: bool = False) -> None:
    """Add the permissions, who has the same rights together, and let everybody connect.

    The names are those of roles, or of users.
    """
    if not are_users:
        entries = _with_old_admin(entries, found)
    found.allow([EVERYBODY], ["connect"], ANY_BELOW)
    for entry in entries:
        shares: dict[frozenset[str], list[str]] = {}
        for role, verbs in entry.verbs.items():
            shares.setdefault(verbs, []).append(role if are_users else principal(role))
        for verbs, who in shares.items():
            found.allow(who, [verb for verb in VERBS if verb in verbs], entry.on)


def may_everything(role: str, entries: list[Entry]) -> bool:
    """Return True if a role may do whatever the source has a word for, on all names."""
    kinds = {
        entry.kind
        for entry in entries
        if entry.pattern == ANY_BELOW and entry.verbs.get(role, frozenset()) >= EVERYTHING
    }
    return "" in kinds or kinds >= {"queue", "topic"}


def rename_role(old: str, new: str, found: Imported) -> bool:
    """Call a role of the users by another name; return True if somebody has it."""
    have_it = [user for user in found.tables.get("user", []) if old in user["roles"]]
    for user in have_it:
        user["roles"] = [new if role == old else role for role in user["roles"]]
    return bool(have_it)


def _with_old_admin(entries: list[Entry], found: Imported) -> list[Entry]:
    """Keep a role `admin` that may not do everything from being the one that may."""
    if may_everything(ADMIN, entries):
        return entries
    is_named = any(ADMIN in entry.verbs for entry in entries)
    if rename_role(ADMIN, OLD_ADMIN, found) or is_named:
        found.notes.append(
            f"the role {ADMIN} may do everything here, and may not there: it is called"
            f" {OLD_ADMIN} now"
        )
    return [
        Entry(entry.pattern, entry.kind, {
            OLD_ADMIN if role == ADMIN else role: verbs for role, verbs in entry.verbs.items()
        })
        for entry in entries
    ]  # fmt: skip


def principal(role: str) -> str:
    """Return a role as permissions name it."""
    return EVERYBODY if role == EVERYBODY else f"role:{role}"
