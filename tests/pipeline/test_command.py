"""The installed command says what it lacks in one line, or is the job."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec

import pytest

from covey.pipeline import command


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name in ("pyspark", "pyarrow") else ModuleSpec(name, None)

    monkeypatch.setattr(command, "find_spec", find)
    assert command.main() == 2
    said = capsys.readouterr().err
    assert said.startswith("covey-pipeline: pyspark, pyarrow is missing; install Covey with")
    assert said.count("\n") == 1


def test_with_the_extra_it_is_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["covey-pipeline", "--version"])
    with pytest.raises(SystemExit) as left:
        command.main()
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("covey ")
