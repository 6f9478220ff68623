"""Loading: precedence, merging, origins, and every mistake told at once with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.config.errors import ConfigError, Problem
from covey.config.load import Loaded, load
from covey.config.settings import Settings


def written(folder: Path, text: str, name: str = "covey.toml") -> Path:
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, "utf-8")
    return file


def problems_of(
    path: Path | None, environ: dict[str, str] | None = None, **arguments: object
) -> list[Problem]:
    with pytest.raises(ConfigError) as refusal:
        load(path, environ or {}, arguments)
    return refusal.value.problems


def test_nothing_given_is_the_defaults() -> None:
    loaded = load(
        None, {"PATH": "/bin", "COVEY_CONFIG": "x", "COVEY_PLAIN": "1"}, {"broker.id": None}
    )
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.warnings == []


def test_command_line_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "[broker]\nid = 'file'\nconnections-max = 5\nsubscriptions_max = 6\n",
    )
    environ = {"COVEY_BROKER__ID": "env", "COVEY_BROKER__CONNECTIONS_MAX": "7"}
    loaded = load(file, environ, {"broker.id": "line"})
    broker = loaded.settings.broker
    assert (broker.id, broker.connections_max, broker.subscriptions_max) == ("line", 7, 6)
    assert loaded.origins["broker.id"] == "argument"
    assert loaded.origins["broker.connections_max"] == "env COVEY_BROKER__CONNECTIONS_MAX"
    assert loaded.origins["broker.subscriptions_max"] == f"{file}:4"
    assert loaded.origins["broker.auto_create"] == "default"


def test_files_in_conf_d_append_entries_and_merge_tables_in_order(tmp_path: Path) -> None:
    main = written(tmp_path, "[broker]\nid = 'main'\nauto_create = false\n[[queue]]\nid = 'a'\n")
    written(tmp_path, "[broker]\nid = 'first'\n[[queue]]\nid = 'b'\n", "conf.d/10.toml")
    last = written(
        tmp_path,
        "[[queue]]\n\nid = 'c'\n[queue.groups]\nstrategy = 'lru'\n[broker]\nid = 'last'\n",
        "conf.d/20.toml",
    )
    written(tmp_path, "nonsense", "conf.d/ignored.txt")
    loaded = load(main, {}, {})
    assert [queue.id for queue in loaded.settings.queues] == ["a", "b", "c"]
    assert (loaded.settings.broker.id, loaded.settings.broker.auto_create) == ("last", False)
    assert loaded.origins["queue[2].groups.strategy"] == f"{last}:5"
    assert loaded.origins["queue[2].groups.header"] == "default"
    assert loaded.origins["broker.auto_create"] == f"{main}:3"


def test_connectors_of_a_file_replace_the_default_ones(tmp_path: Path) -> None:
    text = "[[connector]]\nid='t'\nprotocol='stomp'\nbind='localhost:1'\n"
    loaded = load(written(tmp_path, text), {}, {})
    assert [connector.id for connector in loaded.settings.connectors] == ["t"]


def test_a_file_with_queues_only_keeps_the_default_connectors(tmp_path: Path) -> None:
    loaded = load(written(tmp_path, "[[queue]]\nid = 'a'\n"), {}, {})
    assert loaded.settings.connectors == Settings().connectors


def test_the_tables_of_the_configuration_issue_load(tmp_path: Path) -> None:
    text = """
