"""Brokers of a cluster as processes of their own, on one PostgreSQL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import covey
from covey.client.management import Management
from covey.client.place import Place
from tests.core.storage.postgres.server import Postgres, free_port
from tests.e2e.support import HOST, LOGIN, PASSCODE, TIMEOUT_S, BrokerProcess

LEASE_S = 2.0

Listing = dict[str, list[dict[str, Any]]]


class Node:
    """A broker of several."""

    def __init__(
        self,
        folder: Path,
        postgres: Postgres,
        name: str,
        *,
        spaces: tuple[str, ...] = ("default",),
        config: str = "",
        lease_s: float = LEASE_S,
        dsn: str = "",
        program: str = "covey",
    ) -> None:
        """Start it; `spaces` are its virtual hosts, each of its own name.

        `dsn` is where it finds the database, if not where everybody does. `program` is the module
        that is run.
        """
        self.name = name
        self._program = program
        self.folder = folder / name
        self.folder.mkdir(exist_ok=True)
        hosts = "".join(
            f'[[virtual_host]]\nid = "{space}"\nhost_names = ["{space}.example"'
            + (f', "{HOST}", "localhost"]\n' if space == spaces[0] else "]\n")
            for space in spaces
        )
        self._config = (
            f'[store]\nkind = "postgres"\ndsn = "{dsn or postgres.dsn}"\n'
            f'[cluster]\nnode = "{name}"\nlease_s = {lease_s}\n'
            f'forward = "{HOST}:{free_port()}"\n{config}\n{hosts}'
        )
        self.start()

    def start(self) -> None:
        """Run it, or run it again."""
        (self.folder / "covey.toml").write_text(self._config)
        command = [sys.executable, "-m", self._program, "serve"]
        command += ["--config", str(self.folder / "covey.toml")]
        for protocol in ("stomp", "amqp", "http"):
            command += [f"--{protocol}", f"{HOST}:0"]
        roots = [str(Path(covey.__file__).parent.parent), str(Path(__file__).parents[3])]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(roots))
        with (self.folder / "log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def served(self) -> BrokerProcess:
        """Wait until its ports are open."""
        return BrokerProcess(self.process, self.folder)

    def wait_for(self, word: str) -> None:
        """Wait until its log has a word."""
        wait_until(lambda: word in self.log, self)


def wait_until(is_so: Callable[[], object], *nodes: Node) -> None:
    """Wait for something; nodes that are named are to live."""
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, [node.log for node in nodes]
        assert all(node.process.poll() is None for node in nodes), [node.log for node in nodes]
        time.sleep(0.02)


def management(broker: BrokerProcess) -> Management:
    """Connect to what a broker tells of the cluster."""
    place = Place(HOST, broker.port_of(1), LOGIN, PASSCODE, virtual_host="$cluster")
    return Management(place, TIMEOUT_S)


def owners(broker: BrokerProcess) -> dict[str, str | None]:
    """Return who serves what, as a broker sees it."""
    with management(broker) as client:
        return {row["space"]: row["owner"] for row in client.query("space")}


@contextmanager
def ending(nodes: list[Node]) -> Iterator[None]:
    """End the nodes of a test, whatever they are doing."""
    try:
        yield
    finally:
        for node in nodes:
            with suppress(ProcessLookupError):
                node.process.send_signal(signal.SIGCONT)
                node.process.kill()
            node.process.wait(TIMEOUT_S)
