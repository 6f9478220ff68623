"""A broker as an operator runs it: TLS, throttled logins, a reload, and no secret anywhere.

The canaries are texts that must never leave the broker except to whom they belong: a password, a
wrong password, a body. Everything it printed, logged and answered is searched for them.
"""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stomp
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

from tests.e2e.support import HOST, TIMEOUT_S, BrokerProcess, Client, running_broker
from tests.protocols.test_tls_context import Authority

CANARY = "canary-7f3a-password"
WRONG = "canary-7f3a-wrong"
BODY = "canary-7f3a-body"
CANARIES = (CANARY, WRONG, BODY)

USERS = f"""
[[user]]
name = "ann"
password = "{CANARY}"
[[user]]
name = "root"
password = "{CANARY}"
roles = ["admin"]
"""
PERMISSIONS = """
[[permission]]
who = ["ann"]
may = ["connect", "create", "send", "consume"]
on = "queue:open.**"
"""


def config(authority: Authority, extra: str = "") -> str:
    tls = f"""
[connector.tls]
certificate = "{authority.certificate}"
key = "{authority.key}"
client_ca = "{authority.ca_file}"
client_auth = "optional"
"""
    return f"""
[broker]
login_failures_max = 3
login_failed_wait_s = 0.2
{extra}
[[connector]]
id = "stomp"
protocol = "stomp"
bind = "{HOST}:0"
[[connector]]
id = "stomps"
protocol = "stomp"
bind = "{HOST}:0"
{tls}
[[connector]]
id = "amqps"
protocol = "amqp"
bind = "{HOST}:0"
{tls}
[connector.amqp]
sasl_mechanisms = ["EXTERNAL", "PLAIN"]
{USERS}{PERMISSIONS}"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def broker(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("broker")
    arguments = ("--verbose",)
    with running_broker(folder, config=config(authority), arguments=arguments) as running:
        yield running


def ports(broker: BrokerProcess, protocol: str) -> list[int]:
    lines = [line for line in broker.welcome.splitlines() if line.split()[:1] == [protocol]]
    return [int(line.rpartition(":")[2]) for line in lines]


def log_in(broker: BrokerProcess, login: str = "ann", passcode: str = CANARY) -> Client:
    client = Client(ports(broker, "stomp")[0])
    client.log_in(login=login, passcode=passcode)
    return client


def events(broker: BrokerProcess, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in broker.log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == name]


def test_the_log_says_who_logged_in_and_from_where(broker: BrokerProcess) -> None:
    with log_in(broker) as client:
        port = client.socket.getsockname()[1]
        (line,) = [one for one in events(broker, "logged_in") if one["remote"].endswith(f":{port}")]
    assert (line["user"], line["protocol"], line["host"]) == ("ann", "stomp 1.2", "default")
    assert line["level"] == "info" and line["connection"] > 0


def test_stomp_over_tls_with_stomp_py(broker: BrokerProcess, authority: Authority) -> None:
    got = threading.Event()

    class Listener(stomp.ConnectionListener):  # type: ignore[misc] # the library has no types
        def on_message(self, frame: Any) -> None:
            if frame.body == BODY:
                got.set()

    connection = stomp.Connection12([(HOST, ports(broker, "stomp")[1])])
    connection.set_ssl([(HOST, ports(broker, "stomp")[1])], ca_certs=str(authority.ca_file))
    connection.set_listener("", Listener())
    connection.connect("ann", CANARY, wait=True)
    connection.subscribe("/queue/open.tls", id="1")
    connection.send("/queue/open.tls", BODY)
    assert got.wait(TIMEOUT_S)
    connection.disconnect()


def domain(authority: Authority, name: str | None = None) -> SSLDomain:
    made = SSLDomain(SSLDomain.MODE_CLIENT)
    made.set_trusted_ca_db(str(authority.ca_file))
    made.set_peer_authentication(SSLDomain.VERIFY_PEER)
    if name is not None:
        issued = authority.ca.issue_cert(f"{name}@test", common_name=name)
        certificate, key = authority.folder / f"{name}.pem", authority.folder / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)
        made.set_credentials(str(certificate), str(key), None)
    return made


def amqp(broker: BrokerProcess, security: SSLDomain, **options: Any) -> BlockingConnection:
    (port,) = ports(broker, "amqp")
    return BlockingConnection(
        f"amqps://{HOST}:{port}", ssl_domain=security, timeout=TIMEOUT_S, **options
    )


def test_amqp_over_tls_logs_in_by_certificate(broker: BrokerProcess, authority: Authority) -> None:
    connection = amqp(broker, domain(authority, "ann"), allowed_mechs="EXTERNAL")
    receiver = connection.create_receiver("open.external")
    connection.create_sender("open.external").send(Message(body=BODY))
    assert receiver.receive(TIMEOUT_S).body == BODY
    receiver.accept()
    connection.close()


@pytest.mark.parametrize("name", [None, "nobody-here"])
def test_external_needs_the_certificate_of_a_user(
    broker: BrokerProcess, authority: Authority, name: str | None
) -> None:
    with pytest.raises(ConnectionException):
        amqp(broker, domain(authority, name), allowed_mechs="EXTERNAL", reconnect=False)


def test_a_denial_is_answered_and_logged_with_user_verb_destination_and_remote(
    broker: BrokerProcess,
) -> None:
    with log_in(broker) as client:
        remote = "{}:{}".format(*client.socket.getsockname())
        client.send("SEND", {"destination": "/queue/closed"}, BODY.encode())
        answer = client.frame()
        assert b"user ann may not send queue:closed" in answer.block + answer.body
    (line,) = [line for line in events(broker, "denied") if line["destination"] == "queue:closed"]
    assert (line["user"], line["verb"], line["remote"]) == ("ann", "send", remote)


def test_a_failed_login_waits_others_do_not_and_a_storm_of_them_is_shut_out(
    broker: BrokerProcess,
) -> None:
    port = ports(broker, "stomp")[0]
    answers = []
    with log_in(broker, "root") as busy:
        for _ in range(5):
            with Client(port) as guesser:
                started = time.monotonic()
                guesser.send("CONNECT", {"login": "unheard-of", "passcode": WRONG})
                busy.sync()  # while the answer waits
                answers.append(guesser.until_closed())
                assert time.monotonic() - started >= 0.2
    assert all(b"wrong user or password" in answer for answer in answers[:2])
    assert b"too many failed logins" in answers[-1]
    log_in(broker, "root").socket.close()  # has been here before


def test_sighup_changes_all_or_nothing(tmp_path: Path, authority: Authority) -> None:
    with running_broker(tmp_path, config=config(authority)) as broker:
        file = tmp_path / "covey.toml"
        with log_in(broker) as ann, log_in(broker, "root") as root:
            file.write_text(config(authority, "no_such_key = 1\nqueue_max = true"))
            broker.process.send_signal(signal.SIGHUP)
            refusal = wait_for(broker, "reload_refused")
            assert len(refusal["problems"]) == 2
            ann.send("SEND", {"destination": "/queue/open.x"}, b"still here")
            ann.sync()
            text = config(authority).replace("queue:open", "queue:other")
            file.write_text(text.replace("login_failures_max = 3", "login_failures_max = 4"))
            broker.process.send_signal(signal.SIGHUP)
            reloaded = wait_for(broker, "reloaded")
            assert "broker.login_failures_max: 3 -> 4" in reloaded["changes"]
            ann.send("SEND", {"destination": "/queue/open.x"}, b"no more")
            assert ann.frame().command == "ERROR"
            root.sync()
        assert "Traceback" not in broker.log
        assert broker.signal(signal.SIGTERM) == 0


def wait_for(broker: BrokerProcess, event: str) -> dict[str, Any]:
    """Return the first line of an event once it is logged; the test's time limit bounds it."""
    while not events(broker, event):
        time.sleep(0.01)
    return events(broker, event)[0]


