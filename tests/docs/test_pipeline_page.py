"""The walk-through of the pipeline's page: its commands, on a real broker and one Spark."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from covey.pipeline.__main__ import JOBS, parser
from covey.pipeline.job import Task
from covey.pipeline.spark import Progress
from tests.e2e.support import running_broker
from tests.pipeline.conftest import spark as spark

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/pipeline.md"
EXAMPLE = ROOT / "docs/examples/uneven_work.py"
ORDERS = 300
RUN_S = 120


def commands() -> list[str]:
    """Return what the walk-through has people type."""
    text = PAGE.read_text().partition("## A walk-through")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line.partition("  #")[0].strip() for block in blocks for line in block.splitlines()]


def run_job(spark: SparkSession, command: str, port: int) -> str:
    """Run what scripts/pipeline would, in the Spark that is there."""
    words = shlex.split(command.replace("covey://127.0.0.1", f"covey://127.0.0.1:{port}"))
    # Java's own directory is where Spark was started.
    placed = [str(Path(word).absolute()) if word.startswith("walk/") else word for word in words]
    options = parser().parse_args(placed[1:])
    JOBS[options.job].check(options)
    answers = StringIO()
    task = Task(spark, options, Progress(options.job, spark, StringIO(), answers))
    assert JOBS[options.job].run(task) == 0
    return answers.getvalue()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_walk_through_can_be_walked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    jobs = [line for line in commands() if line.startswith("scripts/pipeline")]
    said: dict[str, str] = {}
    with running_broker(tmp_path, arguments=("--event-log", "walk/events")) as broker:
        work = [sys.executable, str(EXAMPLE), str(broker.port), str(ORDERS)]
        done = subprocess.run(work, capture_output=True, text=True, timeout=RUN_S, check=True)
        assert done.stdout == f"{ORDERS} orders are done\n"
        for command in [job for job in jobs if "covey://" in job]:
            said[command.split()[1]] = run_job(spark, command, broker.port)
    for command in [job for job in jobs if "covey://" not in job]:
        said[command.split()[1]] = run_job(spark, command, 0)
    assert list(said) == ["archive", "replay", "audit", "skew", "plan"]
    assert "every promise was kept" in said["audit"]
    assert f"skew: orders: {ORDERS} messages" in said["skew"]
    assert "[[queue]]" in said["plan"]
    copied = [line for line in commands() if line.startswith("cp ")]
    pictures = [Path(word) for line in copied for word in shlex.split(line)[1:-1]]
    assert pictures and all(picture.is_file() for picture in pictures)
    assert all((ROOT / "docs/images" / Path(line.split()[-1]).name).is_file() for line in copied)
