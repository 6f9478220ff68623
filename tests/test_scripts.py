"""The scripts of a fresh checkout, run for real against a Python that only pretends to install."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from covey.cli.serve_options import USUAL_BINDS
from covey.config.settings import DEFAULT_CONNECTORS
from tests.checkout import ROOT, Checkout, checkout

__all__ = ["checkout"]

SCRIPTS: Final = sorted(
    path
    for path in [*(ROOT / "scripts").iterdir(), ROOT / ".ci/run"]
    if path.is_file() and b"bash" in path.read_bytes().partition(b"\n")[0]
)
# serve's --help is the broker's, bench's its tool's
OWN_HELP: Final = ["build", "check", "clean", "fuzz", "packages", "rooms", "setup", "test", "walk"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_script_is_executable_strict_bash_that_says_what_it_does(script: Path) -> None:
    text = script.read_text()
    assert os.access(script, os.X_OK)
    assert re.match(r"#!/usr/bin/env bash\n# \w", text)
    assert re.search(r"^set -(?:e?)uo pipefail$", text, re.MULTILINE)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0


@pytest.mark.parametrize("script", OWN_HELP)
def test_help_needs_no_set_up(checkout: Checkout, script: str) -> None:
    status, out, _ = checkout.run(script, "--help")
    assert (status, f"  scripts/{script}" in out) == (0, True)
    assert not (checkout.root / ".venv").exists()


@pytest.mark.parametrize("failing", ["", "check", "test", "build", "test --compiled"])
def test_ci_runs_all_that_a_change_must_pass_and_fails_with_any_of_it(
    checkout: Checkout, failing: str
) -> None:
    checkout.executable("scripts/packages", '#!/bin/bash\necho "$*" >packages\nexit 1\n')
    for name in ("check", "test", "build"):
        text = (
            f'#!/bin/bash\ncall="{name} $*"\necho "ran $call"\n[ "${{call% }}" != "{failing}" ]\n'
        )
        checkout.executable(f"scripts/{name}", text)
    shutil.copytree(ROOT / ".ci", checkout.root / ".ci")
    found = subprocess.run(
        [checkout.root / ".ci/run"], capture_output=True, text=True, env=checkout.env, check=False
    )
    assert (checkout.root / "packages").read_text() == "--install\n"
    about_packages, *lines = found.stdout.splitlines()
    assert about_packages.startswith("scripts/packages: not all of them")
    calls = [line.removeprefix("ran ").strip() for line in lines[::2]]
    assert calls == ["check", "test", "build", "test --compiled"]
    assert all(line.endswith(" s") for line in lines[1::2])
    assert bool(found.returncode) == bool(failing)


def test_what_the_readme_tells_to_run_is_there() -> None:
    named = re.findall(r"^    scripts/(\w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert {"serve", "test", "check", "build", "fuzz", "torture"} <= set(named)
    assert [name for name in named if not os.access(ROOT / "scripts" / name, os.X_OK)] == []


def test_serve_becomes_the_broker_in_the_callers_directory(
    checkout: Checkout, tmp_path: Path
) -> None:
    process = checkout.start("serve", "--data", "a b", cwd=tmp_path)
    out, _ = process.communicate(timeout=30)
    assert out == f"{process.pid} {tmp_path} serve --data a b\n"
    assert process.returncode == 7


def test_a_signal_sent_to_serve_reaches_the_broker(checkout: Checkout) -> None:
    os.mkfifo(checkout.root / "covey-waits")
    process = checkout.start("serve")
    assert process.stdout is not None
    assert process.stdout.readline().startswith(f"{process.pid} ")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGTERM


def brokers_help() -> str:
    asked = [sys.executable, "-P", "-m", "covey", "serve", "--help"]
    environ = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(asked, capture_output=True, text=True, env=environ, check=True).stdout


@pytest.mark.parametrize("words", [["--help"], ["--data", "a b", "-h"]])
def test_help_of_serve_is_the_brokers_and_needs_no_set_up(
    checkout: Checkout, words: list[str]
) -> None:
    parts = ("__init__.py", "cli/__init__.py", "cli/serve_options.py")
    for part in parts:  # and nothing else of the source
        (checkout.root / "src/covey" / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "src/covey" / part, checkout.root / "src/covey" / part)
    # No package that is installed can be imported; a module of the caller's is not in the way.
    checkout.executable("bin/python3", f'#!/bin/bash\nexec {sys.executable} -S "$@"\n')
    (checkout.root / "argparse.py").write_text("raise SystemError\n")
    assert checkout.run("serve", *words) == (0, brokers_help(), "")
    assert not (checkout.root / ".venv").exists()


def test_the_help_of_serve_names_the_default_addresses() -> None:
    binds = {usual.protocol: usual.bind for usual in DEFAULT_CONNECTORS}
    assert binds == USUAL_BINDS


def test_only_the_first_start_installs(checkout: Checkout) -> None:
    _, _, first = checkout.run("serve")
    _, _, second = checkout.run("serve")
    assert checkout.pip_targets() == ["."]
    assert "installing for: run" in first
    assert second == ""


def test_each_script_adds_what_it_needs_and_keeps_the_rest(checkout: Checkout) -> None:
    checkout.run("serve")
    (checkout.root / ".venv/installed").touch()
    status, out, _ = checkout.run("test", "-k", "x", cwd=Path("/"))
    assert (status, out) == (0, f"{checkout.root} -k x\n")
    checkout.run("setup", "check")
    checkout.run("setup", "test", "check")
    checkout.run("serve")
    assert checkout.pip_targets() == [".", ".[pipeline,test]", ".[check,pipeline,test]"]
    assert (checkout.root / ".venv/installed").exists()


@pytest.mark.parametrize("words", ["", "-q", "--fast", "--fast -q", "tests/core", "-x", "-n 1"])
def test_a_whole_run_is_shared_out_to_the_cores(checkout: Checkout, words: str) -> None:
    _, out, _ = checkout.run("test", *words.split())
    is_shared = words.removeprefix("--fast").strip() in ("", "-q")
    assert (" -n logical " in out) == is_shared
    assert ("--dist loadgroup" in out) == is_shared


def test_a_changed_requirement_installs_again(checkout: Checkout) -> None:
    checkout.run("setup", "test")
    with (checkout.root / "pyproject.toml").open("a") as requirements:
        requirements.write("# changed\n")
    checkout.run("setup")
    assert checkout.pip_targets() == [".[test]", ".[test]"]


def test_a_moved_checkout_installs_again(checkout: Checkout) -> None:
    checkout.run("setup")
    checkout.root = checkout.root.rename(checkout.root.with_name("moved"))
    checkout.env["PATH"] = f"{checkout.root}/bin:{os.environ['PATH']}"
    checkout.run("setup")
    assert checkout.pip_targets() == [".", "."]


def test_two_starts_at_once_install_once(checkout: Checkout) -> None:
    gate = checkout.root / "pip-waits"
    os.mkfifo(gate)
    first = checkout.start("serve")
    with gate.open("w"):  # opens once the first one's pip reads, which ends when it is closed
        second = checkout.start("serve")
        assert second.stderr is not None
        assert "waiting" in second.stderr.readline()
        gate.unlink()
    for process in (first, second):
        process.communicate(timeout=30)
        assert process.returncode == 7
    assert checkout.pip_targets() == ["."]


@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_set_up_is_made_anew(checkout: Checkout, blow: signal.Signals) -> None:
    gate = checkout.root / "pip-waits"
    os.mkfifo(gate)
    process = checkout.start("serve")
    with gate.open("w"):
        (checkout.root / ".venv/half-written").touch()
        os.killpg(process.pid, blow)
        process.communicate(timeout=30)
    gate.unlink()
    assert process.returncode not in (0, 7)
    status, _, said = checkout.run("serve")
    assert (status, "making .venv" in said) == (7, True)
    assert not (checkout.root / ".venv/half-written").exists()


def test_a_failed_pip_is_quoted_and_tried_again(checkout: Checkout) -> None:
    checkout.env["PIP_EXIT"] = "2"
    status, out, said = checkout.run("serve")
    assert (status, out) == (1, "")
    assert "pip's last words\ncovey: pip failed" in said
    assert f"{checkout.root}/.venv/setup.log" in said
    checkout.env["PIP_EXIT"] = "0"
    assert checkout.run("serve")[0] == 7


def test_missing_system_packages_are_named_in_one_line_before_pip(checkout: Checkout) -> None:
    tools = "bash cat cut dirname env flock readlink sed sha256sum sort tr".split()
    for tool in tools:
        (checkout.root / "bin" / tool).symlink_to(str(shutil.which(tool)))
    checkout.env |= {"PATH": f"{checkout.root}/bin", "CC": "no-such-compiler"}
    status, out, said = checkout.run("serve")
    assert (status, out) == (1, "")
    assert re.fullmatch(
        r"covey: .* sudo apt-get install .*gcc libc6-dev pkg-config libssl-dev\n", said
    )
    assert checkout.pip_targets() == []


@pytest.mark.parametrize(
    ("python", "cause"),
    [("exit 127", "does not run"), ("[[ $2 == *exit* ]] && exit 1; echo 3.9.2", "is 3.9.2")],
)
def test_a_python_that_is_missing_or_too_old_is_named_in_one_line(
    checkout: Checkout, python: str, cause: str
) -> None:
    checkout.executable("bin/old", f"#!/bin/bash\n{python}\n")
    checkout.env["PYTHON"] = "old"
    status, _, said = checkout.run("serve")
    assert status == 1
    assert re.fullmatch(rf"covey: needs Python 3.11 or newer, but 'old' {cause}.*\n", said)


def test_check_runs_every_tool_and_fails_if_one_objects(checkout: Checkout) -> None:
    checkout.run("setup", "test", "check")
    checkout.executable(
        ".venv/bin/python",
        '#!/bin/bash\n[[ $* == *mypy* ]] || exit 0\necho "an objection"\nexit 1\n',
    )
    checkout.executable("scripts/setup", "#!/bin/bash\n")
    status, out, _ = checkout.run("check")
    assert status == 1
    assert re.findall(r"^(\w[\w -]*?) +(ok|FAILED) ", out, re.MULTILINE) == [
        ("ruff check", "ok"),
        ("ruff format", "ok"),
        ("mypy", "FAILED"),
        ("mypyc", "FAILED"),  # scripts/build --check: its Python fails, too
        ("import-linter", "ok"),
    ]
    assert "\nan objection\n" in out


def test_clean_deletes_builds_and_leaves_the_environment_and_the_data(checkout: Checkout) -> None:
    waste = ["build/x", "dist/x", "src/covey.egg-info/x", "core/x.so", "core/__pycache__/x.pyc"]
    kept = [".venv/lib/x.so", "data/x.so", "core/x.py"]
    for place in waste + kept:
        (checkout.root / place).parent.mkdir(parents=True, exist_ok=True)
        (checkout.root / place).touch()
    assert checkout.run("clean")[0] == 0
    assert [place for place in waste + kept if (checkout.root / place).exists()] == kept


def test_fast_tests_leave_slow_ones_out_and_take_further_arguments(checkout: Checkout) -> None:
    status, out, _ = checkout.run("test", "--fast", "-x", "-k", "group")
    folders = re.findall(r"tests/\S+", out)
    assert status == 0
    assert " -q -m not slow and not interop and not spark tests/core " in out
    assert out.endswith(f" {folders[-1]} -x -k group\n")
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []


def mark_of_hot_modules() -> str:
    tree = ast.parse((ROOT / "setup.py").read_text())
    (value,) = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MARK"
    ]
    mark: str = ast.literal_eval(value)
    return mark


def hot_modules() -> list[str]:
    mark = mark_of_hot_modules()
    rooms = ("config", "core", "groups", "pipeline", "protocols", "src/covey")
    places = sorted(place for room in rooms for place in (ROOT / room).rglob("*.py"))
    texts = ((place, place.read_text()) for place in places)
    return [
        place.relative_to(ROOT).as_posix() for place, text in texts if text.startswith(mark + "\n")
    ]


def test_hot_modules_are_found_by_their_first_line() -> None:
    assert {"core/dispatch/lane.py", "protocols/stomp/parser.py"} <= set(hot_modules())


def test_no_hot_module_is_in_a_package_that_names_spark() -> None:
    """A first start compiles, and has no Spark: mypyc would miss what the package imports."""
    packages = {Path(module).parent for module in hot_modules()}
    openings = [ROOT / folder / "__init__.py" for folder in packages]
    places = [*openings, *(ROOT / module for module in hot_modules())]
    names_it = re.compile(r"^\s*(?:from|import) covey\.pipeline", re.MULTILINE)
    assert [place for place in places if names_it.search(place.read_text())] == []
