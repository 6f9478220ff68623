"""File modes: only the broker's own user may use its files, whoever made the directory.

At each start the directory gets mode 0700 and our files in it get mode 0600. So a directory that
was made by hand, by a package or out of a backup is closed, too. Other files in it are left alone.

Some paths cannot be closed: another user owns them, or they have the sticky bit and are shared on
purpose. `exposures` reports the open ones. A path is open if somebody else can read or change a
message:

- a file with a bit for its group or for others, in a directory that they may enter;
- a directory that they may write to: they could replace a file by another one. The sticky bit
  prevents that. Whoever may only read a directory learns names and no more.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

NOT_OWNER: Final = 0o077
OWNER_ONLY: Final = 0o700
MAY_ENTER: Final = stat.S_IXGRP | stat.S_IXOTH
CLASSES: Final = ((3, "its group {group}"), (0, "everybody"))  # with the shift of their three bits
VERBS: Final = ((stat.S_IROTH, "read"), (stat.S_IWOTH, "write"))


def close_to_others(directory: Path, files: Iterable[Path]) -> None:
    """Take from group and others what they may do to a directory and to our files in it."""
    for path in (directory, *files):
        with suppress(OSError):  # another user's, or just deleted: `exposures` reports the rest
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & NOT_OWNER and not mode & stat.S_ISVTX:
                path.chmod(mode & ~NOT_OWNER)


def exposures(directory: Path, files: Iterable[Path]) -> list[str]:
    """Return a sentence for each path that is open to others, with who may do what."""
    found: list[str] = []
    place = directory.stat()
    if not place.st_mode & stat.S_ISVTX:
        found += _told(directory, place, (stat.S_IWOTH,))
    if place.st_mode & MAY_ENTER:
        for path in files:
            with suppress(FileNotFoundError):
                found += _told(path, path.stat(), (stat.S_IROTH, stat.S_IWOTH))
    return found


@contextmanager
def private_files() -> Iterator[None]:
    """Make every new file private inside the block; the umask is the process's: at start only."""
    before = os.umask(NOT_OWNER)
    try:
        yield
    finally:
        os.umask(before)


def _told(path: Path, status: os.stat_result, bits: tuple[int, ...]) -> list[str]:
    """Return one sentence on who else may do what, if anybody may."""
    parts: list[str] = []
    for shift, whom in CLASSES:
        theirs = status.st_mode >> shift
        verbs = [verb for bit, verb in VERBS if bit in bits and theirs & bit]
        if verbs:
            parts.append(f"{whom.format(group=_group(status.st_gid))} may {' and '.join(verbs)}")
    if not parts:
        return []
    return [f"{path} (of user {status.st_uid}): {', '.join(parts)}"]


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
