"""Systemd: a manager that listens is told; one that is not there costs nothing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from covey.server.systemd import Systemd


class Manager:
    """Hears what a service says."""

    def __init__(self, folder: Path) -> None:
        self.name = str(folder / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.name)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        words = []
        while True:
            try:
                words.append(self.socket.recv(100).decode())
            except BlockingIOError:
                return words


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path)
    yield manager
    manager.socket.close()


def test_a_manager_hears_when_it_is_ready_and_when_it_stops(manager: Manager) -> None:
    systemd = Systemd({"NOTIFY_SOCKET": manager.name})
    systemd.ready()
    systemd.alive(100.0)
    systemd.stopping()
    assert manager.heard() == ["READY=1", "STOPPING=1"]


def test_a_watchdog_hears_twice_in_its_time_and_no_oftener(manager: Manager) -> None:
    given = {"NOTIFY_SOCKET": manager.name, "WATCHDOG_USEC": "2000000"}
    systemd = Systemd({**given, "WATCHDOG_PID": str(os.getpid())})
    for now in (10.0, 10.5, 10.9, 11.0, 11.1, 12.0):
        systemd.alive(now)
    assert manager.heard() == ["WATCHDOG=1"] * 3
    Systemd({**given, "WATCHDOG_PID": "1"}).alive(20.0)
    assert manager.heard() == []


@pytest.mark.parametrize("name", ["", "/nowhere/notify", "@nobody-listens"])
def test_a_manager_that_is_not_there_is_no_trouble(name: str) -> None:
    systemd = Systemd({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "nonsense"})
    systemd.ready()
    systemd.alive(1.0)
    systemd.stopping()
