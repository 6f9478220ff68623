"""`covey-config`: qpid-config's grammar, output and exit codes."""

from __future__ import annotations

import shlex

import pytest

from covey.cli.qpid_config import main as qpid_config
from tests.cli.support import Terminal

# The Qpid page's example, with our command's name.
EXAMPLE = 'covey-config add queue MyMsgQueue --group-header="GROUP_KEY" --shared-groups'
NOWHERE = "127.0.0.1:1"


def attributes(terminal: Terminal, queue: str) -> str:
    """Return what `queues` shows of one queue."""
    said = terminal.config("queues", queue)
    (line,) = [line for line in said.lines if line.split()[0] == queue]
    return line.removeprefix(queue).strip()


def test_the_qpid_pages_example_runs_as_written(terminal: Terminal) -> None:
    said = terminal.config(*shlex.split(EXAMPLE)[1:])
    assert (said.code, said.out, said.err) == (0, "", "")
    assert attributes(terminal, "MyMsgQueue") == "--group-header=GROUP_KEY --shared-groups"
    queue = terminal.queue("MyMsgQueue")
    assert (queue["strategy"], queue["group_header"]) == ("shared", "GROUP_KEY")


def test_a_group_header_alone_means_sticky_groups(terminal: Terminal) -> None:
    assert terminal.config("add", "queue", "sticky", "--group-header=G").code == 0
    assert terminal.queue("sticky")["strategy"] == "simple"


