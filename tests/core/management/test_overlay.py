"""Overlay: what operators set at run time, here and in another process of the same broker."""

from __future__ import annotations

import pytest

from covey.config.settings import Settings
from covey.core.broker.directory import Directory
from covey.core.errors import RefusedError
from covey.core.management.overlay import KINDS, Overlay, overlay_of
from tests.doubles import KnownCluster, make_directory

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


# In a cluster: each process reads what the other one has written.


@pytest.fixture
def brokers() -> tuple[Process, Process]:
    one, two = Process("one"), Process("two")
    for process in (one, two):
        process.directory.shared.cluster = KnownCluster()
    return one, two


def read(*processes: Process) -> None:
    """Have each read what the others have written, until nobody writes any more."""
    for _ in range(3):
        for process in processes:
            others = [each for each in processes if each is not process]
            process.overlay.hear_all(
                {
                    each.broker.host.id: {kind: each.overlay.own_entries(kind) for kind in KINDS}
                    for each in others
                },
                NOW,
            )


def test_the_newest_of_two_brokers_entries_holds_whatever_their_clocks_say(
    brokers: tuple[Process, Process],
) -> None:
    one, two = brokers
    one.directory.shared.clock.offset = 1000.0
    one.directory.shared.clock.turn(NOW)
    one.overlay.put("user", "ann", {"password": "first"}, NOW)
    read(one, two)
    two.overlay.put("user", "ann", {"password": "second"}, NOW)
    read(one, two)
    for process in brokers:
        assert process.lets_in("second")
        assert not process.lets_in("first")
    assert (one.own, two.own) == ([], ["ann"])


def test_two_entries_of_the_same_moment_are_judged_alike(brokers: tuple[Process, Process]) -> None:
    one, two = brokers
    one.overlay.put("user", "ann", {"password": "first"}, NOW)
    two.overlay.put("user", "ann", {"password": "second"}, NOW)
    read(one, two)
    assert one.lets_in("first") is two.lets_in("first") is not one.lets_in("second")
    assert sorted([*one.own, *two.own]) == ["ann"]


def test_what_another_broker_keeps_can_be_removed_and_no_note_of_it_stays(
    brokers: tuple[Process, Process],
) -> None:
    one, two = brokers
    one.overlay.put("user", "ann", {"password": "secret"}, NOW)
    read(one, two)
    two.overlay.remove("user", "ann", NOW)
    assert two.own == ["ann"]  # the note, while the other one has the entry
    read(one, two)
    assert not any(process.lets_in("secret") for process in brokers)
    assert (one.own, two.own) == ([], [])


def test_what_a_broker_was_told_of_a_virtual_host_that_it_has_now_is_out_of_date(
    brokers: tuple[Process, Process],
) -> None:
    one, two = brokers
    one.overlay.put("user", "ann", {"password": "secret"}, NOW)
    read(one, two)
    told = two.directory.shared.elsewhere["one"]
    two.directory.shared.elsewhere["two"] = told
    del two.directory.shared.elsewhere["one"]
    assert two.overlay.entries("user") == {}
