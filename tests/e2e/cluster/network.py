"""A network between brokers and their database that can be cut, in namespaces of their own.

    brokers and clients          the database
    10.77.1.1 ---- link 1 ---- 10.77.1.2
    10.77.2.1 ---- link 2 ---- 10.77.2.2

Each broker reaches the database over a link of its own. A link that is cut drops every packet, and
tells nobody. `deafen` drops only what the database says. This needs root, and nothing of it is
seen outside: the namespaces end with the processes that are in them.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from typing import Final

NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET
NOBODY: Final = "02:00:00:00:00:01"  # a hardware address that no interface has
TIMEOUT_S: Final = 10


def why_not() -> str:
    """Return why this process cannot have such a network; "" if it can."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network namespaces need Linux and root"
    missing = [name for name in ("ip", "nsenter", "unshare") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed (Debian: iproute2, util-linux)"
    tried = subprocess.run(
        ["unshare", "-n", "ip", "link", "add", "one", "type", "veth", "peer", "name", "two"],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return "" if tried.returncode == 0 else "this system allows no network namespaces"


class Network:
    """Two links to a namespace for the database; this process leaves the network it was in."""

    def __init__(self) -> None:
        if ctypes.CDLL(None, use_errno=True).unshare(NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "no network namespace")
        _run("ip", "link", "set", "lo", "up")
        # It ends when this process does, since nobody has the other end of its input then.
        self._holder = subprocess.Popen(["unshare", "-n", "cat"], stdin=subprocess.PIPE)
        self.inside = self._holder.pid
        while os.readlink(f"/proc/{self.inside}/ns/net") == os.readlink("/proc/self/ns/net"):
            assert self._holder.poll() is None, "the namespace of the database ended"
        self._there("ip", "link", "set", "lo", "up")
        for link in (1, 2):
            self._make(link)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the addresses of the database: within its namespace, and on each link."""
        return ("127.0.0.1", self.host(2), self.host(1))

    def host(self, link: int) -> str:
        """Return the address of the database on a link."""
        return f"10.77.{link}.2"

    def cut(self, link: int) -> None:
        """Drop all packets of a link from now on."""
        self._there("ip", "link", "set", f"port{link}", "nomaster")

    def deafen(self, link: int) -> None:
        """Drop what the database says over a link; what is said to it still arrives."""
        told = ["to", f"10.77.{link}.1", "lladdr", NOBODY, "dev", f"bridge{link}"]
        self._there("ip", "neigh", "replace", *told, "nud", "permanent")

    def join(self, link: int) -> None:
        """Let all packets of a link pass."""
        self._there("ip", "link", "set", f"port{link}", "master", f"bridge{link}")
        gone = ["ip", "neigh", "del", f"10.77.{link}.1", "dev", f"bridge{link}"]
        subprocess.run(self._command(*gone), capture_output=True, timeout=TIMEOUT_S, check=False)

    def close(self) -> None:
        """End the namespace of the database."""
        self._holder.kill()
        self._holder.wait(TIMEOUT_S)

    def _make(self, link: int) -> None:
        # The address belongs to a bridge: while a link is cut, the database keeps it.
        near, far = f"link{link}", f"port{link}"
        peer = ["peer", "name", far, "netns", str(self.inside)]
        _run("ip", "link", "add", near, "type", "veth", *peer)
        _run("ip", "addr", "add", f"10.77.{link}.1/24", "dev", near)
        self._there("ip", "link", "add", f"bridge{link}", "type", "bridge")
        self._there("ip", "link", "set", far, "master", f"bridge{link}")
        self._there("ip", "addr", "add", f"{self.host(link)}/24", "dev", f"bridge{link}")
        _run("ip", "link", "set", near, "up")
        for name in (far, f"bridge{link}"):
            self._there("ip", "link", "set", name, "up")

    def _command(self, *command: str) -> list[str]:
        return ["nsenter", "-t", str(self.inside), "-n", *command]

    def _there(self, *command: str) -> None:
        _run(*self._command(*command))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=TIMEOUT_S)
