"""The options of `scripts/bench`.

This module and its imports use only the standard library: `--help` works before anything is set up.
"""

from __future__ import annotations

from argparse import ArgumentParser, HelpFormatter
from pathlib import Path
from textwrap import wrap
from typing import Final

from scripts.benchmark.peers import PEERS
from scripts.benchmark.workloads.workloads import NAMES, TURN_PARTS

REPETITIONS: Final = 5


class WholeWords(HelpFormatter):
    """Does not break a line within a workload's name."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(text, width, break_on_hyphens=False)


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    made = ArgumentParser(
        prog="scripts/bench",
        description="Measure Covey, and its peers beside it.",
        formatter_class=WholeWords,
    )
    made.add_argument(
        "workloads", nargs="*", metavar="workload", help=f"of {', '.join(NAMES)}; default all"
    )
    made.add_argument("--peers", default="", help=f"comma-separated, of {', '.join(PEERS)}")
    made.add_argument(
        "--build",
        action="append",
        default=[],
        metavar="NAME=FOLDER[,VARIABLE=VALUE...]",
        help="also run the build of Covey in this folder (scripts/build's, if there is one), with"
        " these environment variables",
    )
    made.add_argument("--repetitions", type=int, default=REPETITIONS)
    made.add_argument("--size", type=int, action="append", help="bytes of a body")
    made.add_argument("--scale", type=float, default=1.0, help="messages per repetition, times")
    made.add_argument(
        "--part", action="append", default=[], choices=TURN_PARTS, help="of `turns`; default all"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    made.add_argument(
        "--earlier",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="put the figures of an earlier run (--json) into the report, too",
    )
    made.add_argument("--report", type=Path, metavar="FILE.md", help="write the page and a plot")
    made.add_argument(
        "--picture", type=Path, metavar="FILE.svg", help="draw what `pace` or `balance` found"
    )
    return made


if __name__ == "__main__":
    parser().parse_args(["--help"])
