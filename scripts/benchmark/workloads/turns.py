"""Turns: how long one client has to wait while another asks for something big.

One client sends a message with a receipt every 5 ms, from a process of its own. Another client does
big operations, one after the other: subscriptions to very many queues, purges, lists, a reload. The
figure of each is the longest time that the first client waited for a receipt meanwhile. The note
says how long the operation took, and how many processes wanted a processor (the load): above the
number of processors, the wait is partly theirs. At full size there are 50,000 queues, 100,000
retained messages and a backlog of 1,000,000. `--scale` takes a part of that, and `--part` some of
the operations. The last line of each part is the broker's own word for its longest garbage
collection.
"""

from __future__ import annotations

import base64
import http.client
import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Final

from scripts.benchmark.contender import Covey
from scripts.benchmark.process import Process, free_port
from scripts.benchmark.workloads.floods import FLOODS, pour
from scripts.benchmark.workloads.workloads import TURN_PARTS as PARTS

from covey.bench.result import Result
from covey.bench.wire.link import IncompleteError, Job
from covey.bench.wire.stomp import StompLink

QUEUES: Final = 50_000
TOPICS: Final = 100_000
MESSAGES: Final = 1_000_000
UNSETTLED: Final = 90_000
OPERATIONS: Final = 100_000
PING_EVERY_S: Final = 0.005
UNIT: Final = "ms"
PLACES: Final = 1000  # of a composite destination
LARGE: Final = 95_000_000  # bytes of a message
FLOOD_S: Final = 3.0
WATCHED_S: Final = 5.0
LISTENERS: Final = 20_000  # of one topic
LOGIN: Final = base64.b64encode(b"admin:password").decode()
DURABLY: Final = b"persistent:true\n"
LETTERS: Final = [b"%c" % code for code in b"abcdefghijklmnopqrstuvwxyz0123456789"]
LIMITS: Final = {
    "COVEY_BROKER__TX_OPERATIONS_MAX": "200000",
    "COVEY_BROKER__TX_BYTES_MAX": "1G",
    "COVEY_BROKER__COMPOSITE_PARTS_MAX": "1000",
    "COVEY_BROKER__SUBSCRIPTIONS_MAX": "100000",
}
Say = Callable[[str], None]


def measure(builds: Sequence[Covey], scale: float, parts: Sequence[str], say: Say) -> list[Result]:
    """Measure each build on a process of its own; no parts: all of them."""
    results: list[Result] = []
    for build in builds:
        port = free_port()
        options = (*build.options, "--http", f"127.0.0.1:{port}")
        process = Covey(build.name, build.package, options, {**build.settings, **LIMITS}).start()
        try:
            results += Table(process, port, scale, build.name, say).run(parts or PARTS)
        except (OSError, IncompleteError) as error:
            results.append(Result("turns", build.name, UNIT, failure=str(error)))
            say(f"turns {build.name} failed: {error}")
        finally:
            process.stop()
    return results


