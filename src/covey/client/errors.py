"""What can keep a client from its answer, told apart so that a command can choose its exit code.

ClientError
├── UnreachableError     nobody answers there, or the broker went away
├── DeniedError          the broker is there and does not let us
└── AnswerError          the broker understood and said no
"""

from __future__ import annotations


class ClientError(Exception):
    """The root: a sentence for people."""


class UnreachableError(ClientError):
    """Nobody answers at that address."""


class DeniedError(ClientError):
    """The broker is there and does not let us in, or not do this."""


class AnswerError(ClientError):
    """The broker understood and said no."""
