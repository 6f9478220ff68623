"""What a cluster costs and how fast it fails over: the figures of docs/cluster.md.

    scripts/bench cluster [stores|failover|forward|workers|recovery ..] [--rounds N] [--messages N]

Brokers are processes of their own on this machine, as the end-to-end tests start them, and so is a
PostgreSQL with and without a synchronous standby. What is compared is run in turns. A figure is the
median of all rounds, with the smallest and the largest.

The load is bytes that were made before: a producer writes all its frames and waits for the last
receipt, a consumer reads until it sees the last body. So the generator costs little.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from tests.core.storage.postgres.server import Pair, Postgres, Server
from tests.e2e.cluster.nodes import Node, ending, owners, wait_until
from tests.e2e.support import BrokerProcess, Client, running_broker

LEASE_S: Final = 2.0
BODY: Final = b"x" * 1024
SINGLE: Final = 200  # messages that are sent one at a time, each after the receipt of the last
RECEIPT: Final = b"receipt-id:last"
LAST: Final = b"the last one"
SPACES: Final = ("default", "one")
NAMES: Final = ("default.example", "one.example")
CONFIG: Final = "[store]\ndisk_free_min = 0\ndisk_free_percent = 0\n"

Figures = dict[str, list[float]]


def frames(count: int, *, is_kept: bool) -> bytes:
    """Return the frames of a producer; the last one asks for a receipt."""
    head = b"SEND\ndestination:/queue/q\n" + (b"persistent:true\n" if is_kept else b"")
    made = [head + b"message_group:g%d\n\n%s\0" % (at % 20, BODY) for at in range(count - 1)]
    return b"".join([*made, head + b"receipt:last\n\n" + LAST + b"\0"])


def until(stream: socket.socket, word: bytes) -> None:
    """Read until a word comes."""
    rest = b""
    while word not in rest:
        data = stream.recv(1 << 18)
        assert data, "the broker closed the connection"
        rest = rest[-len(word) :] + data


def together(calls: list[Callable[[], None]]) -> float:
    """Do these at once; return how many seconds that took."""
    threads = [threading.Thread(target=call) for call in calls]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def kept_rate(broker: BrokerProcess, messages: int, host: str) -> float:
    """Return how many persistent messages a second four producers get confirmed."""
    given = frames(messages // 4, is_kept=True)
    with ExitStack() as stack:
        clients = [stack.enter_context(broker.client(host=host)) for _ in range(4)]

        def send(client: Client) -> Callable[[], None]:
            def run() -> None:
                client.socket.sendall(given)
                until(client.socket, RECEIPT)

            return run

        took_s = together([send(client) for client in clients])
    drain(broker, host, 4)
    return messages // 4 * 4 / took_s


def single_rate(broker: BrokerProcess, host: str) -> float:
    """Return how many persistent messages a second one producer gets confirmed, one by one."""
    with broker.client(host=host) as client:
        began = time.perf_counter()
        for _ in range(SINGLE):
            client.socket.sendall(frames(1, is_kept=True))
            until(client.socket, RECEIPT)
        took_s = time.perf_counter() - began
    drain(broker, host, SINGLE)
    return SINGLE / took_s


def passed_rate(brokers: list[BrokerProcess], messages: int, hosts: list[str]) -> float:
    """Return how many messages a second go through, not persistent, a queue for each broker."""
    given = frames(messages, is_kept=False)
    calls: list[Callable[[], None]] = []
    with ExitStack() as stack:
        for broker, host in zip(brokers, hosts, strict=True):
            sender = stack.enter_context(broker.client(host=host))
            reader = stack.enter_context(broker.client(host=host))
            reader.subscribe("/queue/q")
            calls.append(lambda client=sender: client.socket.sendall(given))  # type: ignore[misc]
            calls.append(lambda client=reader: until(client.socket, LAST))  # type: ignore[misc]
        return messages * len(brokers) / together(calls)


def drain(broker: BrokerProcess, host: str, lasts: int) -> None:
    """Take what a measurement has left: so many last messages are in it."""
    with broker.client(host=host) as client:
        client.subscribe("/queue/q")
        while lasts:
            lasts -= client.frame().body == LAST


def stores(folder: Path, rounds: int, messages: int) -> Figures:
    """Compare the stores: SQLite, PostgreSQL, PostgreSQL with a synchronous standby."""
    found: Figures = {}
    nodes: list[Node] = []
    with ExitStack() as stack:
        brokers = {"SQLite": stack.enter_context(running_broker(folder / "s", config=CONFIG))}
        stack.enter_context(ending(nodes))
        for name, server in (("PostgreSQL", Server()), ("with a standby", Pair())):
            stack.callback(server.remove)
            nodes.append(Node(folder, Postgres(server), f"n{len(nodes)}", lease_s=10.0))
            brokers[name] = nodes[-1].served()
        for _ in range(rounds):
            for name, broker in brokers.items():
                record(found, f"{name}: four producers, messages/s",
                       kept_rate(broker, messages, "127.0.0.1"))  # fmt: skip
                record(found, f"{name}: one by one, messages/s", single_rate(broker, "127.0.0.1"))
    compare(found, "SQLite", ("PostgreSQL", "with a standby"))
    return found


def failover(folder: Path, rounds: int, messages: int) -> Figures:
    """Measure from the end of the owner to the first confirmed message of the next one."""
    found: Figures = {}
    server = Server()
    nodes: list[Node] = []
    with ExitStack() as stack:
        stack.callback(server.remove)
        stack.enter_context(ending(nodes))
        postgres = Postgres(server)
        nodes += [Node(folder, postgres, name, lease_s=LEASE_S) for name in ("a", "b")]
        brokers = [node.served() for node in nodes]
        for at in range(2 * rounds):
            number = signal.SIGKILL if at % 2 else signal.SIGTERM
            wait_until(lambda: owners(brokers[0])["default"] in ("a", "b"), *nodes)
            wait_until(lambda: owners(brokers[0]) == owners(brokers[1]), *nodes)
            owner = "ab".index(str(owners(brokers[0])["default"]))
            nodes[owner].process.send_signal(number)
            began = time.perf_counter()
            while not is_confirmed(brokers[1 - owner]):
                pass
            record(found, f"{number.name}, s", time.perf_counter() - began)
            nodes[owner].process.wait()
            nodes[owner].start()
            brokers[owner] = nodes[owner].served()
    return found


def is_confirmed(broker: BrokerProcess) -> bool:
    """Try to have a message confirmed."""
    with suppress(AssertionError, EOFError, OSError), broker.client() as client:
        client.socket.sendall(frames(1, is_kept=True))
        until(client.socket, RECEIPT)
        return True
    return False


def forward(folder: Path, rounds: int, messages: int) -> Figures:
    """Compare a client of the owner with one that the other broker passes on."""
    found: Figures = {}
    server = Server()
    nodes: list[Node] = []
    with ExitStack() as stack:
        stack.callback(server.remove)
        stack.enter_context(ending(nodes))
        postgres = Postgres(server)
        nodes += [Node(folder, postgres, name, lease_s=10.0) for name in ("a", "b")]
        brokers = [node.served() for node in nodes]
        wait_until(lambda: owners(brokers[1])["default"] in ("a", "b"), *nodes)
        owner = "ab".index(str(owners(brokers[1])["default"]))
        ways = {"direct": brokers[owner], "passed on": brokers[1 - owner]}
        for _ in range(rounds):
            for name, broker in ways.items():
                before = [cpu_s(node) for node in nodes]
                rate = passed_rate([broker], messages, ["127.0.0.1"])
                used = [cpu_s(node) - then for node, then in zip(nodes, before, strict=True)]
                record(found, f"{name}: in and out, messages/s", rate)
                record(found, f"{name}: owner's processor, us a message",
                       1e6 * used[owner] / messages)  # fmt: skip
                if name == "passed on":
                    record(found, f"{name}: other broker's processor, us a message",
                           1e6 * used[1 - owner] / messages)  # fmt: skip
                record(found, f"{name}: one by one, messages/s", single_rate(broker, "127.0.0.1"))
    compare(found, "direct", ("passed on",))
    return found


def cpu_s(node: Node) -> float:
    """Return how much processor time a broker has had."""
    words = Path(f"/proc/{node.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def workers(folder: Path, rounds: int, messages: int) -> Figures:
    """Compare one worker with two, for two virtual hosts that are equally busy."""
    found: Figures = {}
    hosts = "".join(
        f'[[virtual_host]]\nid = "{space}"\nhost_names = ["{name}"'
        + (', "127.0.0.1"]\n' if space == "default" else "]\n")
        for space, name in zip(SPACES, NAMES, strict=True)
    )
    with ExitStack() as stack:
        brokers = {}
        for count, name in ((1, "1 worker"), (2, "2 workers")):
            config = f"[broker]\nworkers = {count}\n{CONFIG}{hosts}"
            started = running_broker(folder / f"w{count}", config=config)
            brokers[name] = stack.enter_context(started)
        for _ in range(rounds):
            for name, broker in brokers.items():
                rate = passed_rate([broker, broker], messages, list(NAMES))
                record(found, f"{name}: in and out, messages/s", rate)
                rates = [0.0, 0.0]

                def keep(at: int, to: BrokerProcess = broker, into: list[float] = rates) -> None:
                    into[at] = kept_rate(to, messages, NAMES[at])

                together([lambda: keep(0), lambda: keep(1)])
                record(found, f"{name}: persistent, messages/s", sum(rates))
    compare(found, "1 worker", ("2 workers",))
    return found


def recovery(folder: Path, rounds: int, messages: int) -> Figures:
    """Measure a take-over of a million messages, and how long another virtual host waits for it."""
    found: Figures = {}
    server = Server()
    with ExitStack() as stack:
        stack.callback(server.remove)
        for at in range(rounds):
            place = folder / str(at)
            place.mkdir()
            nodes: list[Node] = []
            with ending(nodes):
                postgres = Postgres(server)
                nodes += [Node(place, postgres, n, spaces=SPACES, lease_s=LEASE_S) for n in "ab"]
                take_over(found, postgres, nodes, 1_000_000)
    return found


def take_over(found: Figures, postgres: Postgres, nodes: list[Node], backlog: int) -> None:
    """Kill the owner of a large virtual host while another broker serves a client."""
    brokers = [node.served() for node in nodes]
    wait_until(lambda: sorted(map(str, owners(brokers[0]).values())) == ["a", "b"], *nodes)
    dying = "ab".index(str(owners(brokers[0])["one"]))
    with brokers[dying].client(host=NAMES[1]) as client:
        client.socket.sendall(frames(1, is_kept=True))
        until(client.socket, RECEIPT)
    with postgres.connect() as connection:
        connection.execute(
            "insert into covey_messages select q.space, (q.number::bigint << 42) + n,"
            " convert_to('g' || n %% 100000, 'UTF8'), 0, 1024, 0, 4, 0"
            " from covey_queues q join covey_spaces s on s.number = q.space,"
            " generate_series(1000000, 999999 + %s) n where s.id = 'one' and q.name = 'q'",
            (backlog,),
        )
    taker, broker = nodes[1 - dying], brokers[1 - dying]
    longest_s = 0.0
    with broker.client(host=NAMES[0]) as client:
        nodes[dying].process.kill()
        used_s = cpu_s(taker)
        killed = latest = time.perf_counter()
        while not (lines := [line for line in taker.log.splitlines() if is_taking(line)]):
            client.socket.sendall(frames(1, is_kept=True))
            until(client.socket, RECEIPT)
            longest_s = max(longest_s, time.perf_counter() - latest)
            latest = time.perf_counter()
            assert latest < killed + 300, taker.log
    record(found, "from the kill until it is served, s", time.perf_counter() - killed)
    record(found, "of that the reading, s", json.loads(lines[0])["took_s"])
    record(found, "processor time of the broker, s", cpu_s(taker) - used_s)
    record(found, "longest wait of another virtual host's client, s", longest_s)
    record(found, "resident, MiB", broker.rss_bytes() / 2**20)


def is_taking(line: str) -> bool:
    """Return True for the line that tells that the large virtual host is served."""
    return '"space_taken"' in line and '"host": "one"' in line and '"reason": "free"' in line


def record(found: Figures, name: str, value: float) -> None:
    """Keep a figure, and show it."""
    found.setdefault(name, []).append(value)
    sys.stderr.write(f"{name}: {value:.4g}\n")


def compare(found: Figures, base: str, others: tuple[str, ...]) -> None:
    """Add the ratios of paired rounds."""
    for name in [each for each in found if each.startswith(f"{base}: ") and "/s" in each]:
        for other in others:
            pairs = zip(found[name], found[name.replace(base, other, 1)], strict=True)
            found[f"ratio of {name.replace(base, other, 1)}"] = [new / old for old, new in pairs]


MEASUREMENTS: Final = {
    "stores": stores,
    "failover": failover,
    "forward": forward,
    "workers": workers,
    "recovery": recovery,
}


def main(arguments: list[str]) -> None:
    """Measure what is asked for, and print medians with the smallest and the largest."""
    parser = argparse.ArgumentParser(prog="scripts/bench cluster", description=__doc__)
    parser.add_argument("what", nargs="*", help=f"of {', '.join(MEASUREMENTS)}; default all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--messages", type=int, default=10_000, help="of each measurement")
    given = parser.parse_args(arguments)
    for name in given.what or MEASUREMENTS:
        with tempfile.TemporaryDirectory(prefix="covey-cluster-") as folder:
            found = MEASUREMENTS[name](Path(folder), given.rounds, given.messages)
        for what, values in found.items():
            median = statistics.median(values)
            sys.stdout.write(
                f"{name}: {what}: {median:.3g} ({min(values):.3g} to {max(values):.3g})\n"
            )
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