def test_no_secret_is_in_any_log_or_in_any_error(
    broker: BrokerProcess, authority: Authority
) -> None:
    port = ports(broker, "stomp")[0]
    heard = [broker.welcome.encode()]
    frames = (
        f"CONNECT\nlogin:ann\npasscode:{WRONG}\n\n\0",
        f"CONNECT\nlogin:{WRONG}\npasscode:{WRONG}\n\n\0",
        f"CONNECT\nlogin:ann\npasscode:{WRONG}\nbad header\n\n\0",
        f"CONNECT\nlogin:ann\npasscode:{WRONG}\\q\n\n\0",
        f"CONNECT\naccept-version:9\nlogin:ann\npasscode:{WRONG}\n\n\0",
        f"CONNECT\nlogin:ann\npasscode:{CANARY}\n\n\0SEND\n\n{BODY}\0",
        f"CONNECT\nlogin:ann\npasscode:{CANARY}\n\n\0"
        f"SEND\ndestination:/queue/closed\npriority:x\n\n{BODY}\0",
    )
    for text in frames:
        with Client(port) as client:
            client.socket.sendall(text.encode())
            client.socket.shutdown(1)
            heard.append(client.until_closed())
    for security, options in (
        (domain(authority), {"user": "ann", "password": WRONG}),
        (domain(authority), {"user": "ann", "password": WRONG, "virtual_host": "no-such-host"}),
    ):
        with pytest.raises(ConnectionException) as failure:
            amqp(broker, security, allowed_mechs="PLAIN", reconnect=False, **options)
        heard.append(str(failure.value).encode())
    for text in (broker.log, b"".join(heard).decode(errors="replace")):
        assert len(text) > 100
        for canary in CANARIES:
            assert canary not in text


