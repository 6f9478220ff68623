"""Events: streams over real sockets, over both versions of HTTP: deltas, resuming, bounds."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx
import pytest

from covey.config.settings import UserSettings
from covey.core.management.history import Measures
from covey.protocols.http.console.events import KEPT_EVENTS, Part, Rows, Stream
from tests.protocols.http.support import ADMIN, PLAIN, USERS, Served, make_settings, run, served

QUEUE = "/api/v1/events/queues/q"
PAGE = "/api/v1/events/queues"


class Heard:
    """The events of a stream, in order."""

    def __init__(self, answer: httpx.Response) -> None:
        self._lines = answer.aiter_lines()
        self.last_id = ""

    async def next(self, wanted: str = "") -> tuple[str, Any]:
        """Return the next event, or the next one of that name."""
        name, data = "", ""
        async for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                self.last_id = value
            elif field == "data":
                data = value
            elif not line and name:
                if wanted in ("", name):
                    return name, json.loads(data)
                name = ""
        raise AssertionError("the stream has ended")


def client_of(world: Served, *, http2: bool) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=f"http://{world.address}", auth=ADMIN, http1=not http2, http2=http2, timeout=20
    )


@pytest.mark.parametrize("http2", [False, True])
def test_a_queue_is_told_whole_and_then_as_it_changes(http2: bool) -> None:
    async def test() -> None:
        async with served() as world, client_of(world, http2=http2) as client:
            await client.post("/api/v1/queues/q/messages", json={"body": "x", "group": "a"})
            async with client.stream("GET", QUEUE) as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
                heard = Heard(answer)
                _, queue = await heard.next("queue")
                assert (queue["name"], queue["messages"]) == ("q", 1)
                assert "manage" in queue["rights"]
                _, groups = await heard.next("groups")
                assert groups["total"] == 1
                (row,) = groups["all"]
                assert row[:4] == ["a", 1, 0, 0]
                await client.post("/api/v1/queues/q/messages", json={"body": "x", "group": "b"})
                _, delta = await heard.next("groups")
                assert [row[0] for row in delta["set"]] == ["b"]
                assert (delta["gone"], delta["total"]) == ([], 2)
                await client.post("/api/v1/queues/q/groups/a/park")
                _, delta = await heard.next("groups")
                assert [(row[0], row[4] & 8) for row in delta["set"]] == [("a", 8)]
                await client.post("/api/v1/queues/q/purge")
                _, delta = await heard.next("groups")
                assert delta["gone"] == ["b"]  # what is parked stays so, empty or not

    run(test)


def test_who_comes_back_hears_what_was_missed_and_nothing_twice() -> None:
    async def test() -> None:
        async with served() as world, client_of(world, http2=False) as client:
            await client.post("/api/v1/queues/q/messages", json={"body": "x", "group": "a"})
            async with client.stream("GET", QUEUE) as answer:
                heard = Heard(answer)
                await heard.next("groups")
                last = heard.last_id
            streams = world.listener.app.console.streams
            with anyio.fail_after(5):
                while streams.open:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            await client.post("/api/v1/queues/q/messages", json={"body": "x", "group": "b"})
            headers = {"last-event-id": last}
            async with client.stream("GET", QUEUE, headers=headers) as answer:
                heard = Heard(answer)
                _, delta = await heard.next("groups")
                assert "all" not in delta
                assert [row[0] for row in delta["set"]] == ["b"]
            async with client.stream("GET", f"{QUEUE}?resume=nobody.7") as answer:
                _, delta = await Heard(answer).next("groups")
                assert len(delta["all"]) == 2

    run(test)


def test_a_stream_ends_with_its_login_and_says_so() -> None:
    async def test() -> None:
        async with served() as world, client_of(world, http2=False) as client:
            async with client.stream("GET", "/api/v1/events/broker") as answer:
                heard = Heard(answer)
                await heard.next("broker")
                changed = UserSettings.model_validate({"name": ADMIN[0], "password": "other"})
                world.broker.users.apply([changed, USERS[1]], [])
                _, why = await heard.next("end")
                assert why["code"] == "login"

    run(test)


def test_a_queue_that_is_deleted_ends_its_stream() -> None:
    async def test() -> None:
        async with served() as world, client_of(world, http2=False) as client:
            assert (await client.get(QUEUE)).status_code == 404
            await client.put("/api/v1/queues/q", json={})
            async with client.stream("GET", QUEUE) as answer:
                heard = Heard(answer)
                await heard.next("queue")
                await client.delete("/api/v1/queues/q")
                _, why = await heard.next("end")
                assert why["code"] == "not-found"

    run(test)


def test_too_many_streams_are_refused_and_a_stop_ends_them() -> None:
    async def test() -> None:
        http = {"event_streams_max": 1}
        async with served(http=http) as world, client_of(world, http2=False) as client:
            path = "/api/v1/events/broker"
            async with client.stream("GET", path) as answer:
                heard = Heard(answer)
                await heard.next()
                refused = await client.get(path)
                assert (refused.status_code, refused.json()["code"]) == (503, "full")
                assert "event_streams_max" in refused.json()["text"]
                world.listener.app.console.streams.end()
                with anyio.fail_after(5), pytest.raises(AssertionError, match="has ended"):
                    while True:
                        await heard.next()

    run(test)


def test_who_takes_all_places_gives_one_to_a_user_with_fewer_streams() -> None:
    rule = {"who": [PLAIN[0]], "may": ["connect", "manage"], "on": "queue:ok.**"}
    settings = make_settings(user=USERS, permission=[rule])

    async def test() -> None:
        http = {"event_streams_max": 3}
        async with served(settings, http=http) as world, client_of(world, http2=False) as client:
            streams = world.listener.app.console.streams
            async with AsyncExitStack() as stack:
                greedy = [
                    Heard(await stack.enter_async_context(client.stream("GET", PAGE, auth=PLAIN)))
                    for _ in range(3)
                ]
                for one in greedy:
                    await one.next()
                for _ in range(2):
                    assert (await client.get(PAGE, auth=PLAIN)).status_code == 503
                answer = await stack.enter_async_context(client.stream("GET", PAGE))
                modest = Heard(answer)
                await modest.next()
                assert answer.status_code == 200
                _, why = await greedy[0].next("end")
                assert why["code"] == "full"
                await greedy[1].next()
                assert [one.user for one in streams.open] == [PLAIN[0], PLAIN[0], ADMIN[0]]
                assert (await client.get(PAGE)).status_code == 503  # two each would be as unfair

    run(test)


def test_a_trace_is_told_as_it_happens() -> None:
    async def test() -> None:
        async with served() as world, client_of(world, http2=False) as client:
            await client.put("/api/v1/queues/q", json={})
            async with client.stream("GET", f"{QUEUE}/trace") as answer:
                heard = Heard(answer)
                await anyio.sleep(0.3)
                await client.post("/api/v1/queues/q/messages", json={"body": "x", "group": "a"})
                _, page = await heard.next("trace")
                assert [(one["event"], one["group"]) for one in page["events"]] == [
                    ("enqueue", "a")
                ]

    run(test)


async def events(stream: Stream) -> AsyncIterator[str]:
    for part in stream.parts:
        part.due_at = 0.0
    async for event in stream.due():
        yield event.decode()


def test_a_part_that_stays_the_same_is_told_once_and_a_gap_brings_everything() -> None:
    values = [1, 1, 2]

    async def value() -> int:
        return values.pop(0)

    async def rows() -> Any:
        return {"a": ["a", len(values)]}, {"total": 1}

    async def test() -> None:
        stream = Stream([Part("one", 0.0, value), Rows("rows", 0.0, rows)])
        told = [event async for event in events(stream)]
        assert [event.split("data: ")[1].strip() for event in told] == [
            "1",
            '{"all":[["a",2]],"total":1}',
        ]
        told = [event async for event in events(stream)]
        assert [event.split("data: ")[1].strip() for event in told] == [
            '{"set":[["a",1]],"gone":[]}'
        ]
        assert stream.missed(2) == [told[0].encode()]
        assert stream.missed(9) is None
        stream.forget()
        told = [event async for event in events(stream)]
        assert len(told) == 2
        assert stream.missed(0) is None  # older than what is kept

    run(test)


def test_what_is_kept_of_a_stream_is_bounded() -> None:
    numbers = iter(range(10_000))

    async def value() -> str:
        return "x" * 10_000 + str(next(numbers))

    async def test() -> None:
        stream = Stream([Part("one", 0.0, value)])
        for _ in range(KEPT_EVENTS * 2):
            async for _ in events(stream):
                pass
        assert stream.missed(0) is None
        kept = stream.missed(stream.number - 10)
        assert kept is not None and len(kept) == 10
        assert stream.missed(stream.number - 40) is None  # 40 of them have more than KEPT_BYTES

    run(test)


def test_a_broker_in_which_nothing_moves_is_told_of_every_five_seconds() -> None:
    async def test() -> None:
        async with served() as world, client_of(world, http2=False) as client:
            history = world.listener.app.console.history

            def sample(at: float) -> None:
                list(history.sample(Measures(), at, at))

            sample(1.0)
            sample(2.0)
            async with client.stream("GET", "/api/v1/events/broker") as answer:
                heard = Heard(answer)
                _, told = await heard.next("sample")
                assert (told["host"]["at"], told["host"]["messages"]) == (2, 0)
                sample(3.0)
                await anyio.sleep(1.5)  # the part is worked out once a second
                await client.post("/api/v1/queues/q/messages", json={"body": "x"})
                sample(4.0)  # this is news, the one before was none
                _, told = await heard.next("sample")
                assert (told["host"]["at"], told["host"]["messages"]) == (4, 1)
                for at in (5.0, 6.0, 11.0):
                    sample(at)
                _, told = await heard.next("sample")
                assert told["host"]["at"] == 11

    run(test)
