"""Go programs of the interop tests, built from the folders beside this file.

Where there is no Go, or a module cannot be had, the tests are skipped with that reason; a program
of ours that does not compile fails them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BUILD_S = 100
RUN_S = 60


def build(folder: str, into: Path) -> Path:
    """Build the program of a folder."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    program = into / "interop"
    try:
        subprocess.run(
            ["go", "build", "-o", str(program), "."],
            cwd=Path(__file__).parent / folder,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        if "main.go" in error.stderr:  # ours is wrong, not the way to the module
            raise AssertionError(error.stderr) from error
        pytest.skip(f"go cannot build {folder}: {error.stderr.strip()[-200:]}")
    return program


def run(program: Path, port: int, scenario: str) -> None:
    """Run a scenario to its end; it must end well."""
    done = subprocess.run(
        [str(program), str(port), scenario],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
