"""The `covey` command: `serve` goes the short way, for a broker must start soon."""

from __future__ import annotations

import sys


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words[:1] == ["serve"]:
        from covey.cli.serve import main as serve

        return serve(words[1:])
    from covey.cli.main import run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