def test_no_secret_is_in_the_refusal_of_a_configuration(tmp_path: Path) -> None:
    file = tmp_path / "covey.toml"
    broken = (
        f'[[user]]\nname = "ann"\npassword = ["{CANARY}"]\n',
        f'[[user]]\nname = "ann"\npasword = "{CANARY}"\n',
        f'[[user]]\nname = "ann"\npassword = "SCRAM-SHA-256${CANARY}"\n',
        f'[[user]]\nname = "ann"\npassword = "{CANARY}"\nroles = 3\n',
    )
    for text in broken:
        file.write_text(text + "[store]\nkind = 'memory'\n")
        command = [sys.executable, "-m", "covey", "serve", "--config", str(file)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert ended.returncode in (1, 2)
        assert ended.stderr
        assert CANARY not in ended.stdout + ended.stderr


def test_a_tls_port_tells_a_client_that_trusts_another_authority_nothing(
    broker: BrokerProcess,
) -> None:
    context = ssl.create_default_context()
    with Client(ports(broker, "stomp")[1]) as client:
        with pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(client.socket, server_hostname="localhost")


def test_no_other_user_can_read_the_data_whoever_made_the_directory(tmp_path: Path) -> None:
    data, events = tmp_path / "data", tmp_path / "events"
    for directory in (data, events):
        directory.mkdir()
        directory.chmod(0o755)
    with (
        running_broker(tmp_path, arguments=("--event-log", str(events))) as broker,
        broker.client() as client,
    ):
        client.send("SEND", {"destination": "/queue/q", "persistent": "true"}, b"private")
        client.sync()
        assert broker.signal(signal.SIGTERM) == 0
        assert "data_is_open" not in broker.log
    store = data / "default"
    kept = [*data.iterdir(), *store.iterdir(), *events.iterdir()]
    assert {"covey.db", "lock"} < {path.name for path in kept}
    assert [path for path in (data, events) if path.stat().st_mode & 0o777 != 0o700] == []
    assert [path for path in kept if path.stat().st_mode & 0o077] == []


def test_open_files_that_are_allowed_are_told(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data").chmod(0o777)
    with running_broker(tmp_path, config="[store]\nallow_open_files = true\n") as broker:
        (line,) = events(broker, "data_is_open")
    assert "everybody may write" in line["places"][0]
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o777
