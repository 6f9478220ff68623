"""archive writes each message exactly once, though it is killed and the broker forgets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import covey
from covey.pipeline.errors import PipelineError
from covey.pipeline.jobs.archive import (
    JOB,
    alone,
    archived,
    finished_files,
    given_options,
    stored_columns,
)
from tests.e2e.support import BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, client_of, figures_of, fill
from tests.pipeline.support import run_job

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

WAIT_S = 300.0  # for Spark to start beside other tests


def archive(spark: SparkSession, broker: BrokerProcess, place: str, out: Path, *given: str) -> str:
    address = f"covey://{at(broker)}/{place}"
    options = {"trim": True, "every": 0.0, "batch_rows": 400, "option": given}
    code, said = run_job(spark, JOB, input=address, out=out, **options)
    assert code == 0
    return said


def numbers(directory: Path) -> set[int]:
    return {int(file.name) for file in directory.glob("[0-9]*")}


def unfinished(out: Path, process: subprocess.Popen[bytes]) -> Iterator[set[int]]:
    """Give, again and again, the batches that are planned and not done."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        assert process.poll() is None, "it came to an end before it could be killed"
        yield numbers(out / "checkpoint/offsets") - numbers(out / "checkpoint/commits")
        time.sleep(0.002)
    raise AssertionError("no batch was begun in time")


def kill_mid_batch(broker: BrokerProcess, queue: str, out: Path) -> None:
    """Run the job as a process and kill it, Java and all, in a batch that is not its first."""
    command = [sys.executable, "-m", "covey.pipeline", "archive", "--trim", "--batch-rows", "400"]
    command += ["--input", f"covey://{at(broker)}/{queue}", "--out", str(out)]
    out.mkdir()
    with (out / "said").open("w") as said:
        process = subprocess.Popen(
            [*command, "--master", "local[2]"],
            stderr=said,
            env=dict(os.environ, PYTHONPATH=str(Path(covey.__file__).parent.parent)),
            start_new_session=True,
        )
    try:
        next(batches for batches in unfinished(out, process) if batches - {0})
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    lines = (out / "said").read_text().splitlines()
    assert [line for line in lines if not line.startswith("archive: ")] == []  # nothing of Java's


