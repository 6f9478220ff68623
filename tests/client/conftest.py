"""The broker and the terminal as fixtures."""

from __future__ import annotations

from tests.cli.support import broker as broker
from tests.cli.support import terminal as terminal
from tests.client.support import tls_broker as tls_broker
