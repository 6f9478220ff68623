"""Views: the notebook of docs/examples, run cell by cell on a small log; and its form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from covey.core.events.event import EventKind
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.views import create_views
from tests.checkout import ROOT
from tests.pipeline.support import log_in, tell

NOTEBOOK = ROOT / "docs/examples/event_log.ipynb"


def cells() -> list[str]:
    """Return the code of the notebook, cell by cell."""
    notebook = json.loads(NOTEBOOK.read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_kept_without_results() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_a_log_that_is_not_there_is_named_before_anything_is_read() -> None:
    nothing: Any = None
    with pytest.raises(PipelineError, match="--input nowhere: there is no such"):
        create_views(nothing, "nowhere")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_notebook_runs_and_its_answers_are_right(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = log_in(tmp_path)
    tell(log, "q", "g", "join 7, in 1, in 2")
    log.record(EventKind.ASSIGN, "q", "g", 7, 0)
    tell(log, "q", "g", "out 1 to 7, release 1 by 7, out 1 to 7, ack 1 by 7")
    log.record(EventKind.REVOKE, "q", "g", 7, 0)
    log.record(EventKind.ASSIGN, "q", "g", 8, 0)
    tell(log, "q", "", "in 3")
    log.close()
    monkeypatch.setenv("EVENTS", str(tmp_path))
    names: dict[str, Any] = {}
    for cell in cells():
        exec(cell, names)  # the session that it opens is the one of the tests
    kinds = {row.kind_name: row.events for row in names["kinds"].collect()}
    assert (kinds["enqueue"], kinds["deliver"], kinds["ack"], kinds["assign"]) == (3, 2, 1, 2)
    (group,) = names["groups"].collect()
    assert (group.queue, group.group_id, group.messages, group.settled) == ("q", "g", 2, 1)
    assert 0 < group.wait_p95_s < 1
    owners = [(row.consumer, row.until is None) for row in names["owners"].collect()]
    assert owners == [(7, False), (8, True)]
    assert [(row.seq, row.deliveries) for row in names["again"].collect()] == [(1, 2)]
