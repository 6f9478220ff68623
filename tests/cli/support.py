"""A broker for the commands, and a way to run them: words in; exit code, output, errors out."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from covey.cli.main import run
from covey.cli.qpid_config import main as qpid_config
from covey.client.management import Management
from covey.client.place import parse_place
from tests.e2e.support import HOST, BrokerProcess, running_broker
from tests.interop.amqp import amqp_port

# `guest` may use queues, and nothing else.
CONFIG = """
[[user]]
name = "admin"
password = "password"
roles = ["admin"]

[[user]]
name = "guest"
password = "guest"
"""


AMQP_WORDS = {"--amqp", "--seq", "retry"}  # of `covey message`: it asks the AMQP port


@dataclass(frozen=True)
class Said:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Terminal:
    """Runs commands in this process, against one broker."""

    def __init__(self, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self.broker = broker
        self.capsys = capsys
        self.amqp = f"{HOST}:{amqp_port(broker)}"
        self.stomp = f"{HOST}:{broker.port}"

    def covey(self, *words: str, login: str = "", typed: str | None = None) -> Said:
        """Run `covey`; the broker's place is added to commands that need one."""
        over_stomp = words[0] == "message" and not (AMQP_WORDS & set(words))
        place = self.stomp if over_stomp else self.amqp
        needs_place = words[0] not in ("user", "config", "serve")
        where: tuple[str, ...] = ()
        if needs_place:
            where = ("-b", f"{login}@{place}" if login else place)
        if words[0] == "shovel":
            where = ("--from", self.stomp, "--to", self.stomp)
        return self.run(lambda: run([*words, *where]), typed)

    def run_covey(self, *words: str) -> Said:
        """Run `covey` with these words and no others."""
        return self.run(lambda: run(list(words)))

    def config(self, *words: str, login: str = "") -> Said:
        """Run `covey-config`."""
        place = f"{login}@{self.amqp}" if login else self.amqp
        return self.run(lambda: qpid_config.main(["-b", place, *words]))

    def run(self, command: Callable[[], int], typed: str | None = None) -> Said:
        """Run anything that returns an exit code, or exits with one."""
        self.capsys.readouterr()
        stdin = sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO((typed or "").encode()))
        try:
            code = command()
        except SystemExit as ending:
            code = int(str(ending.code))
        finally:
            sys.stdin = stdin
        written = self.capsys.readouterr()
        return Said(code, written.out, written.err)

    def queue(self, name: str) -> dict[str, object]:
        """Read a queue as the broker tells it."""
        with Management(parse_place(self.amqp, 0)) as client:
            return client.read("queue", name)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests of commands."""
    with running_broker(tmp_path_factory.mktemp("broker"), config=CONFIG) as running:
        yield running


@pytest.fixture
def terminal(broker: BrokerProcess, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Where commands are typed."""
    return Terminal(broker, capsys)