def test_queues_prints_a_header_and_a_rule_in_fives(terminal: Terminal) -> None:
    terminal.config("add", "queue", "rule.of.twenty.chars", "--durable")
    assert terminal.config("queues", "rule.of.twenty.chars").lines == [
        "Queue Name            Attributes",
        "=" * 5 * (20 // 5 + 5),
        "rule.of.twenty.chars  --durable",
    ]


def test_a_filter_that_matches_nothing_prints_nothing_and_gives_1(terminal: Terminal) -> None:
    said = terminal.config("queues", "no-such-thing")
    assert (said.code, said.out) == (1, "")


@pytest.mark.parametrize(
    "options",
    [
        "--durable --max-queue-size=1000 --max-queue-count=5 --limit-policy=ring",
        "--group-header=G --group-strategy=hash-buckets --group-buckets=16",
        "--group-cache-size=77 --ring-points=10 --consumers-before-dispatch=2"
        " --time-before-dispatch=500 --lvq-key=K --alternate-exchange=dead",
        "--argument qpid.priorities=5 --argument covey.nak_limit=3",
    ],
)
def test_what_queues_shows_makes_the_same_queue_again(terminal: Terminal, options: str) -> None:
    name = f"again{abs(hash(options))}"
    assert terminal.config("add", "queue", name, *options.split()).code == 0
    first = terminal.queue(name)["arguments"]
    shown = attributes(terminal, name)
    assert terminal.config("del", "queue", name).code == 0
    assert terminal.config("add", "queue", name, *shown.split()).code == 0
    assert terminal.queue(name)["arguments"] == first
    assert first != {}


def test_limit_policies_as_in_qpids_own_tests(terminal: Terminal) -> None:
    for policy in ("none", "reject", "ring"):
        name = f"limit.{policy}"
        added = terminal.config(
            "add", "queue", name, "--max-queue-count", "5", "--limit-policy", policy
        )
        assert added.code == 0
    assert attributes(terminal, "limit.none") == "--max-queue-count=5 --limit-policy=reject"
    assert attributes(terminal, "limit.reject") == "--max-queue-count=5 --limit-policy=reject"
    assert attributes(terminal, "limit.ring") == "--max-queue-count=5 --limit-policy=ring"


def test_limits_given_as_texts_do_not_upset_the_list(terminal: Terminal) -> None:
    words = ("--argument", "qpid.max_count=2", "--argument", "qpid.policy_type=ring")
    assert terminal.config("add", "queue", "texts", *words).code == 0
    assert attributes(terminal, "texts") == "--max-queue-count=2 --limit-policy=ring"


@pytest.mark.parametrize("force", ["--force", "--force-if-not-empty"])
def test_a_queue_with_messages_goes_by_force_only(terminal: Terminal, force: str) -> None:
    terminal.covey("message", "send", "full", "hello")
    refused = terminal.config("del", "queue", "full")
    assert (refused.code, refused.out) == (
        1,
        "Failed: AnswerError: queue full holds 1 messages\n",
    )
    assert terminal.queue("full")["messages"] == 1
    assert terminal.config("del", "queue", "full", force).code == 0
    assert terminal.config("queues", "full").code == 1


def test_a_used_queue_goes_by_force_only(terminal: Terminal) -> None:
    with terminal.broker.client() as client:
        client.subscribe("/queue/used")
        assert "has 1 consumers" in terminal.config("del", "queue", "used").out
        assert terminal.config("del", "queue", "used", "--force-if-used").code == 0


def test_list_queue_shows_name_durable_and_autodelete(terminal: Terminal) -> None:
    terminal.config("add", "queue", "listed", "--durable")
    title, head, rule, *rows = terminal.config("list", "queue").lines
    assert title == "Objects of type 'queue'"
    assert head.split() == ["name", "durable", "autoDelete"]
    assert (head[:2], set(rule[2:])) == ("  ", {"="})
    assert ["listed", "True", "False"] in [row.split() for row in rows]


def test_list_shows_the_properties_asked_for_and_warns_of_others(terminal: Terminal) -> None:
    terminal.covey("message", "send", "deep", "hello")
    wanted = ("--show-property", "name", "--show-property", "nope", "--show-property", "msgDepth")
    said = terminal.config("list", "queue", *wanted)
    assert said.lines[0] == "Warning: No such property 'nope' for type 'queue'"
    assert said.lines[2].split() == ["name", "msgDepth"]
    assert ["deep", "1"] in [line.split() for line in said.lines]


def test_other_types_show_six_attributes_and_may_be_empty(terminal: Terminal) -> None:
    broker = terminal.config("list", "broker").lines
    assert broker[1].split() == ["name", "type", "host", "hosts", "connections", "queues"]
    assert terminal.config("list", "subscription").lines == ["Objects of type 'subscription'"]
    assert "there is no type" in terminal.config("list", "wombat").out


def test_topics_are_made_and_deleted(terminal: Terminal) -> None:
    assert terminal.config("add", "topic", "news").code == 0
    assert "exists already" in terminal.config("add", "topic", "news").out
    assert terminal.config("del", "topic", "news").code == 0


def test_no_command_gives_an_overview(terminal: Terminal) -> None:
    terminal.config("add", "queue", "counted", "--durable")
    lines = [line.split(": ") for line in terminal.config().lines if line]
    totals = {name.strip(): int(number) for name, number in lines}
    assert list(totals) == ["Total Topics", "Total Queues", "durable", "non-durable"]
    assert totals["Total Queues"] == totals["durable"] + totals["non-durable"]
    assert totals["durable"] >= 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            "--group-header=G --shared-groups --lvq-key=K",
            "not supported on last-value and priority",
        ),
        ("--group-header=G --argument qpid.priorities=5", "qpid.priorities exclude each other"),
        ("--shared-groups", "qpid.shared_msg_group needs qpid.group_header_key"),
        ("--group-strategy=best", "unknown group strategy 'best'"),
        ("--argument qpid.max_cuont=1", "did you mean qpid.max_count?"),
        ("--argument nothing", "NAME=VALUE is needed"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    terminal: Terminal, options: str, reason: str
) -> None:
    said = terminal.config("add", "queue", "impossible", *options.split())
    assert said.code == 1
    assert said.out.startswith("Failed: ")
    assert reason in said.out
    assert terminal.config("queues", "impossible").code == 1


def test_a_queue_is_declared_once(terminal: Terminal) -> None:
    assert terminal.config("add", "queue", "once").code == 0
    assert terminal.config("add", "queue", "once").out == (
        "Failed: AnswerError: queue once exists already\n"
    )


