"""`covey job`."""

from __future__ import annotations

from tests.cli.support import Terminal


def test_no_job_is_an_empty_list_and_nothing_to_stop(terminal: Terminal) -> None:
    assert terminal.covey("job", "list", "--json").out == "[]\n"
    said = terminal.covey("job", "stop", "7")
    assert (said.code, said.err) == (1, "covey: there is no job 7\n")


def test_a_purge_of_many_messages_tells_how_many(terminal: Terminal) -> None:
    with terminal.broker.client() as client:
        for _ in range(2500):
            client.send("SEND", {"destination": "/queue/many"}, b"x")
        client.sync()
    assert terminal.covey("queue", "purge", "many").out == "2500 messages dropped\n"
