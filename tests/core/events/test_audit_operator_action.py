"""On record: what came of an action is told once, and whoever raised is not kept from it."""

from __future__ import annotations

import pytest

from covey.core.errors import RefusedError
from covey.core.events.audit import FAILED, OK, REFUSED, OperatorAction, on_record
from tests.core.events.test_audit import Heard

PURGE = OperatorAction("ann", "192.0.2.1:1", "http", "purge", "queue", "default", "a")


def test_what_was_done_is_told_with_its_cost() -> None:
    heard = Heard()
    with on_record(heard, PURGE) as cost:
        assert heard.actions == []
        cost.count = 3
    (told,) = heard.actions
    assert (told.user, told.action, told.result, told.count) == ("ann", "purge", OK, 3)


@pytest.mark.parametrize(
    ("error", "result", "reason"),
    [
        (RefusedError("there is no queue a", "not-found"), REFUSED, "there is no queue a"),
        (KeyError("a"), FAILED, "KeyError: 'a'"),
    ],
)
def test_what_was_not_done_is_told_with_the_reason(
    error: Exception, result: str, reason: str
) -> None:
    heard = Heard()
    with pytest.raises(type(error)), on_record(heard, PURGE):
        raise error
    (told,) = heard.actions
    assert (told.result, told.reason, told.count) == (result, reason, None)
