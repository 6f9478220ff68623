"""How destinations are read, refused and written back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey.core.errors import RefusedError
from covey.core.naming.destination import Destination, Kind, Syntax, temporary_prefix

DEFAULT = Syntax()
MANUAL = Syntax(strict_names="manual")
OTHER = Syntax(
    queue_prefix="q:",
    topic_prefix="t:",
    path_separator=":",
    destination_separator="~",
    any_child_wildcard="+",
    any_descendant_wildcard="#",
    regex_wildcard_start="(",
    regex_wildcard_end=")",
)


def one(text: str, syntax: Syntax = DEFAULT, *, allow_patterns: bool = True) -> Destination:
    (destination,) = syntax.parse(text, allow_patterns=allow_patterns)
    return destination


def refusal(text: str, syntax: Syntax = DEFAULT, *, allow_patterns: bool = True) -> RefusedError:
    with pytest.raises(RefusedError) as refused:
        syntax.parse(text, allow_patterns=allow_patterns)
    return refused.value


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("/queue/orders", Kind.QUEUE, "orders"),
        ("/topic/PRICE.STOCK.IBM", Kind.TOPIC, "PRICE.STOCK.IBM"),
        ("/dsub/mysub", Kind.DSUB, "mysub"),
        ("orders", Kind.QUEUE, "orders"),
        ("queue://orders", Kind.QUEUE, "orders"),
        ("topic://orders", Kind.TOPIC, "orders"),
        ("/queues/orders", Kind.QUEUE, "orders"),
        ("/topics/orders", Kind.TOPIC, "orders"),
    ],
)
def test_the_prefix_says_the_kind(text: str, kind: Kind, name: str) -> None:
    assert one(text) == Destination(kind, name)


def test_a_destination_names_itself() -> None:
    assert str(one("/queue/orders")) == "queue:orders"


@pytest.mark.parametrize("text", ["/foo/x", "/x", "/queue", "amqp://x"])
def test_an_unknown_prefix_is_refused(text: str) -> None:
    refused = refusal(text)
    assert refused.code == "invalid"
    assert "unknown prefix, use '/queue/', '/topic/' or '/dsub/'" in refused.text


@pytest.mark.parametrize("text", ["/queue/dsub:x", "dsub:x", "queue://dsub:x", "/queue/dsub:"])
def test_no_queue_is_called_as_a_durable_subscription_is(text: str) -> None:
    refused = refusal(text)
    assert refused.code == "invalid"
    assert "no queue's name begins with dsub:, use /dsub/NAME" in refused.text


def test_the_kind_of_a_bare_name_can_be_set_or_refused() -> None:
    assert one("x", Syntax(default_kind=Kind.TOPIC)).kind is Kind.TOPIC
    assert "no prefix" in refusal("x", Syntax(default_kind=None)).text


def test_every_mark_and_prefix_can_be_configured() -> None:
    first, second = OTHER.parse("q:a:+:#~t:b:(c|d)", allow_patterns=True)
    assert first == Destination(Kind.QUEUE, "a.*.**", is_pattern=True)
    assert second == Destination(Kind.TOPIC, "b.{c|d}", is_pattern=True)
    assert one("Q.x", Syntax(queue_prefix="Q.")) == Destination(Kind.QUEUE, "x")


@pytest.mark.parametrize("mark", ["", "a", "%", "*", "é"])
def test_marks_that_could_be_mistaken_are_refused(mark: str) -> None:
    with pytest.raises(RefusedError, match="destination syntax"):
        Syntax(path_separator=mark)


def test_two_equal_prefixes_are_refused() -> None:
    with pytest.raises(RefusedError, match="two prefixes are the same"):
        Syntax(queue_prefix="/topic/")


@pytest.mark.parametrize("text", ["", "/queue/", "/queue/a..b", "/queue/.a", "/queue/a.", "a,,b"])
def test_empty_names_and_parts_are_refused(text: str) -> None:
    refused = refusal(text)
    assert refused.code == "invalid"
    assert "empty" in refused.text


def test_a_slash_in_a_name_is_the_same_as_its_escape() -> None:
    assert one("/topic/stock/IBM") == one("/topic/stock%2fIBM")
    assert one("/topic/stock/IBM").name == "stock%2FIBM"


@pytest.mark.parametrize("text", ["/topic/stock/IBM", "/dsub/a/b"])
def test_strict_names_refuse_the_slash_of_the_manual_s_examples(text: str) -> None:
    assert "'/' at position" in refusal(text, Syntax(strict_names=True)).text
    assert "must be written as %2F" in refusal(text, Syntax(strict_names=True)).text
    assert one(text, MANUAL) == one(text)


@pytest.mark.parametrize("syntax", [MANUAL, Syntax(strict_names=True)])
@pytest.mark.parametrize(
    ("text", "written"),
    [
        *[("/queue/é", "%C3%A9"), ("/queue/a+b", "%2B"), ("/dsub/a@b", "%40"), ("/topic/#", "%23")],
        *[("/topic/a.>", "%3E"), ("/queue/a?x=1", "%3F"), ("/queue/a\\b", "%5C"), ("a}", "%7D")],
        *[("/queue/100%", "%25"), ("/queue/%zz", "%25"), ("/temp-queue/a|b", "%7C")],
        *[("/queue/a,/queue/b;c", "%3B"), ("/queue/*.a=b", "%3D"), ("/queue/\U0001f426", "%F0%9F")],
    ],
)
def test_other_raw_characters_are_refused_with_what_to_write(
    text: str, written: str, syntax: Syntax
) -> None:
    refused = refusal(text, syntax)
    assert f"must be written as {written}" in refused.text
    assert refused.code == "invalid"


@pytest.mark.parametrize("text", ["/queue/%FF", "/queue/%C3", "/queue/a%C3.%A9", "/dsub/%ED%A0%80"])
def test_an_escape_that_is_no_utf_8_is_refused(text: str) -> None:
    assert "does not stand for UTF-8" in refusal(text, MANUAL).text


@pytest.mark.parametrize("syntax", [MANUAL, Syntax(strict_names=True)])
def test_strict_names_take_what_the_manual_lists(syntax: Syntax) -> None:
    name = "aZ9_-~: ().%2F%C3%A9%00"
    assert one(f"/queue/{name}", syntax).name == name


def test_wildcards_regular_expressions_and_marks_are_no_raw_characters() -> None:
    compatible = Syntax(strict_names="manual", compat_wildcards=True)
    assert one("/queue/a.*.b*.**.{[a-z]+@#}", MANUAL).is_pattern
    assert one("/queue/a.>", compatible) == one("/queue/a.#", compatible)
    assert one("/queue/a/b.c", Syntax(strict_names=True, path_separator="/")).name == "a.b%2Ec"


def test_the_id_of_a_durable_subscription_is_any_text() -> None:
    assert MANUAL.durable("a@b#é").name == "a%40b%23%C3%A9"
    assert one("/dsub/a%40b%23%C3%A9", MANUAL) == MANUAL.durable("a@b#é")


def test_a_composite_gives_each_destination_once_in_order() -> None:
    found = DEFAULT.parse("/queue/a,/queue/b, /topic/c,/queue/a", allow_patterns=False)
    assert [str(destination) for destination in found] == ["queue:a", "queue:b", "topic:c"]


def test_a_regular_expression_is_cut_neither_by_dots_nor_by_commas() -> None:
    first, second = DEFAULT.parse("/queue/a.{b.c{1,2}},/queue/d", allow_patterns=True)
    assert first == Destination(Kind.QUEUE, "a.{b.c{1,2}}", is_pattern=True)
    assert second == Destination(Kind.QUEUE, "d")


@pytest.mark.parametrize("text", ["/topic/a.*", "/topic/**", "/topic/a.{b}", "/topic/I*"])
def test_wildcards_are_for_subscribers_only(text: str) -> None:
    assert one(text).is_pattern
    assert "can only be used to subscribe" in refusal(text, allow_patterns=False).text


def test_an_escaped_star_is_no_wildcard() -> None:
    assert one("/queue/a%2A", allow_patterns=False) == Destination(Kind.QUEUE, "a%2A")


def test_other_brokers_wildcards_are_taken_only_when_asked() -> None:
    compat = Syntax(compat_wildcards=True)
    assert one("/topic/a.>", compat) == one("/topic/a.#", compat) == one("/topic/a.**")
    assert one("/topic/a.>") == Destination(Kind.TOPIC, "a.%3E")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("/queue/" + "a" * 1025, "more than 1024 bytes"),
        ("/queue/" + "é" * 200, "more than 1024 bytes"),
        ("/queue/" + ".".join("a" * 33), "33 levels"),
        (",".join("a" * 33), "33 destinations"),
        ("/queue/" + ".".join("*" * 17), "17 wildcards"),
        ("/queue/*." + "a" * 255, "more than 256 characters"),
        ("/queue/" + "{" * 40_000, "too many to look at"),
    ],
)
def test_what_exceeds_a_limit_is_refused(text: str, cause: str) -> None:
    refused = refusal(text)
    assert refused.code == "limit"
    assert cause in refused.text
    assert len(refused.text) < 200


def test_what_just_keeps_the_limits_is_taken() -> None:
    assert one("/queue/" + "a" * 1024)
    assert one("/queue/" + ".".join("a" * 32))
    assert one("/queue/" + ".".join("*" * 16))
    assert len(DEFAULT.parse(",".join(f"q{n}" for n in range(32)), allow_patterns=False)) == 32


def test_a_temporary_name_becomes_real_with_its_connection() -> None:
    local = one("/temp-queue/example")
    assert local == Destination(Kind.QUEUE, "example", is_temporary=True)
    real = DEFAULT.temporary(local.kind, local.name, "default", "23")
    assert DEFAULT.render(real) == "/queue/temp.default.23.example"
    assert one(DEFAULT.render(real), allow_patterns=False) == real
    assert real.name.startswith(temporary_prefix("default", "23"))


def test_ids_cannot_reach_into_another_connections_names() -> None:
    assert temporary_prefix("a.b", "2") == "temp.a%2Eb.2."


def test_a_temporary_destination_takes_no_wildcards() -> None:
    assert "takes no wildcards" in refusal("/temp-topic/a.*").text


@pytest.mark.parametrize("text", ["sub", "a..b", "my*sub", "a{b}", "é", "50%"])
def test_a_durable_subscription_is_found_by_any_id(text: str) -> None:
    assert one(f"/dsub/{text}", allow_patterns=False) == DEFAULT.durable(text)


def test_a_durable_subscription_needs_an_id() -> None:
    with pytest.raises(RefusedError, match="empty"):
        DEFAULT.durable("")


PART = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=3)
LITERAL = PART.filter(lambda part: not set(part) & set(".,*{}+#()~"))
WILD = st.sampled_from(["*", "**", "I*", "*{[0-9]}", "{a.b{1,2}}", "x*y*"])
PATHS = st.lists(LITERAL | WILD, min_size=1, max_size=5).map(".".join)


@settings(deadline=None)
@given(st.sampled_from(["/queue/", "/topic/", "/dsub/"]), PATHS)
def test_what_is_read_is_written_back_to_the_same_place(prefix: str, path: str) -> None:
    for destination in DEFAULT.parse(prefix + path, allow_patterns=True):
        assert one(DEFAULT.render(destination)) == destination
        assert DEFAULT.render(one(DEFAULT.render(destination))) == DEFAULT.render(destination)


@settings(deadline=None)
@given(st.lists(PART, min_size=1, max_size=4))
def test_every_syntax_writes_a_name_so_that_it_reads_it_back(parts: list[str]) -> None:
    escaped = ["".join(f"%{byte:02x}" for byte in part.encode()) for part in parts]
    destination = one("/topic/" + ".".join(escaped), allow_patterns=False)
    assert one(OTHER.render(destination), OTHER, allow_patterns=False) == destination


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("/topic/a", "a"),
        ("/topic/a.**", "a.** a"),
        ("/topic/**", "**"),
        ("/topic/a.**.*", "a.**.* a.*"),
        ("/topic/**.a.**", "**.a.** a.** **.a a"),
        ("/topic/a.**,/topic/a", "a.** a"),
        ("/topic/a.**.**", "a.**.** a.** a"),
    ],
)
def test_what_a_durable_subscription_hears_where_descendants_may_be_none(
    text: str, heard: str
) -> None:
    syntax = Syntax(descendant_matches_zero=True)
    places = syntax.parse(text, allow_patterns=True)
    found = syntax.lasting(places)
    assert " ".join([place.name for place in found]) == heard
    assert [place.is_pattern for place in found] == ["*" in place.name for place in found]
    assert DEFAULT.lasting(places) == places


def test_a_durable_subscription_means_only_so_many_patterns() -> None:
    syntax = Syntax(descendant_matches_zero=True)
    places = syntax.parse("/topic/**.a.**.b.**.c.**.d.**.e.**", allow_patterns=True)
    with pytest.raises(RefusedError, match="more than 32 patterns"):
        syntax.lasting(places)
