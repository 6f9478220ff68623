"""Contender: a broker that can be started for a run, Covey among others.

Each contender gets free loopback ports, and a directory that is deleted afterwards.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from scripts.benchmark.process import Process, free_port, scratch_directory
from scripts.benchmark.workloads.workloads import strategies

ROOT: Final = Path(__file__).resolve().parent.parent.parent
UNLIMITED: Final = 1_000_000_000


class Contender(ABC):
    """One broker, and what the load must know of it."""

    name = ""
    host = "localhost"
    user = "admin"
    password = "password"
    window_max = UNLIMITED  # most messages in flight
    keeps_groups = True  # else a run with groups is not checked for order
    cannot: frozenset[str] = frozenset()  # workloads it cannot run
    speaks: frozenset[str] = frozenset(("stomp",))
    foreign_queue = "/queue/"  # how an AMQP producer names a queue that a STOMP consumer made

    def missing(self) -> str:
        """Return what is not installed; "" if all is there."""
        return ""

    @abstractmethod
    def start(self) -> Process:
        """Start it, listening for STOMP."""


class Sink(Contender):
    """The broker that does nothing; it shows how fast the generator is."""

    name = "sink"
    keeps_groups = False

    def start(self) -> Process:
        """Start the sink."""
        port = free_port()
        command = [sys.executable, "-m", "scripts.benchmark.sink", str(port)]
        return Process(command, port, scratch_directory(), {"PYTHONPATH": str(ROOT)})


class Covey(Contender):
    """This checkout, or another build of it: the folder that holds that build's package."""

    speaks = frozenset(("stomp", "amqp"))

    def __init__(
        self,
        name: str = "covey",
        package: str = "",
        options: tuple[str, ...] = (),
        settings: dict[str, str] | None = None,
    ) -> None:
        """Take a build, its arguments and its settings (environment variables)."""
        self.name = name
        self.package = package or str(ROOT / "src")
        self.options = options
        self.settings = settings or {}

    def start(self) -> Process:
        """Start the broker with one queue policy for each group strategy."""
        directory = scratch_directory()
        config = directory / "bench.toml"
        config.write_text("".join(policy(strategy) for strategy in strategies()))
        port, amqp_port = free_port(), free_port()
        command = [sys.executable, "-P", "-m", "covey", "serve", "--config", str(config)]
        command += ["--data", str(directory / "data"), "--stomp", f"127.0.0.1:{port}"]
        command += ["--amqp", f"127.0.0.1:{amqp_port}", "--http", "127.0.0.1:0", *self.options]
        environment = {"PYTHONPATH": self.package, **self.settings}
        process = Process(command, port, directory, environment)
        process.amqp_port = amqp_port
        return process


def policy(strategy: str) -> str:
    """Return the policy of the queues that a group workload uses."""
    return (
        f'[[queue]]\nid = "bench.{strategy}.**"\n'
        f'[queue.groups]\nstrategy = "{strategy}"\nheader = "JMSXGroupID"\n'
    )


def environment_path() -> str:
    """Return the search path with the folders of system daemons, which PATH often lacks."""
    return os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
