"""The curl commands of docs/http.md: asked of a running broker, they are answered as it shows.

`...` in an answer stands for more of it; ids, times and the numbers of metrics are not compared.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.e2e.support import HOST, running_broker

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
BLOCK = re.compile(r"^```\n(\$ curl.*?)^```", re.DOTALL | re.MULTILINE)
MORE = re.compile(r",\s*\.\.\.\s*(?=[,}])")
USERS = """
[[user]]
name = "admin"
password = "password"
roles = ["admin"]
[[user]]
name = "worker"
password = "w"
"""


def steps() -> Iterator[tuple[list[str], str]]:
    """Give the words of each command, and what the page says is answered."""
    for block in BLOCK.findall(PAGE):
        for step in block.removeprefix("$ ").split("\n$ "):
            command, _, answer = re.sub(r" \\\n\s*", " ", step).partition("\n")
            yield shlex.split(command.partition(" | ")[0]), answer.strip()


def ask(base: str, words: list[str]) -> str:
    """Do what curl would."""
    options = dict(zip(words[2:-1:2], words[3:-1:2], strict=True))  # behind `curl -s`
    url = words[-1].replace("localhost:8161", base)
    content = options.get("-d")
    answer = httpx.request(
        options.get("-X", "POST" if content else "GET"),
        f"http://{url}",
        auth=httpx.BasicAuth(*options["-u"].split(":")),
        headers=dict([options["-H"].split(": ")]) if "-H" in options else {},
        content=content,
        timeout=30,
    )
    return answer.text


def assert_shown(found: Any, shown: Any) -> None:
    """Compare what both have; `shown` may have less."""
    if isinstance(shown, dict):
        for key in shown.keys() - {"message_id"}:
            assert_shown(found[key], shown[key])
    elif isinstance(shown, list):
        for each, one in zip(found, shown, strict=True):
            assert_shown(each, one)
    else:
        assert found == shown


def names(metrics: str) -> list[str]:
    lines = [line for line in metrics.splitlines() if not line.startswith("#")]
    return [line.rpartition(" ")[0] for line in lines]


def test_the_page_s_requests_are_answered_as_it_shows(tmp_path: Path) -> None:
    asked = list(steps())
    assert len(asked) > 6
    with running_broker(tmp_path, config=USERS) as broker:
        found = re.search(r"http\s+\S+:(\d+)", broker.welcome)
        assert found is not None
        for words, shown in asked:
            answer = ask(f"{HOST}:{found[1]}", words)
            if shown.startswith("{"):
                assert_shown(json.loads(answer), json.loads(MORE.sub("", shown)))
            elif shown:
                assert names(answer) == names(shown)
