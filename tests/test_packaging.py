"""What pip is told: the requirements of a build, the extras, the licence, the files of a wheel.

Sdist and wheel are installed into an environment without the checkout, which serves a message. The
dependencies are this environment's own: nothing is brought from a network.

Nothing is compiled here, which takes minutes. What a compilation would read is compared with what
its build environment would hold. The compiled wheel is what `scripts/build` makes with pip, and
`scripts/test --compiled` tests. `PIP_WHEEL_TEST=1` has pip install everything from the network,
plain and compiled.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from email.parser import HeaderParser
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())
APACHE_2: Final = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of https://www.apache.org/licenses/LICENSE-2.0.txt."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What scripts/Containerfile copies, in a folder that a build may write to."""
    folder = tmp_path_factory.mktemp("package")
    (copied,) = re.findall(
        r"^COPY (pyproject.toml .*) \./$",
        (ROOT / "scripts/Containerfile").read_text(),
        re.MULTILINE,
    )
    for name in copied.split():
        shutil.copy(ROOT / name, folder)
    waste = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
    shutil.copytree(ROOT / "src", folder / "src", ignore=waste)  # the rooms, not the links to them
    return folder


def ask_backend(folder: Path, call: str, compiled: str = "0") -> str:
    """Ask the build backend as pip does, in a process of its own; give the last line it says."""
    code = f"import json, setuptools.build_meta as b; print(); print(json.dumps(b.{call}))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=folder,
        env=os.environ | {"COVEY_COMPILE": compiled},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def build_requirements(folder: Path, compiled: str) -> set[str]:
    listed = json.loads(ask_backend(folder, "get_requires_for_build_wheel()", compiled))
    return {distribution(one) for one in listed}


