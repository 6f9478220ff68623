"""Java, and the jars that Maven brings for the tests of Java clients.

Jars and classes are kept in the user's cache directory, outside the checkout. Where there is no
Java or no Maven, or Maven cannot bring the jars, the tests that need them are skipped with that
reason; a program of ours that does not compile fails them.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.interop.cached import cache_folder, locked

FOLDER = Path(__file__).parent / "java"
INSTALL_S = 200
COMPILE_S = 100
RUN_S = 60


@cache
def _problem() -> str:
    """Bring the jars and compile, if need be; say why that is not possible, "" if it is."""
    missing = [name for name in ("java", "javac", "mvn") if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    with locked(_built()):
        return _bring_jars() or _compile()


def _bring_jars() -> str:
    if (_built() / "jars").is_dir():
        return ""
    command = ["mvn", "-q", "-B", "-f", str(FOLDER / "pom.xml"), "dependency:copy-dependencies"]
    parts = _built() / "parts"
    try:
        subprocess.run(
            [*command, f"-DoutputDirectory={parts}"],
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=True,
        )
    except subprocess.SubprocessError as error:
        return f"mvn cannot bring the jars of {FOLDER.name}/pom.xml: {error}"
    parts.rename(_built() / "jars")
    return ""


def _compile() -> str:
    if _classes().is_dir():
        return ""
    parts = _built() / "compiled"
    command = ["javac", "-cp", f"{_built() / 'jars'}/*", "-d", str(parts)]
    done = subprocess.run(
        [*command, *map(str, _sources())],
        capture_output=True,
        text=True,
        timeout=COMPILE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parts.rename(_classes())
    return ""


def _built() -> Path:
    """Return where jars and classes are; another pom.xml has another place."""
    return cache_folder("java") / _digest([FOLDER / "pom.xml"])


def _sources() -> list[Path]:
    return sorted(FOLDER.glob("*.java"))


def _classes() -> Path:
    """Return where the classes of our own programs are; changed programs have another place."""
    return _built() / f"classes-{_digest(_sources())}"


def _digest(files: list[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def start_java(name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program, whose input and output are the caller's."""
    if _problem():
        pytest.skip(_problem())
    return subprocess.Popen(
        ["java", "-cp", f"{_built() / 'jars'}/*:{_classes()}", name, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish_java(program: subprocess.Popen[str], line: str = "") -> str:
    """Tell a program a line and wait for its end; return what it wrote. It must end well."""
    try:
        said, complaints = program.communicate(line, RUN_S)
    finally:
        program.kill()
    assert program.returncode == 0, said + complaints
    return said


def run_java(name: str, *arguments: str) -> str:
    """Run a program to its end and return what it wrote; it must end well."""
    return finish_java(start_java(name, *arguments))