@pytest.mark.parametrize(
    "words",
    ["exchanges", "list exchange", "list binding", "bind e q", "unbind e q",
     "add exchange topic e", "del exchange e", "log",
     "reload-acl", "shutdown"],
)  # fmt: skip
def test_forms_without_a_counterpart_are_refused_with_a_reason(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert qpid_config.main(["-b", NOWHERE, *words.split()]) == 1
    assert capsys.readouterr().out.startswith("Failed: ValueError: ")


@pytest.mark.parametrize("words", ["wombat", "add queue", "add", "del queue", "list", "groups"])
def test_words_without_sense_print_the_usage_and_give_1(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert qpid_config.main(["-b", NOWHERE, *words.split()]) == 1
    assert capsys.readouterr().out.startswith("Usage:  covey-config [OPTIONS]\n")


@pytest.mark.parametrize(
    "words",
    ["queues --wombat", "add queue q --limit-policy=maybe", "add queue q --max-queue-size=big"],
)
def test_an_option_without_sense_gives_2(terminal: Terminal, words: str) -> None:
    assert terminal.config(*words.split()).code == 2


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("queues --ssl-certificate f", "--ssl-certificate: a login is a user and a password"),
        ("queues --ssl-key f", "--ssl-key: a login is a user and a password"),
        ("add queue x --start-replica u", "--start-replica: no queue is a replica"),
        ("add exchange topic x --sequence", "--sequence: Covey has queues and topics"),
        ("add exchange topic x --ive", "--ive: Covey has queues and topics"),
        ("bind x q -f file", "-f: Covey has queues and topics"),
    ],
)
def test_an_option_without_a_counterpart_gives_2_and_the_reason(
    terminal: Terminal, words: str, reason: str
) -> None:
    said = terminal.config(*words.split())
    assert (said.code, reason in said.err) == (2, True)


def test_an_option_that_does_nothing_says_why_where_no_script_reads_it(terminal: Terminal) -> None:
    said = terminal.config("add", "queue", "idle", "--file-count", "8", "--flow-stop-count=5")
    assert (said.code, said.out) == (0, "")
    assert said.err == (
        "note: --flow-stop-count does nothing here: a producer has credit; to let producers wait"
        " at a limit: covey.full_policy=block\n"
        "note: --file-count does nothing here: all queues share the store's journal\n"
    )


def test_a_mechanism_that_is_not_ours_is_refused_with_the_reason(terminal: Terminal) -> None:
    said = terminal.config("queues", "--sasl-mechanism", "GSSAPI")
    assert said.code == 2
    assert "--sasl-mechanism: the login is PLAIN: a user and a password" in said.err
    assert terminal.config("queues", "--sasl-mechanism", "DIGEST-MD5 PLAIN").code == 0


def test_nobody_there_and_a_wrong_password_give_1(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    assert qpid_config.main(["-b", NOWHERE]) == 1
    assert capsys.readouterr().out == (
        f"Failed: UnreachableError: no broker answers at {NOWHERE}; is it running there?\n"
    )
    assert terminal.config("queues", login="guest/wrong").out.startswith("Failed: DeniedError: ")
    assert "may not manage" in terminal.config("queues", login="guest/guest").out


def test_options_may_stand_anywhere(terminal: Terminal) -> None:
    assert terminal.config("add", "--durable", "queue", "--group-header", "G", "anywhere").code == 0
    assert attributes(terminal, "anywhere").startswith("--durable --group-header=G")


def test_the_group_view_and_its_commands(terminal: Terminal) -> None:
    terminal.config("add", "queue", "viewed", "--group-header=G")
    with terminal.broker.client() as client:
        client.subscribe("/queue/viewed", ack="client-individual", credit="1,0")
        terminal.covey("message", "send", "viewed", "x", "--count", "2", "--header", "G:g1")
        ack = client.frame().headers(client.version)["ack"]
        head, rule, row = terminal.config("groups", "viewed").lines
        shown = dict(zip(head.split(), row.split(), strict=False))
        assert (shown["group"], shown["messages"], shown["unsettled"]) == ("g1", "2", "1")
        assert set(rule) == {"="}
        assert terminal.config("close-group", "viewed", "g1").code == 0
        assert terminal.config("rebalance", "viewed").code == 0
        client.send("ACK", {"id": ack})
    assert "there is no queue" in terminal.config("groups", "nowhere").out
