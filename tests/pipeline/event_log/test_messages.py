"""Events become messages with their times, and work is not counted twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from covey.pipeline.event_log.messages import messages, with_service
from covey.pipeline.event_log.reader import read_log
from tests.pipeline.support import log_in, tell

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


def test_each_message_has_its_times_and_its_own_work(spark: SparkSession, tmp_path: Path) -> None:
    log = log_in(tmp_path)
    # The clock goes on by 1 ms an event: 1001, 1002, ...
    tell(log, "q", "g", "in 1, in 2, in 3, out 1 to 7, out 2 to 7, ack 1 by 7, ack 2 by 7")
    tell(log, "q", "g", "out 3 to 7, release 3 by 7, out 3 to 7")
    log.close()
    rows = with_service(messages(read_log(spark, str(tmp_path)))).orderBy("seq").collect()
    milliseconds = [
        [round((time - 1000) * 1000) if time else None for time in (row.enqueued, row.delivered)]
        for row in rows
    ]
    assert milliseconds == [[1, 4], [2, 5], [3, 8]]
    assert [row.deliveries for row in rows] == [1, 1, 2]
    # The second was in hand from 5 on, but worked on only once the first was done at 6.
    assert [round(row.service * 1000) for row in rows[:2]] == [2, 1]
    assert rows[2].settled is None
    assert rows[2].service > 0
