"""Qpid address strings: what they mean, and what is refused."""

from __future__ import annotations

import pytest

from covey.protocols.amqp.links.address import DEPTH_MAX, Address, AddressError, parse_address

PAGE_EXAMPLE = (
    "MyMsgQueue; {create:always, delete:receiver, node: {x-declare: {arguments:"
    " {'qpid.group_header_key':'GROUP_KEY', 'qpid.shared_msg_group':1}}}}"
)


def test_the_qpid_pages_example_declares_a_group_queue() -> None:
    address = parse_address(PAGE_EXAMPLE)
    assert address.name == "MyMsgQueue"
    assert (address.create, address.delete, address.asserted) == ("always", "receiver", "never")
    assert address.arguments == {"qpid.group_header_key": "GROUP_KEY", "qpid.shared_msg_group": 1}


@pytest.mark.parametrize("text", ["x", "a/b", "/queue/x", "topic://x", "a;b", "", "a.*", "x; "])
def test_without_options_the_whole_text_is_the_name(text: str) -> None:
    assert parse_address(text) == Address(text)


@pytest.mark.parametrize(
    ("text", "name", "subject"),
    [
        ("news/uk; {}", "news", "uk"),
        ("news/uk/london; {}", "news", "uk/london"),
        ("news ; {}", "news", ""),
        ("/queue/a/b; {}", "/queue/a/b", ""),
        ("topic://a/b; {}", "topic://a/b", ""),
    ],
)
def test_a_subject_follows_the_first_slash_of_a_name_with_options(
    text: str, name: str, subject: str
) -> None:
    address = parse_address(text)
    assert (address.name, address.subject, address.has_options) == (name, subject, True)


def test_values_are_numbers_texts_words_maps_and_lists() -> None:
    text = (
        "q; {node: {durable: True, properties: {a: 1, b: -2, c: 1.5, d: 'it\\'s', "
        'e: "x\\n\\u00e4", f: [1, two, [],], g: {h: i,}, 7: false}}}'
    )
    assert parse_address(text).arguments == {
        "durable": True,
        "a": 1,
        "b": -2,
        "c": 1.5,
        "d": "it's",
        "e": "x\nä",
        "f": [1, "two", []],
        "g": {"h": "i"},
        "7": False,
    }


def test_policies_say_for_whom_they_hold() -> None:
    address = parse_address("q; {create: sender, delete: receiver, assert: always}")
    assert address.applies(address.create, to_sender=True)
    assert not address.applies(address.create, to_sender=False)
    assert address.applies(address.delete, to_sender=False)
    assert address.applies(address.asserted, to_sender=True)
    assert not address.applies("never", to_sender=True)


def test_link_options_are_kept() -> None:
    address = parse_address("q; {mode: browse, link: {name: n, selector: \"a = 'b'\"}}")
    assert address.mode == "browse"
    assert address.selector == "a = 'b'"
    assert address.link["name"] == "n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("q; {create: sometimes}", "create"),
        ("q; {crate: always}", "unknown option"),
        ("q; {mode: steal}", "mode"),
        ("q; {node: {type: heap}}", "type"),
        ("q; {node: x}", "map"),
        ("q; {link: {reliability: most}}", "reliability"),
        ("q; {node: {x-declare: 1}, create: always}", "map"),
        ("q; {create always}", "':'"),
        ("q; {create: always", "','"),
        ("q; {create:}", "value"),
        ("q; {create: always} x", "follows"),
        ("q; {create: always, create: never}", "key"),
        ("q; {create: 'always}", "value"),
        ("q; {[1]: 2}", "key"),
        ("q; " + "{a:" * 2000, "nested"),
        ("q" * 20_000, "characters"),
    ],
)
def test_nonsense_is_refused_with_its_cause(text: str, cause: str) -> None:
    with pytest.raises(AddressError, match=cause):
        assert parse_address(text).arguments is not None


def test_nesting_is_bounded() -> None:
    deepest = "{node:" + "{properties:{a:" * 1 + "[" * (DEPTH_MAX - 3) + "]" * (DEPTH_MAX - 3)
    assert parse_address(f"q; {deepest}}}}}}}").arguments["a"] is not None
