"""Generator: one run of a job, in a process of its own, so that nothing else slows it down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from covey.bench.load import NO_ANSWER, Outcome
from covey.bench.wire.link import Job

# The generator is of the package that asks for it, wherever that lies.
ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}


class NoAnswerError(RuntimeError):
    """The broker took the connection and then said nothing: it is stopped, frozen or no broker."""


def generate(job: Job) -> tuple[Outcome, float]:
    """Run the generator on a job; return its outcome and its processor time, start-up included.

    Raises NoAnswerError if nobody answers, and RuntimeError if something was lost or refused.
    """
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-m", "covey.bench.load"],
        input=json.dumps(asdict(job)),
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    after = os.times()
    if done.returncode == NO_ANSWER:
        raise NoAnswerError(done.stderr.strip()[-300:])
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-300:])
    used = after.children_user + after.children_system
    used -= before.children_user + before.children_system
    return Outcome(**json.loads(done.stdout)), used
