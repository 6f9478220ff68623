"""A recorded message goes when its time has come."""

from __future__ import annotations

import numpy as np

from covey.pipeline.jobs.replay import Pace, due_times


def test_times_are_kept_and_shortened_by_the_speed() -> None:
    came = np.array([np.nan, 10.0, 14.0])
    assert due_times(came, Pace(10.0, 2.0), 100.0).tolist() == [100.0, 100.0, 102.0]
    assert due_times(came, Pace(10.0, 0.0), 100.0).tolist() == [100.0, 100.0, 100.0]
