"""Options: what they mean, and one sentence for what is wrong."""

from __future__ import annotations

import pytest

from covey.pipeline.datasource.options import Address, parse_address, read_options, write_options
from covey.pipeline.errors import PipelineError

COLUMNS = ["value", "queue", "seq", "message_id", "group_id"]


def test_a_stream_begins_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert read_options({"subscribe": "q"}, is_stream=True).starting == "latest"
    assert read_options({"subscribe": "q"}, is_stream=False).starting == "earliest"
    trimming = read_options({"subscribe": "q", "commit": "trim"}, is_stream=True)
    assert (trimming.starting, trimming.is_trimming) == ("earliest", True)


def test_names_are_known_in_any_case_and_lists_are_split() -> None:
    options = read_options(
        {"subscribe": "a, b,,a", "STARTINGOFFSETS": '{"a": 1, "b": -2}', "brokers": "x,y:7"},
        is_stream=False,
    )
    assert options.subscribe == ("a", "b")
    assert options.starting == {"a": 1, "b": -2}
    assert [place.address for place in options.places] == ["x:61613", "y:7"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "subscribe: give either"),
        ({"subscribe": "q", "subscribePattern": ".*"}, "subscribe: give either"),
        ({"subscribe": "/topic/t"}, "subscribe=/topic/t: .* /dsub/NAME"),
        ({"subscribe": "q", "failOnDataLos": "no"}, "is failOnDataLoss meant"),
        ({"subscribe": "q", "failOnDataLoss": "no"}, "failOnDataLoss=no: true or false"),
        ({"subscribe": "q", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0: "),
        ({"subscribe": "q", "startingOffsets": "first"}, "startingOffsets=first: earliest"),
        ({"subscribe": "q", "startingOffsets": '{"q": "1"}'}, "startingOffsets="),
        ({"subscribe": "q", "brokers": "x:port"}, "brokers=x:port: port is not a port"),
        ({"subscribe": "q", "brokers": "me/secret@x"}, "brokers: the login goes into user"),
        (
            {"subscribe": "q", "maxOffsetsPerTrigger": "1", "maxBytesPerTrigger": "1"},
            "maxBytesPerTrigger: give either",
        ),
        (
            {"subscribe": "q", "maxOffsetsPerTrigger": "1", "minOffsetsPerTrigger": "2"},
            "minOffsetsPerTrigger: it is more than",
        ),
        ({"subscribe": "q", "maxTriggerDelay": "1m"}, "it goes with minOffsetsPerTrigger"),
        (
            {"subscribe": "q", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "soon"},
            "maxTriggerDelay=soon: a time as",
        ),
        (
            {"subscribe": "q", "startingTimestamp": "5", "startingOffsets": "latest"},
            "startingTimestamp: give either",
        ),
        ({"subscribe": "q", "fetchOffset.numRetries": "-1"}, "fetchOffset.numRetries=-1: "),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        read_options(given, is_stream=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("selector", "a = 1"),
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"q": 3}'),
        ("startingTimestamp", "1000"),
    ],
)
def test_a_trim_never_removes_what_the_stream_leaves_out(name: str, value: str) -> None:
    with pytest.raises(PipelineError, match=f"^{name}: commit=trim"):
        read_options({"subscribe": "q", "commit": "trim", name: value}, is_stream=True)
    with pytest.raises(PipelineError, match="commit=trim is for streams"):
        read_options({"subscribe": "q", "commit": "trim"}, is_stream=False)


def test_the_password_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVEY_PASSWORD", "secret")
    (place,) = read_options({"subscribe": "q", "user": "alice"}, is_stream=False).places
    assert (place.user, place.password) == ("alice", "secret")


def test_a_sink_takes_the_source_s_columns_for_what_they_are() -> None:
    options = write_options({}, COLUMNS)
    assert (options.queue, options.id_column, options.group_column, options.order_column) == (
        "",
        "message_id",
        "group_id",
        "seq",
    )
    bare = write_options({"queue": "q"}, ["value"])
    assert (bare.id_column, bare.group_column, bare.order_column) == ("", "", "")


@pytest.mark.parametrize(
    ("given", "columns", "said"),
    [
        ({}, ["value"], "queue: name the queue"),
        ({"queue": "q"}, ["body"], "no column value"),
        ({"queue": "q", "idColumn": "id"}, ["value"], "idColumn=id: there are only"),
        ({"queue": "q", "subscribe": "q"}, ["value"], "subscribe: there is no such option"),
        ({"queue": "q", "txnAppId": "daily"}, ["value"], "txnAppId: it goes with txnVersion"),
        (
            {"queue": "q", "txnAppId": "daily", "txnVersion": "0", "exactlyOnce": "false"},
            ["value"],
            "exactlyOnce=false: then txnAppId would do nothing",
        ),
    ],
)
def test_what_a_sink_cannot_do_is_named(
    given: dict[str, str], columns: list[str], said: str
) -> None:
    with pytest.raises(PipelineError, match=said):
        write_options(given, columns)


@pytest.mark.parametrize(
    ("name", "value", "is_stream"),
    [
        ("endingOffsets", "latest", True),
        ("pushFilters", "true", True),
        ("maxOffsetsPerTrigger", "5", False),
        ("maxBytesPerTrigger", "5", False),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(name: str, value: str, is_stream: bool) -> None:
    given = {"subscribe": "q", name: value}
    read_options(given, is_stream=not is_stream)
    with pytest.raises(PipelineError, match=f"^{name}: it is for a (batch|stream) only$"):
        read_options(given, is_stream=is_stream)


def test_a_broker_is_waited_for_as_the_options_say() -> None:
    assert read_options({"subscribe": "q"}, is_stream=True).patience.total_s >= 60
    given = {
        "fetchOffset.numRetries": "3",
        "fetchOffset.retryIntervalMs": "50",
        "retryTimeoutMs": "0",
    }
    patience = write_options(given | {"queue": "q"}, ["value"]).patience
    assert (patience.tries, patience.first_s, patience.total_s) == (3, 0.05, 0.0)


def test_a_virtual_host_is_named_by_its_option() -> None:
    given = {"subscribe": "q", "brokers": "a,b", "virtualHost": "bank.example"}
    places = read_options(given, is_stream=False).places
    assert [place.virtual_host for place in places] == ["bank.example"] * 2


# Addresses: a broker and a place in it.


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("covey://h/orders", Address("h:61613", "", "", "orders")),
        ("covey://h:7/queue/a.b", Address("h:7", "", "", "a.b")),
        ("covey://[::1]:7/topic/news", Address("[::1]:7", "", "", "/topic/news")),
        ("covey://me:p%40ss@h", Address("h:61613", "me", "p@ss", "")),
    ],
)
def test_an_address_is_read(text: str, found: Address) -> None:
    assert parse_address("--input", text) == found


@pytest.mark.parametrize("text", ["orders", "stomp://h/q", "covey:///q", "covey://h:port/q"])
def test_what_is_no_address_is_refused_by_its_option(text: str) -> None:
    with pytest.raises(PipelineError, match=r"^--to: covey://"):
        parse_address("--to", text)
