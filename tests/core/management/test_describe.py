"""The group view: the oldest message wherever it is, and each wait with its own time."""

from __future__ import annotations

from covey.core.management.describe import Attributes
from covey.core.model.entry import Outcome
from covey.core.publishing.transactions import Transaction
from covey.core.queue import policy as commands
from tests.core.support import Bench
from tests.doubles import NOBODY


def _group(bench: Bench) -> Attributes:
    return bench.groups()["a"]


def test_the_oldest_message_may_be_one_that_was_set_aside() -> None:
    bench = Bench()
    reader = bench.join(selector="colour = 'red'")
    bench.send("a", colour="blue")
    bench.pump()
    bench.wait(60)
    bench.send("a", colour="red")
    bench.pump()
    assert reader.held() == [2]
    group = _group(bench)
    assert (group["messages"], group["oldest_seq"], group["oldest_s"]) == (2, 1, 60.0)


def test_the_oldest_message_may_be_in_a_transaction() -> None:
    bench = Bench()
    reader = bench.join()
    bench.send_all("aa")
    bench.pump()
    transaction = Transaction(10, 10)
    transaction.settle(reader.unsettled[1], Outcome.ACCEPTED)
    NOBODY.transactions["t"] = transaction
    try:
        assert _group(bench)["oldest_seq"] == 1
    finally:
        del NOBODY.transactions["t"]


def test_a_group_that_was_parked_before_it_drains_has_both_times() -> None:
    bench = Bench()
    bench.join(1)
    bench.send_all("aa")
    bench.pump()
    commands.park(bench.queue, "a", bench.now, parked=True)
    commands.close_group(bench.queue, "a", bench.now)
    bench.wait(100)
    commands.park(bench.queue, "a", bench.now, parked=False)
    bench.wait(1)
    group = _group(bench)
    assert (group["state"], group["blocked_s"], group["draining_s"]) == ("draining", 101.0, 1.0)
