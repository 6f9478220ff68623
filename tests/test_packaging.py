"""What pip is told: the requirements of a build, the extras, the licence, the files of a wheel.

Nothing is compiled here, which takes minutes. What a compilation would read is compared with what
its build environment would hold.
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
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
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
    wheel = copy / "dist" / json.loads(ask_backend(copy, "build_wheel('dist')"))
    with zipfile.ZipFile(wheel) as packed:
        (info,) = [one.partition("/")[0] for one in packed.namelist() if one.endswith("/METADATA")]
        licence = packed.read(f"{info}/licenses/LICENSE")
        metadata = HeaderParser().parsestr(packed.read(f"{info}/METADATA").decode())
        assert "covey/config/default.toml" in packed.namelist()
    assert hashlib.sha256(licence).hexdigest() == APACHE_2
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"


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
