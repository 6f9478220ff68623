"""replay sends a record as it came."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from covey.pipeline.jobs.replay import JOB, Pace, due_times
from tests.e2e.support import BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at, bodies_of, figures_of
from tests.pipeline.support import log_in, run_job, tell


def test_times_are_kept_and_shortened_by_the_speed() -> None:
    came = np.array([np.nan, 10.0, 14.0])
    assert due_times(came, Pace(10.0, 2.0), 100.0).tolist() == [100.0, 100.0, 102.0]
    assert due_times(came, Pace(10.0, 0.0), 100.0).tolist() == [100.0, 100.0, 100.0]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_event_log_is_sent_with_its_groups_at_its_pace(
    spark: SparkSession, broker: BrokerProcess, tmp_path: Path
) -> None:
    log = log_in(tmp_path / "log")  # an event each millisecond
    for seq in range(1, 201):
        tell(log, "recorded", f"g{seq % 3}", f"in {seq}")
    log.close()
    options = {"speed": 0.5, "senders": 2, "body_bytes": 7}
    place = f"covey://{at(broker)}"
    code, said = run_job(spark, JOB, input=str(tmp_path / "log"), out=tmp_path, to=place, **options)
    assert code == 0
    assert said.startswith("replay: 200 messages in ")
    assert float(said.split()[4]) >= 0.3  # 199 ms at half the speed
    assert figures_of(broker, "recorded").messages == 200
    assert set(bodies_of(broker, "recorded")) == {bytes(7)}
    assert "200 messages" in (tmp_path / "replay.html").read_text()
