"""Audit: what an operator must hear about security, waiting clients and groups, as it happens.

The core writes no log; it tells an `Audit`, and the server's writes the lines. No password, no
body and no header ever comes through here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class Audit(ABC):
    """Who hears of it."""

    @abstractmethod
    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        """Hear that somebody asked for what they may not."""

    @abstractmethod
    def login_failed(self, user: str, remote: str) -> None:
        """Hear of a failed login; `user` is "" for a name nobody has: it may be a password."""

    @abstractmethod
    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Hear that a client has not read what is meant for it for too long."""

    @abstractmethod
    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Hear that a producer has been waiting for a while, and for what."""

    @abstractmethod
    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Hear that a group is in trouble, or with "" for its name all groups of a queue."""


class Unheard(Audit):
    """Nobody listens: a broker in a test."""

    def denied(self, user: str, verb: str, destination: str, remote: str) -> None:
        """Tell nobody."""

    def login_failed(self, user: str, remote: str) -> None:
        """Tell nobody."""

    def slow_consumer(self, user: str, remote: str, waited_s: float) -> None:
        """Tell nobody."""

    def producer_blocked(self, user: str, remote: str, reason: str, waited_s: float) -> None:
        """Tell nobody."""

    def group_trouble(self, queue: str, trouble: str, group: str) -> None:
        """Tell nobody."""