class Table:
    """Does the big operations, one after the other."""

    def __init__(self, process: Process, http: int, scale: float, name: str, say: Say) -> None:
        self.process = process
        self.http = http
        self.scale = scale
        self.name = name
        self.say = say
        self.results: list[Result] = []
        self.job = Job(port=process.port, destination="", count=0, size=16)

    def run(self, parts: Sequence[str]) -> list[Result]:
        """Do the operations of these parts; return the longest wait during each."""
        does = {
            "backlog": self._backlog,
            "aside": self._aside,
            "unsettled": self._unsettled,
            "transactions": self._transactions,
            "queues": self._queues,
            "retained": self._retained,
            "listeners": self._listeners,
            "large": self._large,
            "floods": self._floods,
        }
        for part in parts:
            does[part]()
            self._tell_collection(part)
        return self.results

    def _tell_collection(self, part: str) -> None:
        """Ask the broker for its longest garbage collection so far."""
        (line,) = [
            line
            for line in self._http("GET", "/metrics").decode().splitlines()
            if line.startswith("covey_collection_longest_seconds")
        ]
        longest_ms = float(line.split()[-1]) * 1000
        name = f"turns: longest garbage collection, after {part}"
        self.results.append(Result(name, self.name, UNIT, [longest_ms]))
        self.say(f"{name:<52} {self.name:<16} {longest_ms:20.1f} ms")

    def _count(self, full: int) -> int:
        return max(100, int(full * self.scale))

    @contextmanager
    def _watched(self, case: str) -> Iterator[None]:
        """Measure how long another client waits during the `with` block."""
        ours, theirs = multiprocessing.Pipe()
        pinger = multiprocessing.Process(target=ping, args=(self.process.port, theirs), daemon=True)
        pinger.start()
        ours.recv()
        began = time.perf_counter()
        try:
            yield
            took_s = time.perf_counter() - began
            time.sleep(0.2)  # the operation's later effects count as well
        finally:
            ours.send("stop")
        longest_s, count = ours.recv()
        pinger.join()
        result = Result(f"turns: {case}", self.name, UNIT, [longest_s * 1000])
        load = os.getloadavg()[0]
        result.notes = {"took_s": took_s, "pings": count, "load": load}
        self.results.append(result)
        shown = f"longest wait {longest_s * 1000:7.1f} ms, took {took_s:6.2f} s, load {load:.1f}"
        self.say(f"{result.case:<52} {self.name:<16} {shown}")

    # What is measured.

    def _backlog(self) -> None:
        count = self._count(MESSAGES)
        with self._watched(f"{count:,} persistent messages sent"):
            self._fill("/queue/long", count, b"persistent:true\n")
        link = self._link()
        with self._watched(f"SUBSCRIBE, a selector nothing matches, {count:,} messages"):
            link.ask(subscribe("/queue/long", b"selector:colour='red'\n"), b"RECEIPT")
            time.sleep(2.0)
        link.socket.close()
        with self._watched(f"purge of {count:,} persistent messages"):
            self._http("POST", "/api/v1/queues/long/purge")
        fifth = count // 5
        for case, header, groups in (
            (f"{fifth:,} persistent messages", b"persistent:true\n", 0),
            (f"{fifth:,} messages of {fifth // 4:,} groups", b"persistent:true\n", fifth // 4),
            (f"{fifth:,} messages in memory", b"", 0),
        ):
            self._fill("/queue/purged", fifth, header, groups)
            with self._watched(f"purge of {case}"):
                self._http("POST", "/api/v1/queues/purged/purge")
        self._fill("/queue/gone", count // 5, b"")
        with self._watched(f"DELETE of a queue with {count // 5:,}"):
            self._http("DELETE", "/api/v1/queues/gone")

    def _aside(self) -> None:
        """Let selectors come and go where messages of groups were set aside before."""
        for full, groups in ((TOPICS, 1), (TOPICS, TOPICS), (MESSAGES, MESSAGES)):
            count, name = self._count(full), f"/queue/aside.{full}.{groups}"
            of = f"{count:,} messages of {self._count(groups) if groups > 1 else 1:,} groups"
            self._fill(name, count, b"", self._count(groups) if groups > 1 else 1)
            first, other = self._link(), self._link()
            with self._watched(f"{of} set aside"):
                first.ask(subscribe(name, b"selector:colour='red'\n"), b"RECEIPT")
                time.sleep(4.0)
            with self._watched(f"another selector beside {of}"):
                other.ask(subscribe(name, b"selector:colour='blue'\n"), b"RECEIPT")
                time.sleep(4.0)
            with self._watched(f"it leaves {of}"):
                other.socket.close()
                time.sleep(4.0)
            first.socket.close()

    def _unsettled(self) -> None:
        count = self._count(UNSETTLED)
        for case in ("one cumulative ACK of", "disconnect with unsettled"):
            self._fill("/queue/held", count, b"")
            link = self._link()
            link.socket.sendall(subscribe("/queue/held", b"ack:client\ncredit:200000,0\n"))
            last = _take(link, count)
            with self._watched(f"{case} {count:,}"):
                if case.startswith("one"):
                    link.socket.sendall(b"ACK\nid:" + last + b"\nreceipt:a\n\n\0")
                    _until(link, b"RECEIPT")
                else:
                    link.socket.close()
                    time.sleep(1.0)
        self._http("POST", "/api/v1/queues/held/purge")

    def _transactions(self) -> None:
        for count in (self._count(OPERATIONS // 10), self._count(OPERATIONS)):
            link = self._link()
            link.socket.sendall(b"BEGIN\ntransaction:t\n\n\0")
            head = b"SEND\ndestination:/queue/committed\ntransaction:t\npersistent:true\n\n"
            for start in range(0, count, 1000):
                link.socket.sendall((head + b"body\0") * min(1000, count - start))
            link.ask(b"SUBSCRIBE\ndestination:/queue/none\nid:0\nreceipt:x\n\n\0", b"RECEIPT")
            with self._watched(f"COMMIT of {count:,}"):
                link.ask(b"COMMIT\ntransaction:t\nreceipt:c\n\n\0", b"RECEIPT")
            link.socket.close()

    def _queues(self) -> None:
        count = self._count(QUEUES)
        link = self._link()
        with self._watched(f"{count:,} queues made"):
            for start in range(0, count, 1000):
                stop = min(start + 1000, count)
                frames = [_send(b"/queue/many.%d" % number) for number in range(start, stop)]
                link.socket.sendall(b"".join(frames))
            link.ask(_send(b"/queue/last", b"receipt:r\n"), b"RECEIPT")
        with self._watched(f"SUBSCRIBE to {count:,} queues"):
            link.socket.sendall(subscribe("/queue/many.**", b"credit:1,0\nack:client\n"))
            _until(link, b"RECEIPT")
        with self._watched(f"UNSUBSCRIBE from {count:,} queues"):
            link.socket.sendall(b"UNSUBSCRIBE\nid:1\nreceipt:u\n\n\0")
            _until(link, b"RECEIPT")
        with self._watched(f"a browser of {count:,} queues"):
            link.socket.sendall(subscribe("/queue/many.**", b"browser:true\n"))
            _until(link, b"browser:end")
        with self._watched(f"disconnect from {count:,} queues"):
            link.socket.close()
            time.sleep(1.0)
        paths = ("/api/v1/queues?limit=1000", f"/api/v1/queues?limit=1000&offset={count - 1000}")
        for path in (*paths, "/metrics", "/metrics/queues", "/metrics/groups", "/api/v1/broker"):
            with self._watched(f"GET {path}"):
                self._http("GET", path)
        for view in ("broker", "queues?sort=messages", "queues/many.1"):
            with self._watched(f"the console shows {view}, {WATCHED_S:.0f} s"):
                self._listen(f"/api/v1/events/{view}")
        with self._watched("SIGHUP, nothing changed"):
            self._reload("")
        with self._watched("SIGHUP, the policy of ** changed"):
            self._reload('\n[[queue]]\nid = "**"\nnak_limit = 7\n')

    def _retained(self) -> None:
        count = self._count(TOPICS)
        link = self._link()
        with self._watched(f"{count:,} retained messages set"):
            for start in range(0, count, 1000):
                stop = min(start + 1000, count)
                names = [b"/topic/kept.%d" % number for number in range(start, stop)]
                link.socket.sendall(b"".join([_send(name, b"retain:set\n") for name in names]))
            link.ask(_send(b"/queue/last", b"receipt:r\n"), b"RECEIPT")
        with self._watched(f"SUBSCRIBE to {count:,} retained messages"):
            link.socket.sendall(subscribe("/topic/kept.**", b""))
            _take(link, count)
        link.socket.close()

    def _listeners(self) -> None:
        count = self._count(LISTENERS)
        link, sender = self._link(), self._link()
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            frames = [_subscribe_as(b"%d" % each, b"/topic/fan.*") for each in numbers]
            link.socket.sendall(b"".join(frames))
        link.ask(_send(b"/queue/last", b"receipt:r\n"), b"RECEIPT")
        for case in ("new topic", "topic they have met"):
            with self._watched(f"a message to a {case}, {count:,} subscriptions by pattern"):
                sender.ask(_send(b"/topic/fan.a", b"receipt:r\n"), b"RECEIPT")
                _take(link, count)
        link.socket.close()
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            heads = [_subscribe_as(b"d%d" % each, b"/topic/kept", DURABLY) for each in numbers]
            ends = [b"UNSUBSCRIBE\nid:d%d\n\n\0" % each for each in numbers]
            sender.socket.sendall(b"".join([*heads, *ends]))
            sender.ask(_send(b"/queue/last", b"receipt:r\n"), b"RECEIPT")
        frame = _send(b"/topic/kept", b"persistent:true\nreceipt:r\n")
        with self._watched(f"a persistent message to {count:,} durable subscriptions"):
            sender.ask(frame, b"RECEIPT")
        sender.socket.close()

    def _large(self) -> None:
        count = self._count(PLACES)
        link = self._link()
        names = [b"/queue/" + first + second for first in LETTERS for second in LETTERS][:count]
        with self._watched(f"5 composite SENDs to {len(names):,} queues"):
            link.socket.sendall(_send(b",".join(names)) * 5)
            link.ask(_send(b"/queue/last", b"receipt:r\n"), b"RECEIPT")
        size = int(LARGE * self.scale)
        frame = _send(b"/queue/large", b"persistent:true\nreceipt:r\n", bytes(size))
        links = [self._link() for _ in range(6)]
        with self._watched(f"6 persistent messages of {size:,} bytes at once"):
            with ThreadPoolExecutor(len(links)) as senders:
                list(senders.map(lambda each: each.ask(frame, b"RECEIPT"), links))
        with self._watched(f"a message of {size:,} bytes is read"):
            link.socket.sendall(subscribe("/queue/large", b"ack:client\ncredit:1,0\n"))
            _read(link, size)
        for each in (link, *links):
            each.socket.close()

    def _floods(self) -> None:
        for name in FLOODS:
            with self._watched(f"HTTP/2 {name} flood, {FLOOD_S:.0f} s, without a login"):
                taken = pour(name, self.http, FLOOD_S)
            self.results[-1].notes["frames"] = taken

    # How it is done.

    def _link(self) -> StompLink:
        link = StompLink(self.job)
        link.socket.settimeout(600.0)
        return link

    def _fill(self, destination: str, count: int, header: bytes, groups: int = 0) -> None:
        link = self._link()
        frame = _send(destination.encode(), header)
        for start in range(0, count, 1000):
            frames = frame * min(1000, count - start)
            if groups:
                numbers = [number % groups for number in range(start, min(start + 1000, count))]
                lines = [header + b"JMSXGroupID:%d\n" % number for number in numbers]
                frames = b"".join([_send(destination.encode(), line) for line in lines])
            link.socket.sendall(frames)
        link.ask(_send(b"/queue/last", b"receipt:r\n"), b"RECEIPT")
        link.socket.close()

    def _http(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.http, timeout=600)
        connection.request(method, path, headers={"Authorization": f"Basic {LOGIN}"})
        answer = connection.getresponse().read()
        connection.close()
        return answer

    def _listen(self, path: str) -> None:
        """Hear a stream of the console for a while."""
        asked = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {LOGIN}\r\n\r\n"
        deadline = time.monotonic() + WATCHED_S
        with socket.create_connection(("127.0.0.1", self.http), 10.0) as peer:
            peer.settimeout(WATCHED_S)
            peer.sendall(asked.encode())
            if b" 200 " not in peer.recv(1 << 16):
                raise IncompleteError(f"{path} was not shown")
            while time.monotonic() < deadline:
                peer.recv(1 << 16)

    def _reload(self, more: str) -> None:
        config = self.process.directory / "bench.toml"
        config.write_text(config.read_text() + more)
        before = self.process.log.read_text().count("reloaded")
        os.kill(self.process.child.pid, signal.SIGHUP)
        deadline = time.monotonic() + 120
        while self.process.log.read_text().count("reloaded") == before:
            if time.monotonic() > deadline:
                raise IncompleteError("the configuration was not read again")
            time.sleep(0.02)


def ping(port: int, told: Connection) -> None:
    """Send with a receipt every 5 ms until told to stop; report the longest wait."""
    link = StompLink(Job(port=port, destination="", count=0, size=16))
    link.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    frame = _send(b"/topic/ping", b"receipt:p\n")
    link.ask(frame, b"RECEIPT")
    told.send("ready")
    longest_s, count = 0.0, 0
    while not told.poll():
        began = time.perf_counter()
        link.ask(frame, b"RECEIPT")
        longest_s = max(longest_s, time.perf_counter() - began)
        count += 1
        time.sleep(PING_EVERY_S)
    told.send((longest_s, count))


def subscribe(destination: str, more: bytes) -> bytes:
    """Return a SUBSCRIBE frame that asks for a receipt."""
    head = b"SUBSCRIBE\nid:1\nreceipt:s\ndestination:" + destination.encode()
    return head + b"\n" + more + b"\n\0"


def _subscribe_as(name: bytes, destination: bytes, more: bytes = b"") -> bytes:
    return b"SUBSCRIBE\nid:" + name + b"\ndestination:" + destination + b"\n" + more + b"\n\0"


def _send(destination: bytes, header: bytes = b"", body: bytes = b"body") -> bytes:
    if len(body) > 1000:
        header += b"content-length:%d\n" % len(body)
    return b"SEND\ndestination:" + destination + b"\n" + header + b"\n" + body + b"\0"


def _read(link: StompLink, size: int) -> None:
    """Read until more than `size` bytes have come."""
    while size >= 0:
        more = len(link.socket.recv(1 << 20))
        if not more:
            raise IncompleteError(f"the broker closed, {size} bytes before the end")
        size -= more


def _until(link: StompLink, word: bytes) -> None:
    """Read until `word` comes."""
    tail = b""
    while word not in tail:
        more = link.socket.recv(1 << 20)
        if not more:
            raise IncompleteError(f"the broker closed before {word!r}: {tail[-200:]!r}")
        tail = tail[-100:] + more


def _take(link: StompLink, count: int) -> bytes:
    """Read `count` messages; return the ACK of the last."""
    found, tail, last = 0, b"", b""
    while found < count:
        more = link.socket.recv(1 << 20)
        if not more:
            raise IncompleteError(f"the broker closed after {found} messages: {tail[-200:]!r}")
        tail += more
        cut = tail.rfind(b"\0") + 1
        found += tail.count(b"MESSAGE\n", 0, cut)
        at = tail.rfind(b"\nack:", 0, cut)
        if at >= 0:
            last = tail[at + 5 : tail.index(b"\n", at + 5)]
        tail = tail[cut:]
    return last
