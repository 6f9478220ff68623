"""`covey` as a whole: help, version, completion, exit codes, and how fast `serve` is found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import covey
from covey import __version__
from covey.__main__ import main
from covey.cli.main import app
from tests.cli.support import Terminal

SOURCE = str(Path(covey.__file__).parent.parent)
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE}


def test_help_lists_every_noun_and_serve(terminal: Terminal) -> None:
    said = terminal.run(lambda: main(["--help"]))
    assert said.code == 0
    for name in "serve queue group message consumer connection user config check top".split():
        assert f" {name} " in said.out
    assert "\x1b" not in said.out


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words that lead to each command, nouns included."""
    yield words
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*words, name))


@pytest.mark.parametrize("words", list(commands(get_command(app))), ids=" ".join)
def test_every_command_has_help(words: tuple[str, ...], terminal: Terminal) -> None:
    said = terminal.run(lambda: main([*words, "--help"]))
    assert (said.code, said.err) == (0, "")
    assert "sage: covey" in said.out
    assert "…" not in said.out  # at 80 columns nothing is cut off
    assert ("--broker" in said.out) == ("user/password@" in said.out)
    assert "<bool>" not in said.out  # a switch takes no value
    assert terminal.run(lambda: main([*words, "-h"])).out == said.out


# Their output is a file of its own kind, or a broker's log.
WITHOUT_JSON = (("serve",), ("config", "schema"), ("worker", "run"))


@pytest.mark.parametrize(
    "words", [each for each in commands(get_command(app)) if each], ids=" ".join
)
def test_every_command_has_an_example_and_speaks_json(
    words: tuple[str, ...], terminal: Terminal
) -> None:
    said = terminal.run(lambda: main([*words, "--help"])).out
    is_noun = len(words) == 1 and " Commands " in said
    assert ("Example: covey " in said) == (not is_noun)
    assert (" --json " in said) == (not is_noun and words not in WITHOUT_JSON)
    assert "[[" not in said and "[]" not in said  # what rich takes for markup vanishes


def test_what_was_done_is_told_as_json_if_asked(terminal: Terminal) -> None:
    def told(*words: str, typed: str | None = None) -> Any:
        said = terminal.covey(*words, "--json", typed=typed)
        assert (said.code, said.err) == (0, "")
        return json.loads(said.out)

    assert told("queue", "create", "tj")["declared"] is True
    assert told("message", "send", "tj", "a", "--group", "g", "--count", "3") == {"sent": 3}
    assert told("message", "move", "tj", "tk", "--count", "1", "--wait", "0.2") == {"moved": 1}
    group = {"queue": "tj", "group": "g"}
    assert told("group", "park", "tj", "g") == group | {"parked": True}
    assert told("group", "unpark", "tj", "g") == group | {"parked": False}
    assert told("group", "close", "tj", "g") == group | {"closed": True}
    assert told("group", "rebalance", "tj") == {"queue": "tj", "rebalanced": True, "moved": 0}
    assert told("queue", "purge", "tj") == {"queue": "tj", "purged": 2}
    assert told("queue", "delete", "tj") == {"queue": "tj", "deleted": True}
    assert told("queue", "delete", "tk", "--force") == {"queue": "tk", "deleted": True}
    assert told("user", "hash", typed="secret\n")["record"].startswith("SCRAM-SHA-256$")
    checked = {"connectors": 3, "queues": 1, "users": 1, "warnings": [], "ok": True}
    assert told("config", "check") == checked
    assert told("top", "--count", "1")["broker"]["type"] == "broker"


def test_version_and_wrong_usage(terminal: Terminal) -> None:
    assert terminal.run(lambda: main(["--version"])).out == f"covey {__version__}\n"
    assert terminal.run(lambda: main(["wombat"])).code == 2
    assert terminal.run(lambda: main(["queue", "list", "--wombat"])).code == 2
    assert terminal.run(lambda: main(["serve", "--wombat"])).code == 2


