"""What a newcomer asks first is answered at once, before anything is set up."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.benchmark.options import parser
from scripts.benchmark.workloads.workloads import NAMES

from covey.pipeline.__main__ import JOBS

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A checkout in which nothing was ever run, and nothing could be installed."""
    shutil.copytree(SCRIPTS, tmp_path / "scripts", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def said(checkout: Path, *command: str) -> str:
    bare = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [checkout / "scripts" / command[0], *command[1:]],
        env=bare,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert [path.name for path in checkout.iterdir()] == ["scripts"]  # nothing was set up
    return done.stdout


@pytest.mark.parametrize("words", ["--help", "queue --peers coilmq -h"])
def test_bench_names_its_workloads_and_options(fresh: Path, words: str) -> None:
    text = " ".join(said(fresh, "bench", *words.split()).split())
    assert ", ".join(NAMES) in text
    options = [name for action in parser()._actions for name in action.option_strings]
    assert [name for name in options if name not in text] == []


@pytest.mark.parametrize("words", ["", "-h", "--help"])
def test_pipeline_names_its_jobs(fresh: Path, words: str) -> None:
    text = said(fresh, "pipeline", *words.split())
    assert [name for name in JOBS if f"\n  {name} " not in text] == []
