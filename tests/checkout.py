"""A fresh checkout, with a Python that only pretends to install.

`FAKE_PYTHON` stands in for python3 and for .venv/bin/python: making a .venv copies it there, pip
writes down that it was called, `-m covey` tells what it was started as, and anything else goes to
the real interpreter. So no test touches a network, and all else is the scripts' own doing. Nothing
is compiled: setup.py's build is a copy of the source, or fails while BUILD_FAILS is set.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent

FAKE_PYTHON: Final = f"""#!/bin/bash
case "$*" in
"-m venv .venv")
    mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
*"-m pip "*)
    trap 'exit 1' INT # as pip does, so that a Ctrl-C looks like a failure
    echo "$*" >>pip-calls
    [ ! -p pip-waits ] || cat pip-waits
    echo "pip's last words"
    [[ ! $* =~ --target.([^ ]+) ]] || mkdir "${{BASH_REMATCH[1]}}"
    exit "${{PIP_EXIT:-0}}" ;;
"setup.py -q build "*)
    echo "$PYTHONPATH" >>"{{root}}/setup-calls"
    echo "covey-build: 50 % compiled"
    [ ! -p "{{root}}/build-waits" ] || cat "{{root}}/build-waits"
    [ -z "${{BUILD_FAILS:-}}" ] || {{ echo "the compiler's last words" && exit 1; }}
    mkdir lib && cp -r src/covey lib ;;
"-P -m covey "*)
    echo "$$ $PWD ${{*:4}}"
    [ -z "${{PYTHONPATH:-}}" ] || echo "path $PYTHONPATH" >&2
    [ -z "${{COVEY_BUILD:-}}" ] || echo "build $COVEY_BUILD" >&2
    [ ! -p covey-waits ] || read -r _ <covey-waits
    exit 7 ;;
"-P -m pytest "*)
    echo "$PWD ${{*:4}}" ;;
*)
    exec {sys.executable} "$@" ;;
esac
"""


class Checkout:
    """A copy of the scripts in a folder of its own, with the fake Python first on the path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.env = os.environ | {"PATH": f"{root}/bin:{os.environ['PATH']}", "COVEY_PLAIN": "1"}
        for name in ("PYTHON", "PYTHONPATH", "BUILD_FAILS"):
            self.env.pop(name, None)
        shutil.copytree(ROOT / "scripts", root / "scripts")
        shutil.copy(ROOT / "pyproject.toml", root)
        self.executable("bin/python3", FAKE_PYTHON.replace("{root}", str(root)))

    def executable(self, place: str, text: str) -> None:
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def start(self, script: str, *arguments: str, cwd: Path | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.root / "scripts" / script, *arguments],
            cwd=cwd or self.root,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str, *arguments: str, cwd: Path | None = None) -> tuple[int, str, str]:
        process = self.start(script, *arguments, cwd=cwd)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    def pip_targets(self) -> list[str]:
        """What each call of pip was to install."""
        calls = self.root / "pip-calls"
        return (
            [line.split()[-1] for line in calls.read_text().splitlines()] if calls.exists() else []
        )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root = tmp_path / "a checkout"
    root.mkdir()
    return Checkout(root)
