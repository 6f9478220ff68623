"""A log is what is finished in its directory; what cannot be read is named in one sentence."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.reader import log_files
from covey.pipeline.event_log.schema import ARROW_SCHEMA, VERSION_KEY
from tests.pipeline.support import log_in, tell


def write_log(directory: Path) -> Path:
    log = log_in(directory)
    tell(log, "q", "g", "in 1")
    log.close()
    return next(directory.iterdir())


def test_finished_files_are_the_log_and_others_are_not(tmp_path: Path) -> None:
    file = write_log(tmp_path)
    (tmp_path / "_events-x.parquet.part").write_bytes(b"PAR1")
    (tmp_path / ".hidden.parquet").write_bytes(b"")
    (tmp_path / "README").write_text("not a log")
    assert log_files(str(tmp_path)) == [str(file)]
    assert log_files(str(file)) == [str(file)]
    assert log_files(f"file://{tmp_path}") == [str(file)]


def test_a_place_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"--input .*nowhere: there is no such"):
        log_files(str(tmp_path / "nowhere"))
    with pytest.raises(PipelineError, match="--input nosuch://x"):
        log_files("nosuch://x/y")


def test_a_directory_without_a_finished_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "_events-x.parquet.part").write_bytes(b"PAR1")
    with pytest.raises(PipelineError, match="no finished file"):
        log_files(str(tmp_path))


@pytest.mark.parametrize("kept", [0, 4, 200])
def test_a_half_written_file_is_named(tmp_path: Path, kept: int) -> None:
    file = write_log(tmp_path)
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(PipelineError, match=rf"{file.name} is no whole Parquet file"):
        log_files(str(tmp_path))


def test_a_newer_schema_is_refused_with_both_versions(tmp_path: Path) -> None:
    schema = ARROW_SCHEMA.with_metadata({VERSION_KEY: b"99"})
    pq.write_table(schema.empty_table(), tmp_path / "events-r-1.parquet")
    with pytest.raises(PipelineError, match="has schema 99, this covey reads up to 2"):
        log_files(str(tmp_path))


def test_any_other_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(PipelineError, match="not of an event log"):
        log_files(str(tmp_path))
