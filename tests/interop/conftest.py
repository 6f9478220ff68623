"""The running broker and the browser as fixtures."""

from __future__ import annotations

from tests.e2e.support import broker as broker
from tests.interop.browser import opened_tab as opened_tab
from tests.interop.browser import program as program
from tests.interop.browser import started_browser as started_browser