def test_a_stream_killed_mid_batch_goes_on_and_has_every_message_once(
    request: pytest.FixtureRequest, broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(broker, "killed", 1200)
    out = tmp_path / "out"
    with ThreadPoolExecutor(1) as helper:  # two Sparks start in the time of one
        killed = helper.submit(kill_mid_batch, broker, "killed", out)
        spark: SparkSession = request.getfixturevalue("spark")
        killed.result()
    done = numbers(out / "checkpoint/commits")
    assert done and numbers(out / "checkpoint/offsets") - done  # killed within a batch
    assert 1 < figures_of(broker, "killed").first <= 1200  # the broker has forgotten some by now
    fill(broker, "killed", 100, first=1201)
    said = archive(spark, broker, "killed", out)
    assert "1,300 in all" in said
    rows = archived(spark, out).select("seq", "value", "group_id").collect()
    assert sorted(row.seq for row in rows) == list(range(1, 1301))
    assert all(int(row.value) == row.seq for row in rows)
    assert figures_of(broker, "killed").messages == 0  # the last batch is trimmed, too
    assert "1,300 messages" in (out / "archive.html").read_text()


def test_a_topic_is_gathered_from_the_first_call_on(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    assert "0 in all" in archive(spark, broker, "topic/news", tmp_path)
    with client_of(broker) as client:
        client.post("/topic/news", [], b"one")
        client.post("/topic/news", [("timestamp", "86400000")], b"two")
        client.confirm()
    assert "2 messages now" in archive(spark, broker, "topic/news", tmp_path)
    rows = archived(spark, tmp_path).orderBy("seq").collect()
    assert [bytes(row.value) for row in rows] == [b"one", b"two"]
    assert (rows[1].queue, str(rows[1].day)) == ("/dsub/archive.news", "1970-01-02")
    assert figures_of(broker, "/dsub/archive.news").messages == 0


def test_messages_that_are_gone_end_the_job_in_one_line(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(broker, "purged", 3)
    archive(spark, broker, "purged", tmp_path)
    fill(broker, "purged", 3)
    with client_of(broker) as client:
        client.trim("purged", 6)
    with pytest.raises(PipelineError, match=r"^failOnDataLoss=true: queue purged .* from 4 to 5\."):
        archive(spark, broker, "purged", tmp_path)
    said = archive(spark, broker, "purged", tmp_path, "failOnDataLoss=false")
    assert "1 messages now, 4 in all" in said


def test_two_jobs_at_once_do_not_share_a_directory(tmp_path: Path) -> None:
    with alone(tmp_path):
        with pytest.raises(PipelineError, match=r"another archive is at work in it$"):
            with alone(tmp_path):
                pass
    with alone(tmp_path):
        pass


def test_an_option_without_a_value_is_named() -> None:
    with pytest.raises(PipelineError, match=r"^--option failOnDataLoss: NAME=VALUE"):
        given_options(["failOnDataLoss"])


def test_only_new_batches_are_counted_also_where_spark_has_put_notes_together(
    tmp_path: Path,
) -> None:
    notes = tmp_path / "_spark_metadata"
    notes.mkdir()

    def note(name: str, *batches: int) -> None:
        lines = [json.dumps({"path": f"file-{batch}", "action": "add"}) for batch in batches]
        (notes / name).write_text("\n".join(["v1", *lines]))

    assert finished_files(tmp_path, -1) == ([], -1)
    for batch in range(3):
        note(str(batch), batch)
    assert finished_files(tmp_path, -1) == (["file-0", "file-1", "file-2"], 2)
    assert finished_files(tmp_path, 1) == (["file-2"], 2)
    note("3.compact", 0, 1, 2, 3)
    note("4", 4)
    assert finished_files(tmp_path, 1) == (["file-2", "file-3", "file-4"], 4)
    assert finished_files(tmp_path, 3) == (["file-4"], 4)
    for batch in range(3):
        (notes / str(batch)).unlink()
    note("5", 5)
    note("7.compact", 0, 1, 2, 3, 4, 5, 6, 7)
    assert finished_files(tmp_path, 4) == (["file-5", "file-6", "file-7"], 7)


def test_a_hundred_batches_and_more_are_all_counted(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    tmp_path = tmp_path / "of [2026] 50%"  # to Spark a pattern, to the user a name
    fill(broker, "many", 36)
    address = f"covey://{at(broker)}/many"
    options = {"trim": False, "every": 0.0, "batch_rows": 3, "option": ()}
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "5")
    _, said = run_job(spark, JOB, input=address, out=tmp_path, **options)
    assert said.startswith("archive: 36 messages now, 36 in all, in ")
    fill(broker, "many", 4, first=37)
    _, said = run_job(spark, JOB, input=address, out=tmp_path, **options)
    assert said.startswith("archive: 4 messages now, 40 in all, in ")
    assert json.loads((tmp_path / "totals.json").read_text())["queues"]["many"]["last"] == 40


@pytest.mark.parametrize("form", ["format", "table"])
def test_another_format_or_a_table_is_written_counted_and_read_again(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, form: str
) -> None:
    options: dict[str, str] = {"format": "orc"} if form == "format" else {"table": "kept"}
    place = f"using parquet partitioned by (queue, day) location '{tmp_path}/table'"
    if form == "table":
        spark.sql(f"create table kept ({stored_columns()}) {place}")
    given = {"input": f"covey://{at(broker)}/{form}", "out": tmp_path / "out", "batch_rows": 7}
    try:
        for number in range(2):
            fill(broker, form, 20, first=1 + 20 * number)
            _, said = run_job(spark, JOB, **given, **options)
            assert said.startswith(f"archive: 20 messages now, {20 + 20 * number} in all, in ")
        rows = archived(spark, tmp_path / "out").collect()
        assert sorted(int(row.value) for row in rows) == list(range(1, 41))
        with pytest.raises(PipelineError, match=f"was begun with .*--{form} "):
            run_job(spark, JOB, **given, format="parquet" if form == "format" else "orc")
    finally:
        spark.sql("drop table if exists kept")
