"""scripts/build, and what scripts/serve makes of it: a build that is whole and matches, or none."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.checkout import Checkout, checkout

__all__ = ["checkout"]


@pytest.fixture
def compilable(checkout: Checkout) -> Checkout:
    """A checkout with a source to compile."""
    (checkout.root / "src/covey").mkdir(parents=True)
    for place in ("src/covey/x.py", "setup.py", "README.md", "LICENSE"):
        (checkout.root / place).touch()
    checkout.env["COVEY_PLAIN"] = ""
    return checkout


def built(checkout: Checkout) -> list[Path]:
    return [path for path in checkout.root.glob(".venv/compiled/*") if path.is_dir()]


def beside(checkout: Checkout) -> tuple[int, list[str]]:
    """Compile as a broker has it done; return the exit code and the lines that it would read."""
    process = subprocess.Popen(
        [checkout.root / "scripts/build", "--beside"],
        env=checkout.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()  # its input stays open, as a broker's would
    return process.wait(30), lines


def test_the_first_start_runs_the_source_at_once_and_names_what_compiles_it(
    compilable: Checkout,
) -> None:
    status, _, said = compilable.run("serve")
    assert (status, said.splitlines()[-1]) == (7, f"build {compilable.root}/scripts/build")
    assert (built(compilable), compilable.pip_targets()) == ([], ["."])


def test_a_build_made_beside_a_broker_is_the_next_starts(compilable: Checkout) -> None:
    compilable.run("serve")
    code, lines = beside(compilable)
    assert (code, lines[1]) == (0, "50 % compiled")
    assert lines[-1].startswith("compiled after ")
    (build,) = built(compilable)
    assert (build / "covey/x.py").exists()
    assert compilable.run("serve")[2] == f"path {build}\n"
    assert beside(compilable) == (0, [])  # there is nothing to do


def test_a_build_is_waited_for_where_that_is_asked_for(compilable: Checkout) -> None:
    status, out, said = compilable.run("serve", "--wait-for-build", "--data", "x")
    (build,) = built(compilable)
    assert (status, said.splitlines()[-1]) == (7, f"path {build}")
    assert out.endswith("serve --wait-for-build --data x\n")


def test_the_compilers_python_part_is_installed_once_beside_what_runs(compilable: Checkout) -> None:
    compilable.run("build")
    (compilable.root / "src/covey/x.py").write_text("edited\n")
    compilable.run("build")
    (tools,) = compilable.root.glob(".venv/tools-*")
    assert (compilable.root / "setup-calls").read_text() == f"{tools}\n" * 2
    assert len(compilable.pip_targets()) == 2  # one for the broker, one for this


def test_an_edited_source_runs_plain_until_it_is_built_again(compilable: Checkout) -> None:
    compilable.run("build")
    (first,) = built(compilable)
    (compilable.root / "src/covey/x.py").write_text("edited\n")
    assert compilable.run("serve")[2] == f"build {compilable.root}/scripts/build\n"
    assert compilable.run("build")[0] == 0
    (second,) = [path for path in built(compilable) if path != first]
    assert compilable.run("serve")[2] == f"path {second}\n"


def test_only_the_last_two_builds_are_kept(compilable: Checkout) -> None:
    for text in ("1\n", "2\n", "3\n"):
        (compilable.root / "src/covey/x.py").write_text(text)
        compilable.run("build")
    texts = {(path / "covey/x.py").read_text() for path in built(compilable)}
    assert texts == {"2\n", "3\n"}


def test_plain_is_run_and_nothing_compiled_where_it_is_asked_for(compilable: Checkout) -> None:
    compilable.run("build")
    compilable.env["COVEY_PLAIN"] = "1"
    assert compilable.run("serve")[2] == ""
    compilable.env["COVEY_BUILD"] = "of an outer broker"
    assert compilable.run("serve", "--wait-for-build")[2] == ""


@pytest.mark.parametrize("obstacle", [{"BUILD_FAILS": "1"}, {"CC": "no-such-compiler"}])
def test_a_broker_that_cannot_be_compiled_starts(
    compilable: Checkout, obstacle: dict[str, str]
) -> None:
    compilable.run("setup")  # which needs a compiler of its own, for proton
    compilable.env |= obstacle
    code, lines = beside(compilable)
    assert (code, lines[-1].startswith("failed: ")) == (1, True)
    assert compilable.run("serve")[0] == 7
    assert compilable.run("build")[0] == 1
    assert built(compilable) == []


def test_a_source_that_did_not_compile_is_not_tried_again_beside_a_broker(
    compilable: Checkout,
) -> None:
    compilable.run("setup")
    compilable.env["BUILD_FAILS"] = "1"
    beside(compilable)
    compilable.env["BUILD_FAILS"] = ""
    code, (line,) = beside(compilable)
    assert (code, "did not compile before" in line) == (1, True)
    assert compilable.run("build")[0] == 0
    assert len(built(compilable)) == 1


def test_a_compilation_ends_with_the_broker_that_holds_its_input(compilable: Checkout) -> None:
    compilable.run("setup")
    gate = compilable.root / "build-waits"
    os.mkfifo(gate)
    process = subprocess.Popen(
        [compilable.root / "scripts/build", "--beside"],
        env=compilable.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with gate.open("w"):  # opens once the compiler is at work
        process.stdin.close()  # as the system does for a broker that is killed
        assert process.wait(30) == -signal.SIGTERM
        process.stdout.read()  # ends when the last of its processes has ended
        assert built(compilable) == []
    gate.unlink()
    assert compilable.run("serve")[2] == f"build {compilable.root}/scripts/build\n"
    assert beside(compilable)[0] == 0


def test_build_does_nothing_while_its_build_matches(compilable: Checkout) -> None:
    compilable.run("build")
    assert compilable.run("build") == (0, "", "")


def test_compiled_tests_read_the_build_and_not_the_source(compilable: Checkout) -> None:
    status, out, _ = compilable.run("test", "--compiled", "tests/core")
    assert (status, out) == (0, f"{compilable.root} -o pythonpath=. tests/core\n")
    assert len(built(compilable)) == 1
