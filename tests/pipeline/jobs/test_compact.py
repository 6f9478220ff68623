"""compact: options, its sentence, and a log that is compacted under a real audit."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from covey.pipeline.errors import PipelineError
from covey.pipeline.jobs import audit, compact
from tests.pipeline.support import Diary, Direct, run_job, tell


def options_of(*arguments: str) -> Namespace:
    parser = ArgumentParser()
    parser.add_argument("--input", default="")
    compact.add_options(parser)
    return parser.parse_args(arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--input: name the event log"),
        (("--input", "nowhere"), "--input nowhere: there is no such directory"),
        (("--input", ".", "--size", "large"), "--size large: a size as 256M"),
        (("--input", ".", "--keep-days", "-1"), "--keep-days: a number from 0 on"),
        (("--input", ".", "--since", "soon"), "--since soon: a time is meant"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        compact.check(options_of(*arguments))


def test_a_folder_that_is_no_log_is_refused_and_an_empty_one_is_a_new_log(tmp_path: Path) -> None:
    options = options_of("--input", str(tmp_path))
    compact.check(options)
    (tmp_path / "date=2026-11-20" / "hour=05").mkdir(parents=True)  # retention has emptied it
    compact.check(options)
    (tmp_path / "letters.txt").write_text("dear all")
    with pytest.raises(PipelineError, match="nothing in it is of an event log"):
        compact.check(options)


def test_sizes_and_times_are_read() -> None:
    rules = compact.rules_of(options_of("--size", "2k", "--keep-days", "1.5"))
    assert (rules.size, rules.keep) == (2048, timedelta(days=1.5))
    assert compact.rules_of(options_of()).keep is None


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_compacted_log_is_audited_as_before(spark: SparkSession, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    log = Diary(Direct(events, "r1", rotate_bytes=1))
    for number in range(1, 5):
        tell(log, "q", "g", f"in {number}")
        log.flush()
    tell(log, "q", "g", "join 7, out 1 to 7, ack 1 by 7, out 3 to 7")
    log.close()
    small = len(list(events.rglob("*.parquet")))
    given = {"input": str(events), "age_minutes": 0.0, "grace_minutes": 0.0}
    assert run_job(spark, compact.JOB, **given) == (
        0,
        f"compact: {small} files merged into 1, 0 replaced and 0 old ones removed\n",
    )
    found = run_job(spark, audit.JOB, input=str(events), out=tmp_path / "report")
    assert found == (1, "audit: 8 events of 1 run: BROKEN: 1 lost\n")
    assert run_job(spark, compact.JOB, **given)[1] == (
        f"compact: 0 files merged into 0, {small} replaced and 0 old ones removed\n"
    )
    assert len(list(events.rglob("*.parquet"))) == 1