def distribution(requirement: str) -> str:
    """Give the name of what is required, spelled as pip compares it."""
    (name,) = re.findall(r"^[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(place: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(place.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def source_of(module: str) -> Path | None:
    base = ROOT / "src" / module.replace(".", "/")
    places = (base.with_suffix(".py"), base / "__init__.py")
    return next((place for place in places if place.is_file()), None)


@cache
def foreign_modules_read_by_mypyc() -> set[str]:
    """Follow the imports of the compiled modules, as mypyc does, to all that is not Covey's."""
    mark = "# Compiled by mypyc"
    source = ROOT / "src/covey"
    places = [
        Path(at) / name for at, _, names in os.walk(source, followlinks=True) for name in names
    ]
    waiting = [one for one in places if one.suffix == ".py" and one.read_text().startswith(mark)]
    assert len(waiting) > 20
    seen, foreign = set(waiting), set()
    while waiting:
        for module in imported(waiting.pop()):
            place = source_of(module)
            if place is not None and place not in seen:
                seen.add(place)
                waiting.append(place)
            foreign.add(module.partition(".")[0])
    return foreign - {"covey"} - set(sys.stdlib_module_names)


def may_be_missing(module: str) -> bool:
    """Return True if mypy is told to go on without the module's types."""
    overrides = PROJECT["tool"]["mypy"]["overrides"]
    waived = {
        name for one in overrides if "ignore_missing_imports" in one for name in one["module"]
    }
    return f"{module}.*" in waived


def test_a_compiled_build_asks_for_all_that_mypyc_reads(copy: Path) -> None:
    found = build_requirements(copy, "1")
    of_module = packages_distributions()
    needed = {
        module: {distribution(name) for name in of_module[module]}
        for module in foreign_modules_read_by_mypyc()
        if not may_be_missing(module)
    }
    assert {"pydantic", "lark", "cachetools"} <= set(needed)
    brought = {"pydantic_core": "pydantic"}
    lacking = {
        module
        for module, names in needed.items()
        if names.isdisjoint(found) and brought.get(module) not in found
    }
    assert lacking == set()
    assert {"mypy", "types-cachetools"} <= found


def test_a_compiled_build_does_not_ask_for_what_has_no_types(copy: Path) -> None:
    """Proton has no wheel: a build environment would compile it for nothing."""
    untyped = {"python-qpid-proton", "google-re2", "scramp", "uvloop"}
    assert untyped.isdisjoint(build_requirements(copy, "1"))


PORTS: Final = [word for one in ("stomp", "amqp", "http") for word in (f"--{one}", "127.0.0.1:0")]


@contextmanager
def serving(environment: Path, folder: Path) -> Iterator[dict[str, str]]:
    """Run the broker that an environment has installed; give what its welcome says of it."""
    process = subprocess.Popen(
        [environment / "bin/covey", "serve", "--data", folder / "data", *PORTS],
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
    )
    assert process.stdout is not None
    try:
        yield {
            name: rest for name, rest, *_ in (process.stdout.readline().split() for _ in "12345")
        }
    finally:
        process.terminate()
        process.communicate(timeout=30)


def clean_environment(folder: Path) -> Path:
    """Make an environment that has the broker's dependencies and no covey.

    They are this environment's own. A path that a .pth file names is searched for modules and not
    for further .pth files, so what is installed here in editable form is not found there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("platlib") + "\n")
    return folder / "env"


def pip_install(environment: Path, *asked: str) -> None:
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
    into = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python")]
    subprocess.run([*into, "install", *offline, *asked], check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["sdist", "wheel"])
def test_what_pip_installs_serves_without_the_checkout(
    copy: Path, tmp_path: Path, kind: str
) -> None:
    made = copy / "dist" / json.loads(ask_backend(copy, f"build_{kind}('dist')"))
    environment = clean_environment(tmp_path)
    pip_install(environment, str(made))
    asked = [str(environment / "bin/python"), "-P", "-c", "import covey; print(covey.__file__)"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.startswith(str(environment))
    with serving(environment, tmp_path) as welcome:
        assert welcome["build"] == "plain"
        place = f"admin/password@{welcome['stomp']}"
        for words in (["send", "q", "hello"], ["receive", "q"]):
            covey = [str(environment / "bin/covey"), "message", *words, "--broker", place]
            said = subprocess.run(covey, capture_output=True, text=True, check=True, cwd=tmp_path)
        assert "hello" in said.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif("PIP_WHEEL_TEST" not in os.environ, reason="needs a network: PIP_WHEEL_TEST=1")
@pytest.mark.parametrize("build", ["plain", "compiled"])
def test_pip_installs_all_of_it_from_the_network(copy: Path, tmp_path: Path, build: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "env"], check=True)
    python = tmp_path / "env/bin/python"
    asked = [str(python), "-m", "pip", "install", "--disable-pip-version-check", str(copy)]
    compiled = str(int(build == "compiled"))
    subprocess.run(asked, check=True, env=os.environ | {"COVEY_COMPILE": compiled})
    with serving(tmp_path / "env", tmp_path) as welcome:
        assert welcome["build"] == build


def test_without_a_compiler_one_line_names_the_packages(copy: Path, tmp_path: Path) -> None:
    python = clean_environment(tmp_path) / "bin/python"  # its own folder has no proton
    code = "import setuptools.build_meta as b; b.prepare_metadata_for_build_wheel('.')"
    (tmp_path / "bin").mkdir()
    environ = {"PATH": str(tmp_path / "bin")}
    done = subprocess.run(
        [python, "-P", "-c", code], cwd=copy, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 1
    *_, line = done.stderr.splitlines()
    assert line.startswith("covey: python-qpid-proton must be compiled")
    assert "sudo apt-get install gcc libc6-dev " in line
    assert "Traceback" not in done.stderr
    environ["COVEY_WITHOUT_COMPILER"] = "1"
    subprocess.run([python, "-P", "-c", code], cwd=copy, env=environ, check=True)


def test_the_image_copies_every_room_and_its_settings_are_in_order(tmp_path: Path) -> None:
    text = (ROOT / "scripts/Containerfile").read_text()
    copied = set(re.findall(r"^COPY (\w+) \1$", text, re.MULTILINE))
    assert copied == {"src"} | {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    asked = [sys.executable, "-m", "covey", "config", "check", str(ROOT / "scripts/container.toml")]
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run(asked, check=True, cwd=tmp_path, env=environ, capture_output=True)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    unit = (ROOT / "scripts/covey.service").read_text()
    (tmp_path / "covey.service").write_text(unit.replace("/opt/covey/bin/covey", "/bin/true"))
    asked = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "covey.service")]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_plain_build_asks_for_setuptools_alone(copy: Path) -> None:
    assert build_requirements(copy, "0") == set()
    assert [distribution(one) for one in PROJECT["build-system"]["requires"]] == ["setuptools"]


def test_the_licence_is_apaches_word_for_word() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2


def test_sdist_and_wheel_hold_the_licence_and_name_it(copy: Path) -> None:
    sdist = copy / "dist" / json.loads(ask_backend(copy, "build_sdist('dist')"))
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
        assert {"LICENSE", "README.md", "setup.py", "src/covey/core/dispatch/lane.py"} <= inside
        assert console_files("src/covey/") <= inside
    wheel = copy / "dist" / json.loads(ask_backend(copy, "build_wheel('dist')"))
    with zipfile.ZipFile(wheel) as packed:
        (info,) = [one.partition("/")[0] for one in packed.namelist() if one.endswith("/METADATA")]
        licence = packed.read(f"{info}/licenses/LICENSE")
        metadata = HeaderParser().parsestr(packed.read(f"{info}/METADATA").decode())
        assert "covey/config/default.toml" in packed.namelist()
        assert console_files("covey/") <= set(packed.namelist())
    assert hashlib.sha256(licence).hexdigest() == APACHE_2
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"


def console_files(start: str) -> set[str]:
    """All that the console's page loads, as a package names it."""
    folder = ROOT / "protocols/http/console/static"
    found = {f"{start}{one.relative_to(ROOT).as_posix()}" for one in folder.iterdir()}
    assert len(found) > 10
    return found


def test_a_compiled_build_is_made_anew_when_the_console_changes() -> None:
    script = (ROOT / "scripts/build").read_text()
    (condition,) = re.findall(r"find -L src/covey (\\\(.*\\\)) -type f", script)
    listed = subprocess.run(
        f"find -L src/covey {condition} -type f",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert console_files("src/covey/") <= set(listed)


def parts_of(extra: str) -> set[str]:
    """All that an extra asks for, with what the extras it names ask for."""
    found: set[str] = set()
    for requirement in PROJECT["project"]["optional-dependencies"][extra]:
        own = re.fullmatch(r"covey\[(\w+)\]", requirement)
        found |= parts_of(own[1]) if own else {distribution(requirement)}
    return found


def test_examples_ask_for_what_they_import_and_not_more() -> None:
    places = (ROOT / "docs/examples").glob("*.py")
    modules = {module.partition(".")[0] for place in places for module in imported(place)}
    foreign = modules - {"covey", "proton"} - set(sys.stdlib_module_names)
    assert (foreign, parts_of("examples")) == ({"stomp"}, {"stomp-py"})
    assert "scripts/setup examples" in (ROOT / "README.md").read_text()


def test_only_the_pipeline_asks_for_spark() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert [extra for extra in extras if "pyspark" in parts_of(extra)] == ["pipeline"]
