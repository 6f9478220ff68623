"""A real PostgreSQL for tests: a server in a temporary directory, a database for each test.

The server is Debian's, started as the user `postgres` or `nobody` where the tests run as root, for
it refuses root. Where there is none, tests that need it say so and are skipped.

A `Pair` is a server with a synchronous standby, which can be promoted. A server can be in a network
namespace of its own (`tests.e2e.cluster.network`).
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
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
    places = [Path(on_path).resolve().parent] if on_path else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with closing(socket.create_server((HOST, 0))) as free:
        return int(free.getsockname()[1])


class Server:
    """One server, which can be started, stopped, killed and promoted."""

    def __init__(
        self,
        options: tuple[str, ...] = (),
        *,
        hosts: tuple[str, ...] = (HOST,),
        inside: int | None = None,
        port: int = 0,
        follows: Server | None = None,
    ) -> None:
        """Make a server and start it.

        It listens on `hosts`, in the network namespace of the process `inside`, and it is a standby
        of the server that it `follows`.
        """
        binaries = find_binaries()
        if binaries is None:
            pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
        self._binaries = binaries
        self._options = options
        self.hosts = hosts
        self._inside = inside
        self.folder = Path(tempfile.mkdtemp(prefix="covey-postgres-"))
        self.port = port or free_port()
        self._user = _user()
        if self._user is not None:
            shutil.chown(self.folder, self._user, pwd.getpwnam(self._user).pw_gid)
        data = str(self.folder / "data")
        if follows is None:
            given = ["-A", "trust", "-U", "covey", "-E", "UTF8", "--no-sync"]
            self._run("initdb", "-D", data, *given)
            with (self.folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 0.0.0.0/0 trust\n")
        else:
            place = ["-h", follows.hosts[0], "-p", str(follows.port), "-U", "covey"]
            self._run("pg_basebackup", *place, "-D", data, "-R", "-c", "fast", "--no-sync")
        self.start()

    def dsn(self, database: str = "postgres") -> str:
        """Return where a database of it is."""
        return f"host={self.hosts[-1]} port={self.port} user=covey dbname={database}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = " ".join(
            [
                f"-p {self.port} -h {','.join(self.hosts)} -k {self.folder}",
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

    def promote(self) -> None:
        """Make a standby a primary."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "promote")

    def remove(self) -> None:
        """End it for good."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._binaries / name), *arguments]
        user: str | None = self._user
        group = None if user is None else pwd.getpwnam(user).pw_gid
        if self._inside is not None:
            # Entering a namespace needs root, so nsenter has to change the user after that.
            entry = pwd.getpwnam(user or "nobody")
            enter = ["nsenter", "-t", str(self._inside), "-n"]
            command = [*enter, "-S", str(entry.pw_uid), "-G", str(entry.pw_gid), *command]
            user, group = None, None
        done = subprocess.run(
            command,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
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


class Pair:
    """A primary and its synchronous standby, on two ports of the same hosts."""

    def __init__(self, hosts: tuple[str, ...] = (HOST,), inside: int | None = None) -> None:
        self._hosts = hosts
        self._inside = inside
        self.primary = Server(hosts=hosts, inside=inside)
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = '*'")
        self._follow(0)

    def dsn(self, database: str = "postgres", host: str = "") -> str:
        """Return where the primary is, whichever of the two that is."""
        place = host or self._hosts[-1]
        ports = f"{self.primary.port},{self.standby.port}"
        where = f"host={place},{place} port={ports} user=covey dbname={database}"
        return f"{where} target_session_attrs=read-write"

    def stop(self, mode: str = "immediate") -> None:
        """Stop the primary; `immediate` is a crash."""
        self.primary.stop(mode)

    def start(self) -> None:
        """Start the primary again."""
        self.primary.start()

    def fail_over(self) -> None:
        """Lose the primary and promote the standby; commits wait until it has one (`mend`)."""
        lost = self.primary
        lost.stop("immediate")
        self.standby.promote()
        self.primary, self._lost = self.standby, lost

    def mend(self) -> None:
        """Give the new primary a standby in the place of the lost server."""
        shutil.rmtree(self._lost.folder, ignore_errors=True)
        self._follow(self._lost.port)

    def remove(self) -> None:
        """End both for good."""
        self.standby.remove()
        self.primary.remove()

    def _follow(self, port: int) -> None:
        self.standby = Server(
            hosts=self._hosts, inside=self._inside, port=port, follows=self.primary
        )
        with psycopg.connect(self.primary.dsn(), autocommit=True) as connection:
            connection.execute("select pg_reload_conf()")
            deadline = time.monotonic() + TIMEOUT_S
            query = "select 1 from pg_stat_replication where sync_state = 'sync'"
            while connection.execute(query).fetchone() is None:
                assert time.monotonic() < deadline, "the standby does not follow"
                time.sleep(0.05)


def _user() -> str | None:
    """Return whom to run it as; None: as whoever runs the tests."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


class Postgres:
    """A database of its own in a server that many tests share."""

    _numbers = count(1)

    def __init__(self, server: Server | Pair) -> None:
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
