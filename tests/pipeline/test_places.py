"""Places that are no path of this machine: every job reads and writes them with Spark's Java alone.

`viewfs` is a file system of Hadoop's that gives other names to folders. So a folder of this machine
has a name that only Spark's Java knows, as one in `hdfs://` or `s3a://` has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from covey.pipeline.jobs import archive, audit, compact, plan, replay, skew
from covey.pipeline.jobs.plan_rehearsal import Policy
from covey.pipeline.places import place_of
from tests.e2e.support import BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, bodies_of, fill
from tests.pipeline.support import Diary, Direct, run_job, tell

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> str:
    """Give `tmp_path` a name that only Spark's Java knows."""
    name = tmp_path.name.lower().replace("_", "-")
    setting = f"fs.viewfs.mounttable.{name}.link./data"
    spark.sparkContext._jsc.hadoopConfiguration().set(setting, f"file://{tmp_path}")
    return f"viewfs://{name}/data"


def write_log(directory: Path, run: str, *stories: str) -> None:
    """Write a log of one file for each story."""
    directory.mkdir(exist_ok=True)
    log = Diary(Direct(directory, run, rotate_bytes=1))
    for story in stories:
        tell(log, "q", "g", story)
        log.flush()
    log.close()


def test_every_job_on_a_log_works_elsewhere(spark: SparkSession, tmp_path: Path, lake: str) -> None:
    write_log(tmp_path / "log", "r1", "join 7, in 1, in 2, in 3, out 1 to 7, ack 1 by 7")
    given = {"input": f"{lake}/log", "out": place_of(f"{lake}/out")}
    state = {"state": f"{lake}/state"}
    assert run_job(spark, audit.JOB, **given, **state)[0] == 0
    write_log(tmp_path / "log", "r2", "join 8, in 2, out 3 to 8, in 4")
    code, said = run_job(spark, audit.JOB, **given)
    assert (code, said) == (1, "audit: 10 events of 2 runs: BROKEN: 1 phantom\n")
    code, said = run_job(spark, audit.JOB, **given, **state)
    assert (code, said) == (1, "audit: 10 events of 2 runs: BROKEN: 1 phantom\n")
    assert run_job(spark, audit.JOB, **given, **state)[1] == f"audit: nothing new in {lake}/log\n"
    assert run_job(spark, skew.JOB, **given)[0] == 0
    policies = [Policy.parse("shared"), Policy.parse("simple")]
    options = {"policies": policies, "consumers": [2], "speed": [1.0], "credit": 1}
    assert run_job(spark, plan.JOB, **given, **options)[0] == 0
    assert sorted(page.name for page in (tmp_path / "out").glob("*.html")) == [
        "audit.html",
        "plan.html",
        "skew.html",
    ]


def test_a_log_elsewhere_is_compacted(spark: SparkSession, tmp_path: Path, lake: str) -> None:
    stories = ("in 1", "in 2", "in 3", "in 4", "join 7, out 1 to 7, ack 1 by 7", "out 3 to 7")
    write_log(tmp_path / "log", "r1", *stories)
    small = len(list((tmp_path / "log").rglob("*.parquet")))
    given = {"input": f"{lake}/log", "age_minutes": 0.0, "grace_minutes": 0.0}
    said = run_job(spark, compact.JOB, **given, dry_run=True)[1]
    assert said.startswith(f"compact: {small} files would be merged into 1, 0 replaced")
    assert run_job(spark, compact.JOB, **given)[1] == (
        f"compact: {small} files merged into 1, 0 replaced and 0 old ones removed\n"
    )
    for place in (f"{lake}/log", str(tmp_path / "log")):
        found = run_job(spark, audit.JOB, input=place, out=tmp_path / "report")
        assert found == (1, "audit: 8 events of 1 run: BROKEN: 1 lost\n")
    assert run_job(spark, compact.JOB, **given)[1] == (
        f"compact: 0 files merged into 0, {small} replaced and 0 old ones removed\n"
    )
    (file,) = (tmp_path / "log").rglob("*.parquet")
    assert file.name == "events-r1-0000000000000001-0000000000000008.parquet"
    assert [path.name for path in (tmp_path / "log").iterdir()] == [file.parent.parent.name]


def test_an_archive_elsewhere_goes_on_and_is_sent_again(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path, lake: str
) -> None:
    given = {"input": f"covey://{at(broker)}/far", "out": place_of(f"{lake}/archive")}
    for number in range(2):
        fill(broker, "far", 20, first=1 + 20 * number)
        _, said = run_job(spark, archive.JOB, **given, batch_rows=7)
        assert said.startswith(f"archive: 20 messages now, {20 + 20 * number} in all, in {lake}/")
    assert json.loads((tmp_path / "archive/totals.json").read_text())["queues"]["far"]["last"] == 40
    options = {"to": f"covey://{at(broker)}/again", "speed": 0.0, "senders": 1}
    run_job(spark, replay.JOB, input=f"{lake}/archive", out=place_of(f"{lake}/out"), **options)
    assert sorted(map(int, bodies_of(broker, "again"))) == list(range(1, 41))
    assert (tmp_path / "out/replay.html").exists()
