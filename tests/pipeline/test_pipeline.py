"""The command: its jobs, and one line for what it cannot do."""

from __future__ import annotations

import pytest

from covey.pipeline.__main__ import JOBS, main


def test_help_lists_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert [name for name in JOBS if f"\n    {name} " not in said] == []


def test_a_wrong_option_is_one_line_and_no_spark_is_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "--input", "x", "--out", "y", "--policies", "lru:x"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("covey-pipeline: --policies: 'lru:x'")
    assert said.count("\n") == 1
