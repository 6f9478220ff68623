"""Node and the npm packages that interop tests and examples need.

Packages are installed once into the user's cache directory, outside the checkout. Where there is
no node, or npm cannot install, the tests that need it are skipped with that reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.interop.cached import cache_folder, locked

PACKAGES = ("stompit@1.0.0", "@stomp/stompjs@7.5.0", "rhea@3.0.5")
INSTALL_S = 100
SCRIPT_S = 60


@cache
def _problem() -> str:
    """Install the packages if need be; say why that is not possible, "" if it is."""
    npm = shutil.which("npm")
    if shutil.which("node") is None or npm is None:
        return "node and npm are not installed"
    with locked(modules().parent):
        return _install(npm)


def _install(npm: str) -> str:
    if all((modules() / package.rpartition("@")[0]).is_dir() for package in PACKAGES):
        return ""
    folder = modules().parent
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", *PACKAGES]
    try:
        subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"npm cannot install {' '.join(PACKAGES)}: {error}"
    return ""


def modules() -> Path:
    """Where the packages are."""
    return cache_folder("node") / "node_modules"


def start_node(script: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start a script, whose output is the caller's."""
    if _problem():
        pytest.skip(_problem())
    return subprocess.Popen(
        ["node", str(script), *arguments],
        env=dict(os.environ, NODE_PATH=str(modules())),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_node(script: Path, *arguments: str) -> str:
    """Run a script to its end and return what it wrote; it must end well."""
    program = start_node(script, *arguments)
    try:
        said, complaints = program.communicate(timeout=SCRIPT_S)
    finally:
        program.kill()
    assert program.returncode == 0, said + complaints
    return said
