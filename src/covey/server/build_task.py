"""Build task: has the hot modules compiled beside a broker that runs from source.

`scripts/serve` starts a broker at once, compiled or not. If there is no build of the source, it
puts the path of a build script into COVEY_BUILD. The broker runs that script at the lowest
priority. Its log and `covey check` tell how far the build is. The next start uses the build.

The script ends when its standard input ends. The broker holds the other end of that pipe, so a
compilation ends with its broker, even if the broker is killed.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Mapping
from typing import Final

import anyio
import structlog
from anyio.abc import Process

from covey.core.broker.shared import Shared
from covey.core.model import entry

VARIABLE: Final = "COVEY_BUILD"
COMPILED: Final = "compiled"
PLAIN: Final = "plain Python"
FAILED: Final = "failed: "  # how the script's last line begins if the build failed
STEP_PERCENT: Final = 25  # write a line to the log after each such step

Log = structlog.typing.FilteringBoundLogger


def build_name(environ: Mapping[str, str]) -> str:
    """Return the name of the build that runs, and whether another is being made."""
    if not entry.__file__.endswith(".py"):
        return COMPILED
    is_coming = VARIABLE in environ
    return f"{PLAIN}, compiling beside it; the next start is faster" if is_coming else PLAIN


async def compile_beside(shared: Shared, script: str, log: Log) -> None:
    """Run the script to its end, and log its progress."""
    try:
        process = await anyio.open_process(
            [script, "--beside"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # the script kills its whole process group when it ends
        )
    except OSError as error:
        _note(shared, log, f"{FAILED}{script}: {error}")
        return
    log.info("compiling", note="this broker runs from source until its next start")
    told = 0
    line = ""
    async with process:
        async for line in _lines(process):
            percent = _percent(line)
            shared.build = f"{PLAIN}; compiling: {line}"
            if percent >= told + STEP_PERCENT:
                told = percent - percent % STEP_PERCENT
                log.info("compiling", percent=percent)
        await process.wait()
    if process.returncode and not line.startswith(FAILED):
        line = f"{FAILED}it ended with code {process.returncode}"
    _note(shared, log, line)


def _note(shared: Shared, log: Log, last: str) -> None:
    """Log whether the build was made or has failed."""
    if last.startswith(FAILED):
        shared.build = f"{PLAIN}; the compilation failed"
        log.warning("compilation_failed", reason=last.removeprefix(FAILED))
        return
    shared.build = f"{PLAIN}; compiled: the next start uses it"
    log.info("compiled", note="the next start uses it")


def _percent(line: str) -> int:
    """Return the percentage in a line such as "34 % compiled"."""
    number, _, rest = line.partition(" % ")
    return int(number) if rest and number.isdigit() else 0


async def _lines(process: Process) -> AsyncIterator[str]:
    """Yield each line that the script prints."""
    assert process.stdout is not None
    waiting = b""
    async for data in process.stdout:
        *whole, waiting = (waiting + data).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
