"""AmqpLink: an AMQP 1.0 connection of the load, one session, one link, one message a frame.

With one link in a session, its delivery ids follow one another. So one disposition with a range
accepts all transfers of a read. Credit is renewed when half of it is used.

A load of durable messages asks for durable ends of its links. RabbitMQ 3 makes a durable queue only
for these, and writes nothing to the disk for a durable message in another queue.
"""

from __future__ import annotations

from covey.bench.wire import amqp_wire as amqp
from covey.bench.wire.amqp_wire import NULL
from covey.bench.wire.link import IncompleteError, Job, Link
from covey.bench.wire.stomp_wire import body

CREDIT = 20_000  # of a consumer, as its window
WINDOW = 2**31 - 1  # of a session; not a limit, since the links' credit is one
FRAME_SIZE_MAX = 64 * 1024
HEADER_SECTION, PROPERTIES_SECTION, DATA_SECTION = 0x70, 0x73, 0x75
GROUP_ID = 10  # its place among the properties
DATA_HEAD = b"\x00\x53" + bytes((DATA_SECTION,))
UNSETTLED, SETTLED = 0, 1
UNSETTLED_STATE = 2  # "terminus-durability", section 3.5.5


class AmqpLink(Link):
    """A connection that has logged in and begun a session."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.address, job.amqp_port)
        self.is_settled = job.ack == "auto"
        self.sent_max = 0  # how many deliveries the link's credit allows in all
        self.got = 0
        self.accepted = 0
        self.got_first: int | None = None  # the broker's first delivery id
        self.granted = 0
        self.incoming_id = 0  # the number of the broker's next transfer
        self._log_in(job)

    def subscribe(self, job: Job) -> None:
        """Attach as a receiver and grant the first credit."""
        mode = SETTLED if self.is_settled else UNSETTLED
        ends = terminus(amqp.SOURCE, job.destination, job.is_persistent), terminus(amqp.TARGET)
        self._attach(amqp.TRUE, mode, ends)
        self.socket.sendall(self._grant())

    def sends(self, job: Job) -> list[bytes]:
        """Attach as a sender, wait for credit, and write the transfers."""
        mode = UNSETTLED if job.is_confirmed else SETTLED
        address = job.sender_destination or job.destination
        ends = terminus(amqp.SOURCE), terminus(amqp.TARGET, address, job.is_persistent)
        self._attach(amqp.FALSE, mode, ends)
        self.confirmations(self._whole_frames(self.tail))
        while not self.room:
            self.confirmations(self.read())
        durable = amqp.TRUE if job.is_persistent else amqp.FALSE
        header = amqp.described(HEADER_SECTION, durable)
        settled = amqp.FALSE if job.is_confirmed else amqp.TRUE
        return [
            amqp.frame(
                amqp.described(
                    amqp.TRANSFER,
                    *(amqp.uint(0), amqp.uint(number), amqp.binary(b"%08d" % number)),
                    *(amqp.uint(0), settled),
                ),
                header + _properties(number, job.groups) + DATA_HEAD + amqp.binary(content),
            )
            for number, content in enumerate(body(job.count, job.size, job.groups))
        ]

    def read(self) -> bytes:
        """Return the complete frames; keep the rest."""
        return self._whole_frames(self.receive())

    def deliveries(self, frames: bytes) -> int:
        """Count transfers."""
        count = 0
        for first, size, number in amqp.rows(frames):
            if size == amqp.HEADER_SIZE:
                continue  # heart-beats
            codes = frames[first + amqp.CODE_PLACE : first + number * size : size]
            transfers = codes.count(amqp.TRANSFER)
            if transfers and self.got_first is None:
                place = first + size * codes.index(amqp.TRANSFER)
                self.got_first = amqp.fields(frames, place, 2)[1] or 0
            if transfers < number and max(codes) >= amqp.DETACH:
                place = first + size * codes.index(max(codes))
                raise IncompleteError(f"the broker ended a link: {frames[place : place + 300]!r}")
            count += transfers
        self.got += count
        return count

    def answer(self, frames: bytes) -> bytes:
        """Return a disposition for all since the last call, and new credit if due."""
        answer = b"" if self.is_settled else self._accept(self.got)
        if self.granted - self.got < CREDIT // 2:
            answer += self._grant()
        return answer

    def confirmations(self, frames: bytes) -> int:
        """Count the deliveries that dispositions accept, and read the credit from flows."""
        count = 0
        for code, place in amqp.performatives(frames):
            if code == amqp.DISPOSITION:
                if amqp.is_of_one(frames, place):
                    count += 1
                    continue
                _, first, last = amqp.fields(frames, place, 3)
                count += 1 if last is None else last - (first or 0) + 1
            elif code == amqp.FLOW:
                self._flowed(amqp.fields(frames, place, 7))
            elif code >= amqp.DETACH:
                raise IncompleteError(f"the broker ended a link: {frames[place : place + 300]!r}")
        return count

    def _whole_frames(self, data: bytes) -> bytes:
        place = amqp.cut(data)
        self.tail = data[place:]
        return data[:place]

    def _flowed(self, found: list[int | bool | None]) -> None:
        incoming, window, _, _, handle, delivered, credit = found
        by_session = (incoming or 0) + (window or 0)
        if handle is not None:
            self.sent_max = (delivered or 0) + (credit or 0)
        self.room = min(by_session, self.sent_max)

    def _accept(self, until: int) -> bytes:
        if self.got_first is None or until == self.accepted:
            return b""
        first, last = self.got_first + self.accepted, self.got_first + until - 1
        self.accepted = until
        state = amqp.described(amqp.ACCEPTED)
        return amqp.frame(
            amqp.described(
                amqp.DISPOSITION, amqp.TRUE, amqp.uint(first), amqp.uint(last), amqp.TRUE, state
            )
        )

    def _grant(self) -> bytes:
        self.granted = self.got + CREDIT
        window = amqp.uint(WINDOW)
        return amqp.frame(
            amqp.described(
                amqp.FLOW,
                *(amqp.uint(self.incoming_id + self.got), window, amqp.uint(0), window),
                *(amqp.uint(0), amqp.uint(self.got), amqp.uint(CREDIT)),
            )
        )

    def _log_in(self, job: Job) -> None:
        secret = f"\0{job.user}\0{job.password}".encode()
        init = amqp.described(amqp.SASL_INIT, amqp.symbol("PLAIN"), amqp.binary(secret))
        self.socket.sendall(amqp.SASL_HEADER)
        self._expect_header()
        self._expect(amqp.SASL_MECHANISMS)
        self.socket.sendall(amqp.frame(init, is_sasl=True))
        frames, place = self._expect(amqp.SASL_OUTCOME)
        if amqp.fields(frames, place, 1) != [0]:
            raise IncompleteError("the broker refused the login")
        name = f"bench-{self.socket.getsockname()[1]}"  # unique: some brokers require it
        opening = amqp.described(
            amqp.OPEN, amqp.string(name), amqp.string(job.host), amqp.uint(FRAME_SIZE_MAX)
        )
        self.socket.sendall(amqp.AMQP_HEADER + amqp.frame(opening))
        self._expect_header()
        self._expect(amqp.OPEN)
        window = amqp.uint(WINDOW)
        self.socket.sendall(
            amqp.frame(amqp.described(amqp.BEGIN, NULL, amqp.uint(0), window, window))
        )
        frames, place = self._expect(amqp.BEGIN)
        self.incoming_id = amqp.fields(frames, place, 2)[1] or 0

    def _attach(self, role: bytes, settle_mode: int, ends: tuple[bytes, bytes]) -> None:
        start = amqp.uint(0) if role == amqp.FALSE else NULL
        attach = amqp.described(
            amqp.ATTACH,
            *(amqp.string("bench"), amqp.uint(0), role, amqp.ubyte(settle_mode), amqp.ubyte(0)),
            *(*ends, NULL, NULL, start),
        )
        self.room = 0
        self.socket.sendall(amqp.frame(attach))
        self._expect(amqp.ATTACH)

    def _expect_header(self) -> None:
        while len(self.tail) < amqp.HEADER_SIZE:
            self.tail = self.receive()
        self.tail = self.tail[amqp.HEADER_SIZE :]

    def _expect(self, code: int) -> tuple[bytes, int]:
        """Wait for one frame; bytes that came after it are kept."""
        while True:
            while amqp.cut(self.tail) == 0:
                self.tail = self.receive()
            size = int.from_bytes(self.tail[:4], "big")
            frames, self.tail = self.tail[:size], self.tail[size:]
            found = list(amqp.performatives(frames))
            if found and found[0][0] == code:
                return frames, 0
            if found and found[0][0] != amqp.FLOW:
                raise IncompleteError(f"the broker answered {frames[:300]!r}, not {code:#x}")
            self.confirmations(frames)


def _properties(number: int, groups: int) -> bytes:
    """Return the section that names a message's group; nothing without groups."""
    if not groups:
        return b""
    group = amqp.string(f"g{number % groups}")
    return amqp.described(PROPERTIES_SECTION, *[NULL] * GROUP_ID, group)


def terminus(code: int, address: str = "", is_durable: bool = False) -> bytes:
    """Write one end of a link."""
    durable = amqp.uint(UNSETTLED_STATE) if is_durable else NULL
    return amqp.described(code, amqp.string(address) if address else NULL, durable)
