"""StompLink: a STOMP 1.2 connection of the load. Frames are counted by their NULs."""

from __future__ import annotations

from covey.bench.wire import stomp_wire as wire
from covey.bench.wire.link import READ_SIZE, IncompleteError, Job, Link


class StompLink(Link):
    """A connection that has logged in."""

    def __init__(self, job: Job) -> None:
        super().__init__(job.address, job.port)
        self.acks = job.ack != "auto"
        self._pieces: list[bytes] = []  # of a frame that is not complete yet
        self.ask(wire.login(job.host, job.user, job.password), b"CONNECTED")

    def subscribe(self, job: Job) -> None:
        """Subscribe and wait for the receipt."""
        self.ask(wire.subscribe(job.destination, job.ack, job.credit), b"RECEIPT")

    def sends(self, job: Job) -> list[bytes]:
        """Write the SEND frames, with a receipt each if the job is to be confirmed."""
        header = b"persistent:true\n" if job.is_persistent else b""
        header += b"receipt:r\n" if job.is_confirmed else b""
        return wire.send_frames(job.destination, job.count, job.size, job.groups, header)

    def read(self) -> bytes:
        """Return the bytes up to the last NUL; pieces of a large message are joined only once."""
        data = self.receive()
        cut = data.rfind(b"\0") + 1
        if not cut:
            self._pieces.append(data)
            return b""
        frames = b"".join([*self._pieces, data[:cut]]) if self._pieces else data[:cut]
        self._pieces = [data[cut:]] if cut < len(data) else []
        return frames

    def deliveries(self, frames: bytes) -> int:
        """Count frames: a consumer gets nothing but messages."""
        return frames.count(b"\0")

    def answer(self, frames: bytes) -> bytes:
        """Acknowledge each message."""
        return wire.acks(frames) if self.acks else b""

    def confirmations(self, frames: bytes) -> int:
        """Count receipts."""
        count = frames.count(b"\0")
        if frames.count(b"RECEIPT\n") != count:
            raise IncompleteError(f"the producer heard {frames[:200]!r}")
        return count

    def ask(self, frame: bytes, answer: bytes) -> None:
        """Send a frame and wait for the frame that answers it."""
        self.socket.sendall(frame)
        data = b""
        while b"\0" not in data:
            more = self.socket.recv(READ_SIZE)
            if not more:
                raise IncompleteError(f"the broker closed after {frame[:20]!r}: {data!r}")
            data += more
        if not data.lstrip(b"\n").startswith(answer):
            raise IncompleteError(f"the broker answered {data[:200]!r} to {frame[:20]!r}")
