"""A real PostgreSQL for tests: a server in a temporary directory, a database for each test.

The server is Debian's, started as the user `postgres` or `nobody` where the tests run as root, for
it refuses root. Where there is none, tests that need it say so and are skipped.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from itertools import count
from pathlib import Path

import psycopg
import pytest

from covey.config.settings import ClusterSettings, Settings, StoreSettings

HOST = "127.0.0.1"
TIMEOUT_S = 60


def find_binaries() -> Path | None:
    """Return where initdb is, of the newest version."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.create_server((HOST, 0))) as free:
        return int(free.getsockname()[1])


class Server:
    """One server, which can be started, stopped, killed and frozen."""

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        binaries = find_binaries()
        if binaries is None:
            pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
        self._binaries = binaries
        self._options = options
        self.folder = Path(tempfile.mkdtemp(prefix="covey-postgres-"))
        self.port = free_port()
        self._user = _user()
        if self._user is not None:
            shutil.chown(self.folder, self._user, pwd.getpwnam(self._user).pw_gid)
        given = ["-A", "trust", "-U", "covey", "-E", "UTF8", "--no-sync"]
        self._run("initdb", "-D", str(self.folder / "data"), *given)
        self.start()

    def dsn(self, database: str = "postgres") -> str:
        """Return where a database of it is."""
        return f"host={HOST} port={self.port} user=covey dbname={database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = " ".join(
            [
                f"-p {self.port} -h {HOST} -k {self.folder}",
                *[f"-c {option}" for option in self._options],
            ]
        )
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"),
            "-o", options, "start",
        )  # fmt: skip

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", mode, "-w", "stop")

    def remove(self) -> None:
        """End it for good."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        done = subprocess.run(
            command,
            user=self._user,
            group=None if self._user is None else pwd.getpwnam(self._user).pw_gid,
            extra_groups=None if self._user is None else [],
            cwd=self.folder,
            stdout=subprocess.DEVNULL if name == "pg_ctl" else subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            check=False,
        )
        if done.returncode:
            log = self.folder / "log"
            text = (done.stdout or b"").decode() + (log.read_text() if log.exists() else "")
            raise RuntimeError(f"{name} failed: {text[-2000:]}")


def _user() -> str | None:
    """Return whom to run it as; None: as whoever runs the tests."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class Postgres:
    """A database of its own in a server that many tests share."""

    _numbers = count(1)

    def __init__(self, server: Server) -> None:
        self.server = server
        self.name = f"test{os.getpid()}_{next(self._numbers)}"
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"create database {self.name}")

    @property
    def dsn(self) -> str:
        """Where it is."""
        return self.server.dsn(self.name)

    def settings(self, *, node: str = "a", lease_s: float = 2.0) -> Settings:
        """Return the settings of a broker that uses it."""
        return Settings(
            store=StoreSettings(kind="postgres", dsn=self.dsn),
            cluster=ClusterSettings(node=node, lease_s=lease_s),
        )

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        """Look into it."""
        return psycopg.connect(self.dsn, autocommit=True)
