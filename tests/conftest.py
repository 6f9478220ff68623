"""What holds for every test: hypothesis draws the same examples in every run.

A run that fails must fail again. `COVEY_RANDOM=1` draws new examples each time, for a search.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("COVEY_RANDOM") else "repeatable")
