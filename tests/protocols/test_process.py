"""Process: what the system says of this process, and of what its control groups leave it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from covey.protocols import process
from covey.protocols.process import cores, memory_bytes

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
CORES = len(os.sched_getaffinity(0))


class Groups:
    """A tree of control groups, and where this process stands in it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = folder / "groups"
        self.root.mkdir()
        self.own = folder / "own"
        monkeypatch.setattr(process, "OWN_GROUPS", self.own)
        monkeypatch.setattr(process, "GROUPS", self.root)

    def stand(self, *lines: str) -> None:
        """Put this process into groups."""
        self.own.write_text("".join(f"{line}\n" for line in lines))

    def write(self, path: str, **files: str) -> None:
        """Make a group with these files."""
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text + "\n")


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    return Groups(tmp_path, monkeypatch)


def test_no_more_cores_than_the_process_may_run_on() -> None:
    before = os.sched_getaffinity(0)
    assert 0 < cores() <= len(before)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() <= 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("group", ["", "kube", "kube/pod", "kube/pod/broker"])
def test_a_group_has_no_more_than_those_around_it(groups: Groups, group: str) -> None:
    groups.stand("0::/kube/pod/broker")
    groups.write("", cpu__max="max 100000", memory__max="max")
    groups.write("kube", cpu__max="800000 100000", memory__max="20000000")
    groups.write(group, cpu__max="50000 100000", memory__max="10000000")
    assert cores() == pytest.approx(0.5)
    assert memory_bytes() == 10_000_000


def test_older_trees_keep_theirs_in_other_files(groups: Groups) -> None:
    groups.stand("5:memory:/docker/1", "4:cpu,cpuacct:/docker/1", "0::/")
    groups.write("cpu/docker/1", cpu__cfs_quota_us="20000", cpu__cfs_period_us="100000")
    groups.write("cpu/docker", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    groups.write("memory/docker/1", memory__limit_in_bytes="9223372036854771712")
    groups.write("memory", memory__limit_in_bytes="10000000")
    assert cores() == pytest.approx(0.2)
    assert memory_bytes() == 10_000_000


@pytest.mark.parametrize("written", ["max", "much", "", "-1", f"{MACHINE * 2}"])
def test_what_is_no_limit_here_leaves_all_of_the_machine(groups: Groups, written: str) -> None:
    groups.stand("0::/own/group")
    groups.write("own", cpu__max=written, memory__max=written)
    assert (cores(), memory_bytes()) == (CORES, MACHINE)


def test_without_groups_all_of_the_machine_is_there(groups: Groups) -> None:
    assert (cores(), memory_bytes()) == (CORES, MACHINE)
    groups.stand("0::/of/another/machine")
    assert (cores(), memory_bytes()) == (CORES, MACHINE)


def test_it_has_no_more_than_there_is() -> None:
    assert 0 < process.resident_bytes() < memory_bytes() <= MACHINE
