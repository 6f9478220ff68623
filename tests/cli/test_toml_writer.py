"""What is written as TOML reads back as it was."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from covey.cli.toml_writer import to_toml

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
