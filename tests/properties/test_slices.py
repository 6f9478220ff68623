"""No slice of compiled code runs backward, whatever a peer sends; and who does so is found."""

from __future__ import annotations

import os
import subprocess
import sys
from ast import Name, parse, walk
from pathlib import Path

import pytest

from covey.core.model import entry
from tests.properties.slices import MARK

pytestmark = pytest.mark.skipif(
    not entry.__file__.endswith(".py"), reason="the source is what is watched"
)

ROOT = Path(__file__).resolve().parents[2]
WATCHED = "from tests.properties.slices import watch; watch()\n"
FUZZ = """
from tests.properties.fuzz import fuzz
for kind in ("stomp", "amqp"):
    print(fuzz(kind, 1, 0, 300).faults)
"""
# What the first finding of its kind was: the end of a line that has not come yet.
BACKWARD = """
from covey.protocols.stomp import parser
source = "# Compiled by mypyc: see setup.py.\\nx = b'ab'[2:-1]"
exec(parser.__loader__.source_to_code(source, "x.py"))
"""


FIXED_WIDTHS = ("i64", "i32", "i16", "u8")  # of mypyc: they run over instead of growing


def said(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, in which slices are watched."""
    return subprocess.run(
        [sys.executable, "-P", "-c", WATCHED + program],
        env=dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(ROOT)])),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_a_peer_sends_makes_no_slice_run_backward() -> None:
    done = said(FUZZ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "[]"]


def test_a_slice_that_runs_backward_is_found() -> None:
    done = said(BACKWARD)
    assert "SystemError: bytes[2:-1] of 2 runs backward" in done.stderr


def test_no_compiled_file_has_integers_that_can_run_over() -> None:
    compiled = [
        path
        for room in ("core", "protocols", "groups", "config")
        for path in (ROOT / room).rglob("*.py")
        if path.read_bytes().startswith(MARK)
    ]
    assert len(compiled) > 100
    for path in compiled:
        names = {node.id for node in walk(parse(path.read_text())) if isinstance(node, Name)}
        assert not names.intersection(FIXED_WIDTHS), path
