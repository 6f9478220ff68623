"""Covey: a message broker for work that must stay in order."""

__version__ = "0.1.0"
