"""The options of `covey serve`.

Standard library only, here and in what is imported: `scripts/serve --help` prints before anything
is set up.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Final

USUAL_BINDS: Final[dict[str, str]] = {
    "stomp": "127.0.0.1:61613",
    "amqp": "127.0.0.1:5672",
    "http": "127.0.0.1:8161",
}
"""Each protocol of the default connectors with its address, as in config/settings.py."""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options."""
    serving = argparse.ArgumentParser(
        prog="covey serve",
        description="Run the broker until SIGTERM or Ctrl-C; SIGHUP reads the configuration again.",
        epilog="Example: covey serve --config covey.toml --data /var/lib/covey",
    )
    serving.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=os.environ.get("COVEY_CONFIG") or None,
        help="a TOML file (else the one that COVEY_CONFIG names, if it does)",
    )
    serving.add_argument("--data", metavar="DIR", help="where messages live (default ./data)")
    serving.add_argument(
        "--workers",
        metavar="N",
        help="processes over which the virtual hosts are spread (default 1)",
    )
    for protocol, bind in USUAL_BINDS.items():
        serving.add_argument(
            f"--{protocol}",
            metavar="HOST:PORT",
            help=f"listen for {protocol.upper()} (default {bind}; port 0: a free one)",
        )
    serving.add_argument(
        "--default-message-group",
        "--default-msg-group",
        metavar="NAME",
        help="the group of messages without one, on queues with shared groups",
    )
    serving.add_argument(
        "--event-log", metavar="DIR", help="write what happens to every message, for the pipeline"
    )
    serving.add_argument(
        "--wait-for-build",
        action="store_true",
        help="with scripts/serve: compile before it starts, not beside it",
    )
    serving.add_argument(
        "--log",
        choices=("json", "console"),
        help="how the log is written (default: console on a terminal, else json)",
    )
    serving.add_argument(
        "--log-file",
        type=Path,
        metavar="FILE",
        help="append the log there; the file may be rotated at any time (default: standard error)",
    )
    serving.add_argument(
        "--verbose", action="store_true", help="log every connection that opens and closes, too"
    )
    return serving


if __name__ == "__main__":
    make_parser().parse_args(["--help"])
