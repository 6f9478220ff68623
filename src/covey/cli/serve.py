"""`covey serve`: the log and the welcome; the broker itself is `covey.server.server`."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import suppress

from covey import __version__
from covey.cli.log import make_logger
from covey.cli.serve_options import make_parser
from covey.config.errors import ConfigError
from covey.config.load import Loaded, load
from covey.core.errors import BrokerError
from covey.core.management.settings_check import flaws
from covey.server.parent import Line, serve_by_workers
from covey.server.server import Load, Log, Server, serve

USAGE_ERROR = 2


def main(argv: list[str]) -> int:
    """Run a broker until it is told to stop; return the exit code."""
    return _serve(make_parser().parse_args(argv))


def _serve(arguments: argparse.Namespace) -> int:
    given = {
        "store.path": arguments.data,
        "stomp.bind": arguments.stomp,
        "amqp.bind": arguments.amqp,
        "http.bind": arguments.http,
        "broker.workers": arguments.workers,
        "broker.default_message_group": arguments.default_message_group,
        "event_log.dir": arguments.event_log,
    }
    environ = dict(os.environ)

    def read() -> Loaded:
        return load(arguments.config, environ, given, flaws)

    try:
        loaded = read()
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return USAGE_ERROR
    try:
        log = make_logger(arguments.log, arguments.log_file, verbose=arguments.verbose)
    except OSError as error:
        return _failed(error)
    for warning in loaded.warnings:
        log.warning("configuration", note=warning)

    def run_worker(settled: Loaded, line: Line) -> int:
        return _run(settled, log.bind(worker=line.seat.number), read, line)

    if loaded.settings.broker.workers == 1:
        return _run(loaded, log, read)
    try:
        return serve_by_workers(loaded, log, read, run_worker)
    except (OSError, BrokerError) as error:
        return _failed(error)


def _run(loaded: Loaded, log: Log, load: Load, line: Line | None = None) -> int:
    """Serve in this process until the end; return the exit code."""
    try:
        serve(loaded.settings, log, _welcome, load, loaded, line)
    except (OSError, BrokerError) as error:
        return _failed(error)
    return 0


def _failed(error: Exception) -> int:
    sys.stderr.write(f"covey: {error}\n")
    return 1


def _welcome(server: Server) -> None:
    """Say where it listens and what to do next."""
    lines = [f"covey {__version__} is ready"]
    lines += [
        f"  {listener.connector.protocol:<6} {listener.address}" for listener in server.listeners
    ]
    lines.append(f"  build  {server.spaces.shared.build}")
    if server.line is not None:
        lines.append(f"  workers {server.line.seat.count}, over which virtual hosts are spread")
    login = ("USER", "PASSWORD")
    if server.spaces.shared.users.has_default_password:
        login = ("admin", "password")
        lines.append("  login  admin / password (from this machine only; change it in [[user]])")
    for page in [one for one in server.listeners if one.connector.protocol == "http"]:
        scheme = "http" if page.connector.tls is None else "https"
        lines.append(f"Look at it: {scheme}://{page.address}/")
    stomp = next((one for one in server.listeners if one.connector.protocol == "stomp"), None)
    if stomp is not None:
        host, _, port = stomp.address.rpartition(":")
        carrier = f"nc -q 1 {host.strip('[]')} {port}"
        if stomp.connector.tls is not None:
            carrier = f"openssl s_client -quiet -connect {stomp.address}"
        lines.append("Try it:")
        lines.append(
            f"  printf 'CONNECT\\nlogin:{login[0]}\\npasscode:{login[1]}\\n\\n\\0"
            "SUBSCRIBE\\nid:1\\ndestination:/queue/a\\n\\n\\0"
            f"SEND\\ndestination:/queue/a\\n\\nhello\\0' | {carrier}"
        )
    with suppress(OSError):  # nobody may read it, or the disk may be full: the broker serves
        sys.stdout.write("\n".join(lines) + "\n")
        sys.stdout.flush()
