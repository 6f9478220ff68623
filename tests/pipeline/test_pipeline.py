"""The command: its jobs, and one line for what it cannot do.

The installed command says what it lacks in one line, or is the job.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from pkgutil import resolve_name

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from covey.pipeline import command
from covey.pipeline.__main__ import JOBS, main, start
from covey.pipeline.errors import PipelineError
from covey.pipeline.event_log.schema import ARROW_SCHEMA, VERSION_KEY
from covey.pipeline.places import make_out
from covey.pipeline.spark import Wanted
from tests.e2e.support import BrokerProcess
from tests.e2e.support import broker as broker
from tests.pipeline.queues import at
from tests.pipeline.support import log_in, tell

ROOT = Path(__file__).parents[2]


def test_every_name_of_ours_in_texts_and_pages_can_be_imported() -> None:
    places = [*(ROOT / "pipeline").rglob("*.py"), *(ROOT / "docs").glob("*.md")]
    texts = [place.read_text() for place in places]
    names = {name for text in texts for name in re.findall(r"covey\.pipeline(?:\.[a-z_]+)+", text)}
    assert len(names) > 20
    for name in sorted(names):
        resolve_name(name)  # else it raises


def test_help_lists_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    said = capsys.readouterr().out
    assert [name for name in JOBS if f"\n    {name} " not in said] == []


def said_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a job that cannot do its work; return the one line it says."""
    assert main([*arguments, "--out", "unused"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err.removeprefix("covey-pipeline: ")


@pytest.fixture
def bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with all that `--input` must not be, and no Spark: none may be started."""
    monkeypatch.setattr("covey.pipeline.__main__.open_session", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "half.parquet").write_bytes(b"PAR1 and no footer")
    (tmp_path / "_half.parquet.part").write_bytes(b"")
    newer = ARROW_SCHEMA.with_metadata({VERSION_KEY: b"99"})
    pq.write_table(newer.empty_table(), tmp_path / "newer.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    log = log_in(tmp_path / "log")
    tell(log, "q", "g", "in 1")
    log.close()
    return tmp_path


INPUTS = {
    "missing": "--input missing: there is no such file or directory",
    "empty": "--input empty: there is no finished file of an event log in it",
    "half.parquet": "half.parquet is no whole Parquet file",
    "newer.parquet": "has schema 99, this covey reads up to",
    "other.parquet": "other.parquet is Parquet, but not of an event log",
}


@pytest.mark.parametrize("job", ["audit", "skew", "plan", "replay"])
@pytest.mark.parametrize("place", INPUTS)
def test_an_input_that_cannot_be_read_is_one_line(
    bad: Path, capsys: pytest.CaptureFixture[str], job: str, place: str
) -> None:
    to = ["--to", "covey://127.0.0.1:1"] if job == "replay" else []
    said = said_of(capsys, job, "--input", place, *to)
    assert said.startswith("--input")
    assert INPUTS[place] in said


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("plan --input log --policies lru:x", "--policies: 'lru:x': the size must be a number"),
        ("plan --input log --consumers 0", "--consumers 0: whole numbers above 0 are meant"),
        ("plan --input log --speed fast", "--speed fast: numbers above 0 are meant"),
        ("plan --input log --consumers 1.5", "--consumers 1.5: whole numbers above 0 are meant"),
        ("plan --input log --credit -1", "--credit -1: whole numbers above 0 are meant"),
        ("plan --input log --credit 1,2", "--credit 1,2: one number is meant"),
        ("audit --input log --conf spark.x", "--conf spark.x: KEY=VALUE is meant"),
        ("audit --input log --driver-memory much", "--driver-memory much: a size as 4g is meant"),
        ("audit --input log --log-level loud", "--log-level loud: OFF, ERROR, WARN, INFO, DEBUG"),
        ("audit --input log --since soon", "--since soon: a time is meant"),
        ("audit --input log --table t", "--table: give either it or --input"),
        ("audit", "--input: name the event log, or a --table"),
        ("audit --input log --follow", "--follow: name a --state"),
        ("audit --input log --stop-at-first", "--stop-at-first: it goes with --follow"),
        ("audit --input log --master cluster", "--master cluster: local[CORES], spark://"),
        ("audit --input log --master local[0]", "--master local[0]: local[CORES], spark://"),
        (
            "audit --input log --master sc://h:1 --state s3a://b/state",
            "--state s3a://b/state: by Spark Connect a directory of this machine is meant",
        ),
        (
            "audit --input covey://127.0.0.1/q",
            "--input covey://127.0.0.1/q: only archive reads from a broker",
        ),
        ("skew --input covey://127.0.0.1/q", "--input covey://127.0.0.1/q: only archive reads"),
        (
            "audit --input log --state half.parquet",
            "--state half.parquet: cannot be made: File exists",
        ),
        ("replay --input log --to localhost", "--to: covey://[user"),
        ("replay --input log --to covey://127.0.0.1:1", "brokers=127.0.0.1:1: no broker answers"),
        ("replay --input log --to covey://127.0.0.1:1 --speed -1", "--speed -1.0: "),
        ("archive --input covey://127.0.0.1:1", "--input: name the queue or topic"),
        ("archive --input covey://127.0.0.1:1/q", "brokers=127.0.0.1:1: no broker answers"),
        ("archive --input covey://127.0.0.1:1/q --batch-rows 0", "--batch-rows 0: "),
        ("archive --input covey://127.0.0.1:1/q --option x=1", "x: there is no such option"),
        ("archive --input covey://127.0.0.1:1/q --trim --option selector=a", "selector: commit"),
    ],
)
def test_a_wrong_option_is_one_line_and_no_spark_is_started(
    bad: Path, capsys: pytest.CaptureFixture[str], words: str, text: str
) -> None:
    assert said_of(capsys, *words.split()).startswith(text)


@pytest.mark.parametrize(
    ("out", "cause"), [("file", "File exists"), ("file/below", "Not a directory")]
)
def test_an_out_that_cannot_be_made_is_told_before_the_work(
    tmp_path: Path, out: str, cause: str
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=f"^--out .*/{out}: cannot be made: {cause}$"):
        make_out(tmp_path / out)


class Started:
    """As much of Spark as its start needs."""

    def __init__(self) -> None:
        self.sparkContext = self
        self.is_stopped = False

    def setLogLevel(self, level: str) -> None:
        pass

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def usual_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)
    logging.disable(logging.NOTSET)


def test_an_interrupt_waits_until_spark_has_started_and_then_ends_it(
    monkeypatch: pytest.MonkeyPatch, usual_signals: None
) -> None:
    spark = Started()

    def open_session(job: str, wanted: Wanted) -> Started:
        os.kill(os.getpid(), signal.SIGINT)
        return spark  # it is come to, in spite of the signal

    monkeypatch.setattr("covey.pipeline.__main__.open_session", open_session)
    with pytest.raises(KeyboardInterrupt):
        start("audit", Wanted())
    assert spark.is_stopped


def test_an_interrupted_job_says_so_and_no_more(
    bad: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    usual_signals: None,
) -> None:
    spark = Started()
    monkeypatch.setattr("covey.pipeline.__main__.open_session", lambda job, wanted: spark)

    def interrupted(job: str, started: Started) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        logging.error("what a library says of it")

    monkeypatch.setattr("covey.pipeline.__main__.Progress", interrupted)
    assert main(["audit", "--input", "log", "--out", "out"]) == 130
    assert capsys.readouterr().err == "covey-pipeline: interrupted\n"
    assert spark.is_stopped


def test_an_out_that_cannot_be_written_to_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(PipelineError, match=f"^--out {tmp_path}: it cannot be written to$"):
        make_out(tmp_path)


def test_a_place_that_is_no_single_queue_is_told_before_spark_starts(
    bad: Path, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    said = said_of(capsys, "archive", "--input", f"covey://{at(broker)}/orders.*")
    assert said == "--input=orders.*: orders.* is a pattern, the name of one queue is meant\n"


def test_a_wrong_password_is_one_line(
    bad: Path, broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"covey://admin:wrong@{at(broker)}/q"
    for job in (["archive", "--input", address], ["replay", "--input", "log", "--to", address]):
        said = said_of(capsys, *job)
        assert said.startswith(f"user=admin: {at(broker)} says: login failed")
        assert "wrong@" not in said


def test_without_the_extra_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name in ("pyspark", "pyarrow") else ModuleSpec(name, None)

    monkeypatch.setattr(command, "find_spec", find)
    assert command.main() == 2
    said = capsys.readouterr().err
    assert said.startswith("covey-pipeline: pyspark, pyarrow is missing; install Covey with")
    assert said.count("\n") == 1


def test_with_the_extra_it_is_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["covey-pipeline", "--version"])
    with pytest.raises(SystemExit) as left:
        command.main()
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("covey ")