[[connector]]
id = "stomp"
protocol = "stomp"
bind = "127.0.0.1:61613"
[connector.stomp]
max_header_length = "10k"
add_user_header = "user"
[[queue]]
id = "orders.**"
[queue.groups]
strategy = "shared"
header = "GROUP_KEY"
default_group = "EMPTY-GROUP"
"""
    file = written(tmp_path, text)
    loaded = load(file, {}, {})
    assert loaded.settings.connectors[0].stomp.max_header_length == 10240
    assert loaded.settings.queues[0].groups.default_group == "EMPTY-GROUP"
    assert loaded.origins["connector[0].stomp.add_user_header[0].header"] == f"{file}:8"


def test_every_mistake_is_told_at_once_with_file_line_key_and_nearest_name(
    tmp_path: Path,
) -> None:
    main = written(
        tmp_path,
        "[broker]\nconection-max = 5\n[[queue]]\nid = 'a'\nquota = '10q'\n"
        "full_policy = 'drop haed'\n[queue.groups]\nstrategy = 'shred'\nbucketcount = 3\n",
    )
    other = written(tmp_path, "\n[[queue]]\nid = 'b'\nnack_limit = 3\n", "conf.d/x.toml")
    found = {problem.key: problem for problem in problems_of(main, {"COVEY_STORE__KIDN": "x"})}
    assert {key: (one.file, one.line, one.hint) for key, one in found.items()} == {
        "broker.conection-max": (str(main), 2, "connections_max"),
        "queue[0].quota": (str(main), 5, ""),
        "queue[0].full_policy": (str(main), 6, "drop head"),
        "queue[0].groups.strategy": (str(main), 8, "shared"),
        "queue[0].groups.bucketcount": (str(main), 9, "bucket_count"),
        "queue[0].nack_limit": (str(other), 4, "nak_limit"),
        "store.kidn": ("env COVEY_STORE__KIDN", 0, "kind"),
    }
    assert str(found["broker.conection-max"]) == (
        f"{main}:2: broker.conection-max: unknown key; did you mean connections_max?"
    )
    assert "10q" in found["queue[0].quota"].text


def test_a_refused_combination_points_at_its_queue(tmp_path: Path) -> None:
    file = written(tmp_path, "[[queue]]\nid='a'\n[[queue]]\nid='b'\ngroups.strategy='shared'\n")
    (problem,) = problems_of(file)
    assert (problem.line, problem.key) == (3, "queue[1]")
    assert "queue b" in problem.text


def test_a_repeated_name_points_at_the_second_entry(tmp_path: Path) -> None:
    file = written(tmp_path, "[[queue]]\nid='a'\n\n[[queue]]\nid='a'\n")
    (problem,) = problems_of(file)
    assert (problem.line, problem.key) == (5, "queue[1].id")


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("[queue]\nid='a'\n", 1, "is a list: write [[queue]]"),
        ("queue = 5\n", 1, "is a list: write [[queue]]"),
        ("user = [5]\n", 1, "is a table: write [[user]]"),
        ("\n[[broker]]\nid='a'\n", 2, "is a table: write [broker]"),
        ("[[queue]]\nid='a'\ngroups=5\n", 3, "is a table: write [queue.groups]"),
        ("[[virtual_host]]\nid='a'\nhost_names=5\n", 3, "a list is needed"),
        ("virtual_host=[]\n", 1, "one entry at least is needed"),
    ],
)
def test_what_has_the_wrong_shape_is_told_how_to_write_it(
    tmp_path: Path, text: str, line: int, cause: str
) -> None:
    (problem,) = problems_of(written(tmp_path, text))
    assert (problem.line, problem.text) == (line, cause)


def test_the_mark_that_some_editors_put_before_a_text_is_passed_over(tmp_path: Path) -> None:
    file = written(tmp_path, "\ufeff[broker]\nid = 'marked'\n")
    loaded = load(file, {}, {})
    assert (loaded.settings.broker.id, loaded.origins["broker.id"]) == ("marked", f"{file}:2")


def test_one_key_in_two_spellings_is_refused(tmp_path: Path) -> None:
    (problem,) = problems_of(written(tmp_path, "[broker]\nauto-create=true\nauto_create=false\n"))
    assert (problem.line, problem.key) == (3, "broker.auto_create")


def test_a_missing_key_points_at_its_table(tmp_path: Path) -> None:
    (problem,) = problems_of(written(tmp_path, "[[user]]\nname='a'\n"))
    assert (problem.line, problem.key, problem.text) == (1, "user[0].password", "is needed")


@pytest.mark.parametrize(
    ("data", "line", "text"),
    [(b"[broker]\nid = \n", 2, "not TOML"), (b"id = '\xff'", 0, "not UTF-8")],
)
def test_a_broken_file_is_told_beside_other_mistakes(
    tmp_path: Path, data: bytes, line: int, text: str
) -> None:
    main = written(tmp_path, "[broker]\nidd = 1\n")
    broken = written(tmp_path, "", "conf.d/broken.toml")
    broken.write_bytes(data)
    found = {problem.file: problem for problem in problems_of(main)}
    assert set(found) == {str(main), str(broken)}
    assert found[str(broken)].line == line
    assert text in found[str(broken)].text


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path / "none.toml")
    assert "cannot be read" in problem.text


def test_a_wrong_password_value_is_not_repeated(tmp_path: Path) -> None:
    file = written(tmp_path, "[[user]]\nname='a'\npassword=4242\n")
    assert all("4242" not in str(problem) for problem in problems_of(file))


def test_a_password_may_come_from_a_file_named_by_the_environment(tmp_path: Path) -> None:
    secret = written(tmp_path, "s3cret\n", "secret")
    loaded = load(None, {"COVEY_USER__ADMIN__PASSWORD_FILE": str(secret)}, {})
    assert loaded.settings.users[0].password.get_secret_value() == "s3cret"
    assert loaded.origins["user[0].password"] == "env COVEY_USER__ADMIN__PASSWORD_FILE"
    (problem,) = problems_of(None, {"COVEY_USER__ADMIN__PASSWORD_FILE": str(tmp_path / "no")})
    assert "cannot read" in problem.text


def test_the_default_password_on_an_open_port_is_warned_about() -> None:
    names = {"virtual_host.default.host_names": ["broker.example"]}
    open_port = {"stomp.bind": "0.0.0.0:61613", **names}
    (warning,) = load(None, {}, open_port).warnings
    assert "connector stomp" in warning
    assert load(None, {}, {**open_port, "user.admin.password": "other"}).warnings == []


def test_an_open_port_that_no_client_can_call_by_name_is_warned_about() -> None:
    given = {"stomp.bind": "0.0.0.0:61613", "user.admin.password": "other"}
    (warning,) = load(None, {}, given).warnings
    assert "anything but localhost, 127.0.0.1, ::1 is refused" in warning
    names = {"COVEY_VIRTUAL_HOST__DEFAULT__HOST_NAMES": "localhost, broker.example"}
    assert load(None, names, given).warnings == []


def test_a_queue_behind_a_catch_all_is_warned_about(tmp_path: Path) -> None:
    loaded: Loaded = load(written(tmp_path, "[[queue]]\nid='**'\n[[queue]]\nid='a'\n"), {}, {})
    assert loaded.warnings == ["queue a is never used: an earlier entry ** matches first"]
