"""archive writes a Delta table, each message once, though it is killed; replay reads it.

It needs a Spark that Delta knows: its newest, 4.4, is for Spark 4.0 to 4.2. An environment for this
test has `pyspark==4.2.0` and `delta-spark==4.4.0`. Spark brings the jars from Maven.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pyspark
import pytest

import covey
from tests.e2e.support import BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, bodies_of, fill

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(find_spec("delta") is None, reason="there is no delta-spark here"),
]

WAIT_S = 300.0  # for Spark to start, and for Maven's jars
LOOK_EVERY_S = 0.01
COUNT = 2_000


def command(job: str, *arguments: str) -> list[str]:
    spark = ".".join(pyspark.__version__.split(".")[:2])
    settings = {
        "spark.jars.packages": f"io.delta:delta-spark_{spark}_2.13:{version('delta-spark')}",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    here = [sys.executable, "-m", "covey.pipeline", job, "--master", "local[2]"]
    return [*here, *conf, *arguments]


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent)),
        start_new_session=True,
    )


def done(*words: str) -> tuple[int, str]:
    process = start(*words)
    said, trouble = process.communicate(timeout=WAIT_S)
    if "UNRESOLVED DEPENDENCIES" in trouble:
        pytest.skip("Maven's central repository did not bring Delta")
    return process.returncode, said or trouble.splitlines()[-1]


def numbers(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.glob("[0-9]*")}


def kill_mid_batch(checkpoint: Path, process: subprocess.Popen[str]) -> None:
    """Kill a job, Java and all, while it writes a batch that is not its first."""
    deadline = time.monotonic() + WAIT_S
    try:
        while not (numbers(checkpoint / "offsets") - numbers(checkpoint / "commits") - {0}):
            assert process.poll() is None, "it came to an end before it could be killed"
            assert time.monotonic() < deadline, "no batch was begun in time"
            time.sleep(LOOK_EVERY_S)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_each_message_is_in_the_table_once_and_is_sent_again_once(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(broker, "lake", 1)
    out = tmp_path / "archive"
    given = ("--input", f"covey://{at(broker)}/lake", "--out", str(out), "--batch-rows", "500")
    archive = command("archive", *given, "--format", "delta", "--trim")
    code, said = done(*archive)
    assert (code, said.startswith("archive: 1 messages now, 1 in all")) == (0, True), said
    fill(broker, "lake", COUNT - 1, first=2)
    kill_mid_batch(out / "checkpoint", start(*archive))
    code, said = done(*archive)
    assert (code, f"{COUNT:,} in all" in said) == (0, True), said
    assert list((out / "messages/_delta_log").glob("*.json"))
    code, said = done(*command("archive", *given))
    assert (code, "was begun with --format delta" in said) == (2, True), said
    to = ("--to", f"covey://{at(broker)}/again", "--speed", "0", "--out", str(tmp_path / "report"))
    code, said = done(*command("replay", "--input", str(out), *to))
    assert (code, said.startswith(f"replay: {COUNT:,} messages")) == (0, True), said
    assert sorted(map(int, bodies_of(broker, "again"))) == list(range(1, COUNT + 1))
