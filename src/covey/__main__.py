"""The `covey` command: `serve` goes the short way, for a broker must start soon."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

INTERRUPTED: Final = 130  # 128 and SIGINT, as shells count
COMPLETING: Final = "_COVEY_COMPLETE"  # set by a shell that asks what to offer at a Tab


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    if COMPLETING in os.environ:  # nothing may be written into the line that somebody types
        sys.stderr = Path(os.devnull).open("w")
    try:
        return _main(argv)
    except KeyboardInterrupt:  # while modules load
        return INTERRUPTED


def _main(argv: list[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        from covey.cli.serve import main as serve

        return serve(words[1:])
    from covey.cli.main import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
