"""A link to one group (filter `covey:group`), as an AMQP peer meets it."""

from __future__ import annotations

from proton import Described, Message, symbol

from tests.protocols.amqp.peer import Peer, make_broker

GROUP = symbol("covey:group")


def wish(group: str | int) -> dict[symbol, Described]:
    return {GROUP: Described(GROUP, group)}


def peer_with(groups: str) -> Peer:
    peer = Peer(make_broker())
    sender = peer.sender("q")
    for group in groups:
        peer.send(sender, Message(body=group, group_id=group))
    return peer


def test_a_link_reads_the_group_that_its_filter_names_and_the_filter_is_echoed() -> None:
    peer = peer_with("aba")
    link = peer.receiver("q", filters=wish("a"))
    assert [message.body for _, message in peer.messages] == ["a", "a"]
    echoed = link.remote_source.filter
    echoed.rewind()
    echoed.next()
    assert echoed.get_object()[GROUP].value == "a"


def test_the_next_group_ends_its_link_when_it_is_done_and_says_which_it_was() -> None:
    peer = peer_with("abab")
    link = peer.receiver("q", filters=wish("*next"))
    for delivery, message in list(peer.messages):
        assert message.body == "a"
        peer.settle(delivery)
    peer.broker.run(peer.now)
    peer.pump()
    condition = link.remote_condition
    assert condition is not None
    assert condition.name == "covey:group-done"
    assert condition.info == {"group": "a"}
    again = peer.receiver("q", filters={GROUP: "*next"}, name="again")  # not described
    assert [message.body for _, message in peer.messages[2:]] == ["b", "b"]
    assert again.remote_condition is None


def test_a_filter_that_names_no_group_is_refused() -> None:
    peer = peer_with("")
    for name, wished in (("number", wish(5)), ("nothing", wish(""))):
        link = peer.receiver("q", filters=wished, name=name)
        assert "covey:group" in str(link.remote_condition)
    for number, address in enumerate(("topic://t", "$management")):
        link = peer.receiver(address, filters=wish("a"), name=f"place-{number}")
        assert "amqp:invalid-field" in str(link.remote_condition)
