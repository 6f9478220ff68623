"""`covey config`: check, show, schema, import.

What is written as TOML reads back as it was.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.config.load import load
from covey.config.toml_writer import to_toml
from tests.cli.support import Terminal

DEFAULTS = Path(__file__).parents[2] / "config" / "default.toml"


def test_check_counts_what_is_there(terminal: Terminal) -> None:
    said = terminal.covey("config", "check", str(DEFAULTS))
    assert (said.code, said.err) == (0, "")
    assert said.out == "ok: 3 connectors, 1 queue policies, 1 users\n"


def test_check_tells_every_mistake_with_its_line(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text('[broker]\nidd = "x"\n[[queue]]\nid = "a"\n[queue.groups]\nstrategy = "best"\n')
    said = terminal.covey("config", "check", str(file))
    assert said.code == 1
    assert f"{file}:2: broker.idd" in said.err
    assert f"{file}:6: queue[0].groups.strategy" in said.err

    told = terminal.covey("config", "check", str(file), "--json")
    assert (told.code, told.err) == (1, "")
    answer = json.loads(told.out)
    assert answer["ok"] is False and len(answer["errors"]) == 2


def test_show_prints_toml_that_means_the_same(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[[queue]]\nid = "a.**"\nquota = "10k"\n[queue.groups]\nstrategy = "lru"\n')
    shown = tmp_path / "shown.toml"
    shown.write_text(terminal.covey("config", "show", str(file)).out)
    assert load(shown, {}, {}).settings.queues == load(file, {}, {}).settings.queues


def test_no_password_is_shown(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[[user]]\nname = "ann"\npassword = "canary"\n')
    for words in ((), ("--origin",), ("--json",)):
        said = terminal.covey("config", "show", str(file), *words)
        assert said.code == 0
        assert "canary" not in said.out + said.err


def test_origins_say_file_line_environment_or_default(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "covey.toml"
    file.write_text('[[queue]]\nid = "a"\nquota = "10k"\n')
    monkeypatch.setenv("COVEY_BROKER__ID", "mine")
    monkeypatch.setenv("COVEY_CONFIG", str(file))
    rows = [line.split() for line in terminal.covey("config", "show", "--origin").lines]
    assert ["queue[0].quota", "10240", f"{file}:3"] in rows
    assert ["broker.id", '"mine"', "env", "COVEY_BROKER__ID"] in rows
    assert ["store.path", '"data"', "default"] in rows


def test_the_schema_is_json_and_knows_our_tables(terminal: Terminal) -> None:
    schema = json.loads(terminal.covey("config", "schema").out)
    assert {"broker", "connector", "queue", "user"} <= set(schema["properties"])


def test_import_prints_toml_or_says_why_not(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"
    file.write_text('<policyEntry queue="A.>" messageGroupMapFactoryType="simple"/>')
    said = terminal.covey("config", "import", str(file))
    (queue,) = tomllib.loads(said.out)["queue"]
    assert queue == {"id": "A.**", "groups": {"strategy": "simple"}}
    file.write_text("<beans/>")
    refused = terminal.covey("config", "import", str(file))
    assert (refused.code, refused.out) == (1, "")
    assert terminal.covey("config", "import", str(tmp_path / "none.xml")).code == 2


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | TEXTS
VALUES = PLAIN | st.lists(PLAIN, max_size=3)
TABLES = st.recursive(
    st.dictionaries(TEXTS, VALUES, max_size=3),
    lambda inner: st.dictionaries(
        TEXTS, VALUES | inner | st.lists(inner, min_size=1, max_size=2), max_size=3
    ),
    max_leaves=8,
)


@given(TABLES)
def test_it_reads_back(data: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(data)) == data


def test_its_shape_is_that_of_the_reference() -> None:
    data = {"queue": [{"groups": {"strategy": "lru"}, "id": "a"}], "broker": {"id": "x", "n": None}}
    assert to_toml(data) == (
        '[[queue]]\nid = "a"\n\n[queue.groups]\nstrategy = "lru"\n\n[broker]\nid = "x"\n'
    )
