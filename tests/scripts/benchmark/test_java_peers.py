"""The peers that Maven has: what is missing is named, and their settings are what was meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.benchmark.java_peers import ActiveMQ6, Artemis, JavaPeer, artemis_config
from scripts.benchmark.peers import PEERS

BROKER_XML = """<core><acceptors>
 <acceptor name="artemis">tcp://127.0.0.1:61616</acceptor>
</acceptors><address-settings>
 <address-setting match="#"><max-size-bytes>-1</max-size-bytes></address-setting>
</address-settings></core>
"""


@pytest.mark.parametrize("peer", [Artemis, ActiveMQ6])
def test_what_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, peer: type[JavaPeer]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java, javac, mvn" in peer().missing()
    assert PEERS[peer.name] is peer


@pytest.mark.parametrize("peer", [Artemis, ActiveMQ6])
def test_what_cannot_be_fetched_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, peer: type[JavaPeer]
) -> None:
    for name in ("java", "javac", "mvn"):
        (tmp_path / name).write_text("#!/bin/sh\necho no such repository\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = peer()
    assert made.missing() == "cannot be fetched: no such repository\n"
    assert not made.home.exists()


def test_an_instance_of_artemis_stores_what_amqp_sends() -> None:
    text = artemis_config(BROKER_XML, 1, 2)
    assert text.count("<acceptor ") == 2 and "61616" not in text
    assert "127.0.0.1:1?protocols=STOMP" in text and "127.0.0.1:2?protocols=AMQP" in text
    every = text.partition('match="#">')[2]
    assert every.startswith("<default-address-routing-type>ANYCAST<")
    assert 'match="bench.topic.#"><default-address-routing-type>MULTICAST<' in text
