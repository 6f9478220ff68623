"""The running broker as a fixture."""

from __future__ import annotations

from tests.e2e.support import broker as broker
