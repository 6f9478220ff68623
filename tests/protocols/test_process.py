"""Process: what the system says of this process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covey.protocols import process

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
LIMIT = 10_000_000


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the root of the control groups; this process is in the group /house/room."""
    place = tmp_path / "groups"
    (place / "house" / "room").mkdir(parents=True)
    standing = tmp_path / "cgroup"
    standing.write_text("4:memory:/elsewhere\n0::/house/room\n")
    monkeypatch.setattr(process, "GROUP", standing)
    monkeypatch.setattr(process, "GROUPS", place)
    monkeypatch.setattr(process, "OLD_GROUP_LIMIT", place / "memory" / "memory.limit_in_bytes")
    return place


@pytest.mark.parametrize("group", ["", "house", "house/room"])
def test_the_smallest_limit_of_its_groups_holds(groups: Path, group: str) -> None:
    (groups / "memory.max").write_text("max\n")
    (groups / group / "memory.max").write_text(f"{LIMIT}\n")
    assert process.memory_bytes() == LIMIT


def test_a_limit_of_the_first_version_of_groups_holds_too(groups: Path) -> None:
    (groups / "memory").mkdir()
    (groups / "memory" / "memory.limit_in_bytes").write_text(f"{LIMIT}\n")
    assert process.memory_bytes() == LIMIT


@pytest.mark.parametrize("written", ["max\n", "", f"{MACHINE * 2}\n", "9223372036854771712\n"])
def test_no_limit_and_one_beyond_the_machine_are_the_machines(groups: Path, written: str) -> None:
    (groups / "house" / "memory.max").write_text(written)
    assert process.memory_bytes() == MACHINE


def test_without_groups_it_is_the_machines_memory(groups: Path) -> None:
    process.GROUP.unlink()
    assert process.memory_bytes() == MACHINE


def test_it_has_no_more_than_there_is() -> None:
    assert 0 < process.resident_bytes() < process.memory_bytes() <= MACHINE
