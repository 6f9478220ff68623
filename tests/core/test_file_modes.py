"""File modes: what is ours is closed, what cannot be closed is told, all else is left alone."""

from __future__ import annotations

import grp
import os
from pathlib import Path

import pytest

from covey.core.file_modes import close_to_others, exposures, private_files


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One of our files in a directory that somebody made without much thought."""
    tmp_path.chmod(0o755)
    path = tmp_path / "ours"
    path.write_text("a message")
    path.chmod(0o644)
    return path


def test_a_directory_and_our_files_in_it_become_their_owners_alone(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("of the operator")
    other.chmod(0o664)
    close_to_others(file.parent, [file, file.with_name("missing")])
    assert (mode(file.parent), mode(file), mode(other)) == (0o700, 0o600, 0o664)
    assert exposures(file.parent, [file]) == []


def test_what_its_owner_may_not_do_stays_so(file: Path) -> None:
    file.chmod(0o444)
    file.parent.chmod(0o2750)
    close_to_others(file.parent, [file])
    assert (mode(file.parent), mode(file)) == (0o2700, 0o400)


def test_a_directory_that_is_everybodys_on_purpose_is_not_closed(file: Path) -> None:
    file.parent.chmod(0o1777)
    close_to_others(file.parent, [file])
    assert (mode(file.parent), mode(file)) == (0o1777, 0o600)
    assert exposures(file.parent, [file]) == []  # nobody else may touch a file of ours there


@pytest.mark.parametrize(
    ("directory_mode", "file_mode", "told"),
    [
        (0o700, 0o666, []),
        (0o755, 0o600, []),
        (0o755, 0o644, ["ours: {group} may read, everybody may read"]),
        (0o750, 0o640, ["ours: {group} may read"]),
        (0o750, 0o660, ["ours: {group} may read and write"]),
        (0o711, 0o606, ["ours: everybody may read and write"]),
        (0o770, 0o600, ["directory: {group} may write"]),
        (0o777, 0o600, ["directory: {group} may write, everybody may write"]),
        (0o1777, 0o602, ["ours: everybody may write"]),
    ],
)
def test_what_is_open_to_whom(
    file: Path, directory_mode: int, file_mode: int, told: list[str]
) -> None:
    file.chmod(file_mode)
    file.parent.chmod(directory_mode)
    group = f"its group {grp.getgrgid(os.getgid()).gr_name}"
    user = f" (of user {os.getuid()})"
    expected = [
        one.replace("ours", f"{file}{user}")
        .replace("directory", f"{file.parent}{user}")
        .format(group=group)
        for one in told
    ]
    assert exposures(file.parent, [file, file.with_name("missing")]) == expected


def test_what_cannot_be_closed_is_left_as_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, wanted: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    close_to_others(file.parent, [file])
    assert len(exposures(file.parent, [file])) == 1


def test_files_made_meanwhile_are_private_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with private_files():
            (tmp_path / "private").touch()
        (tmp_path / "public").touch()
    finally:
        os.umask(before)
    assert (mode(tmp_path / "private"), mode(tmp_path / "public")) == (0o600, 0o644)