def test_serve_keeps_its_options(terminal: Terminal) -> None:
    said = terminal.run(lambda: main(["serve", "--help"]))
    assert said.code == 0
    for option in (
        "--config --data --stomp --amqp --http --event-log --default-message-group"
        " --default-msg-group --verbose"
    ).split():
        assert option in said.out


def test_serve_does_not_pay_for_the_other_commands() -> None:
    code = "import sys, covey.cli.serve; print('typer' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_a_shell_completes_commands() -> None:
    asked = {"_COVEY_COMPLETE": "complete_bash", "COMP_WORDS": "covey gr", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", "from covey.__main__ import main; main()"],
        env={**ENVIRONMENT, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["group"]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("covey queue stat complete-m", {"complete-me"}),
        ("covey group park complete-me gr", {"group-1", "group-2"}),
        ("covey message browse complete-m", {"complete-me"}),
        ("covey consumer drain nothing-like-it", set()),
        ("covey user password adm", {"admin"}),
        ("covey policy remove complete-p", {"complete-policy"}),
    ],
)
def test_a_shell_completes_names_that_the_broker_tells(
    typed: str, offered: set[str], terminal: Terminal
) -> None:
    for group in ("group-1", "group-2"):
        terminal.covey("message", "send", "complete-me", "x", "--group", group)
    terminal.covey("policy", "set", "complete-policy", "quota_messages=1000")
    asked = {
        "_COVEY_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
        "COVEYCTL_BROKER": terminal.amqp,
    }
    done = subprocess.run(
        [sys.executable, "-c", "from covey.__main__ import main; main()"],
        env={**ENVIRONMENT, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == offered


def test_completion_is_silent_where_nobody_answers() -> None:
    asked = {
        "_COVEY_COMPLETE": "complete_bash",
        "COMP_WORDS": "covey queue stat x",
        "COMP_CWORD": "3",
        "COVEYCTL_BROKER": "127.0.0.1:1",
    }
    done = subprocess.run(
        [sys.executable, "-c", "from covey.__main__ import main; main()"],
        env={**ENVIRONMENT, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_watch_looks_again_until_it_is_interrupted(terminal: Terminal) -> None:
    command = [sys.executable, "-m", "covey", "queue", "list", "--watch", "0.05"]
    with subprocess.Popen(
        [*command, "-b", terminal.amqp], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        heads = 0
        for line in process.stdout:
            heads += line.startswith("name")
            if heads == 2:
                break
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, (*words, name))
    if not hasattr(command, "commands"):
        yield words, command


def test_every_list_can_be_watched() -> None:
    lists = [
        (words, {option for param in command.params for option in param.opts})
        for words, command in _commands(get_command(app))
        if words[-1] in ("list", "permissions")
    ]
    assert len(lists) >= 9
    assert [words for words, options in lists if "--watch" not in options] == []


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("queue", "stat"), "missing argument 'QUEUE'"),
        (("queue", "lst"), "did you mean 'list'"),
        (("queue", "list", "--wombat"), "no such option: --wombat"),
        (("queue", "list", "--watch", "-1"), "--watch"),
        (("group", "park", "q", "g", "--reason"), "requires an argument"),
    ],
)
def test_wrong_words_give_one_line_that_says_where_the_right_ones_are(
    terminal: Terminal, words: tuple[str, ...], cause: str
) -> None:
    said = terminal.run_covey(*words)
    assert (said.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line.startswith("covey: ") and cause.lower() in line.lower() and "-h tells more" in line


def test_a_noun_without_a_verb_shows_its_help(terminal: Terminal) -> None:
    said = terminal.run_covey("queue")
    assert said.code == 2
    assert "List queues" in said.out and said.err == ""


def test_nothing_but_names_is_written_into_the_line_that_is_completed() -> None:
    """A broker that does not answer, or anything else, is no reason to write into a prompt."""
    environ = os.environ | {
        "_COVEY_COMPLETE": "complete_bash",
        "COMP_WORDS": "covey queue stat ",
        "COMP_CWORD": "3",
        "COVEYCTL_BROKER": "127.0.0.1:1",
    }
    said = subprocess.run(
        [sys.executable, "-m", "covey"],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.stdout.strip() == ""
    assert said.stderr == ""
