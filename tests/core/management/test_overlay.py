"""Overlay: what operators set at run time, here and in another process of the same broker."""

from __future__ import annotations

import pytest

from covey.config.settings import Settings
from covey.core.broker.directory import Directory
from covey.core.errors import RefusedError
from covey.core.management.overlay import KINDS, Overlay, overlay_of
from tests.doubles import make_directory

HOSTS = [{"id": "one", "host_names": ["localhost"]}, {"id": "two", "host_names": ["two.example"]}]
NOW = 0.0


class Process:
    """One of two processes, which serves one virtual host and hears the other one."""

    def __init__(self, space: str) -> None:
        self.directory: Directory = make_directory(Settings.model_validate({"virtual_host": HOSTS}))
        self.broker = self.directory.brokers[space]
        for other in [name for name in self.directory.brokers if name != space]:
            self.directory.shared.brokers.remove(self.directory.brokers.pop(other))
        self.overlay = overlay_of(self.broker)

    def tells(self, other: Process) -> None:
        def change(kind: str, name: str, fields: dict[str, object] | None) -> None:
            other.overlay.hear_change(self.broker.host.id, kind, name, fields, NOW)

        self.directory.shared.entry_changed = change

    def lets_in(self, password: str) -> bool:
        try:
            self.directory.shared.users.login("ann", password, is_loopback=True)
        except RefusedError:
            return False
        return True

    @property
    def own(self) -> list[str]:
        return [name for kind in KINDS for name in self.overlay.own_entries(kind)]


@pytest.fixture
def processes() -> tuple[Process, Process]:
    one, two = Process("one"), Process("two")
    one.tells(two)
    two.tells(one)
    return one, two


def test_a_user_who_is_set_in_one_process_is_known_in_both(
    processes: tuple[Process, Process],
) -> None:
    one, two = processes
    one.overlay.put("user", "ann", {"password": "secret"}, NOW)
    assert one.lets_in("secret")
    assert two.lets_in("secret")
    assert (one.own, two.own) == (["ann"], [])


def test_an_entry_is_kept_where_it_was_last_set(processes: tuple[Process, Process]) -> None:
    one, two = processes
    one.overlay.put("user", "ann", {"password": "first"}, NOW)
    two.overlay.put("user", "ann", {"password": "second"}, NOW)
    assert (one.own, two.own) == ([], ["ann"])
    for process in processes:
        assert process.lets_in("second")
        assert not process.lets_in("first")


def test_what_is_removed_in_the_other_process_is_gone(processes: tuple[Process, Process]) -> None:
    one, two = processes
    one.overlay.put("user", "ann", {"password": "secret"}, NOW)
    two.overlay.remove("user", "ann", NOW)
    assert (one.own, two.own) == ([], [])
    assert not any(process.lets_in("secret") for process in processes)


def test_a_process_that_starts_hears_all_that_is_set() -> None:
    one, two = Process("one"), Process("two")
    one.overlay.put("policy", "orders", {"quota_messages": 5}, NOW)
    one.overlay.put("user", "ann", {"password": "secret"}, NOW)
    entries = {kind: one.overlay.own_entries(kind) for kind in KINDS}
    two.overlay.hear("one", entries, NOW)
    assert two.lets_in("secret")
    assert "orders" in [row["name"] for row in two.overlay.describe("policy")]
    two.overlay.hear("one", {}, NOW)
    assert not two.lets_in("secret")


def test_a_process_alone_tells_nobody() -> None:
    process = Process("one")
    process.overlay.put("user", "ann", {"password": "secret"}, NOW)
    assert process.lets_in("secret")
    assert Overlay(process.overlay.brokers).own_entries("user").keys() == {"ann"}
