"""Pictures: the console as it looks while a shop sends orders and packers work on them.

It starts a broker, a load over STOMP, and the system's Chromium. The pictures go to docs/images.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx

from tests.e2e.support import HOST, LOGIN, PASSCODE, BrokerProcess, running_broker
from tests.interop.browser import Tab, address_of, chromium

IMAGES: Final = Path(__file__).resolve().parents[2] / "docs/images"
SECONDS: Final = 100
ORDERS: Final = 160  # groups
CONFIG: Final = """
[[queue]]
id = "orders"
nak_limit = 3
dlq = "dlq.orders"
"""


@dataclass(frozen=True)
class Picture:
    """What a picture shows, and how it is taken."""

    name: str
    place: str
    scheme: str = "light"
    width: int = 1280
    height: int = 900


PICTURES: Final = (
    Picture("console-overview", "#/"),
    Picture("console-queue", "#/queues/orders", height=1000),
    Picture("console-queue-dark", "#/queues/orders", "dark", height=1000),
    Picture("console-messages", "#/queues/orders/messages", height=620),
    Picture("console-phone", "#/queues/orders", width=390, height=844),
)


async def connect(port: int, client: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Log in."""
    reader, writer = await asyncio.open_connection(HOST, port)
    login = f"login:{LOGIN}\npasscode:{PASSCODE}\nclient-id:{client}"
    writer.write(f"CONNECT\naccept-version:1.2\n{login}\n\n\0".encode())
    await reader.readuntil(b"\0")
    return reader, writer


async def shop(port: int, client: str, queue: str, rate: float) -> None:
    """Send messages of many groups; a few groups get most of them."""
    _, writer = await connect(port, client)
    dice = random.Random(client)
    names = [f"order-{number:04d}" for number in range(ORDERS)]
    weights = [1 / (place + 1) ** 0.7 for place in range(ORDERS)]
    while True:
        for name in dice.choices(names, weights, k=max(1, int(rate / 10))):
            headers = f"destination:/queue/{queue}\nmessage_group:{name}\npersistent:true"
            body = f'{{"order": "{name}", "amount": {dice.randint(1, 99)}}}'
            writer.write(f"SEND\n{headers}\ncontent-type:application/json\n\n{body}\0".encode())
        await writer.drain()
        await asyncio.sleep(0.1)


async def packer(port: int, client: str, queue: str, rate: float, fails: float = 0.0) -> None:
    """Work on `rate` messages a second; the part `fails` of them fails."""
    reader, writer = await connect(port, client)
    dice = random.Random(client)
    place = f"id:{client}\ndestination:/queue/{queue}"
    writer.write(f"SUBSCRIBE\n{place}\nack:client-individual\ncredit:20,0\n\n\0".encode())
    while True:
        frame = (await reader.readuntil(b"\0")).decode(errors="replace")
        found = [line[4:] for line in frame.split("\n") if line.startswith("ack:")]
        if found:
            await asyncio.sleep(1 / rate)
            verb = "NACK" if dice.random() < fails else "ACK"
            writer.write(f"{verb}\nid:{found[0]}\n\n\0".encode())


async def scenario(port: int) -> None:
    """Run all shops and packers for ever."""
    await asyncio.gather(
        shop(port, "shop-1", "orders", 90),
        shop(port, "shop-2", "orders", 60),
        packer(port, "packer-1", "orders", 60),
        packer(port, "packer-2", "orders", 50),
        packer(port, "packer-3", "orders", 35, fails=0.03),
        packer(port, "packer-4", "orders", 15),
        shop(port, "web", "emails", 30),
        packer(port, "mailer", "emails", 60),
        shop(port, "till", "invoices", 10),
        packer(port, "ledger", "invoices", 8),
    )


def take(broker: BrokerProcess) -> None:
    """Take all pictures."""
    with chromium() as browser:
        for picture in PICTURES:
            tab = Tab(browser, address_of(broker), scheme=picture.scheme, width=picture.width)
            tab.page.set_viewport_size({"width": picture.width, "height": picture.height})
            tab.sign_in(LOGIN, PASSCODE, picture.place)
            tab.page.wait_for_timeout(5000)
            file = IMAGES / f"{picture.name}.png"
            tab.page.screenshot(path=file)
            sys.stdout.write(f"{file.name}: {file.stat().st_size // 1024} KiB\n")
            tab.close()


def main(arguments: Sequence[str]) -> int:
    """Run the scenario and take the pictures."""
    seconds = int(arguments[0]) if arguments else SECONDS
    with TemporaryDirectory() as folder, running_broker(Path(folder), config=CONFIG) as broker:
        load = [sys.executable, "-P", "-m", __spec__.name, "--load", str(broker.port)]
        with subprocess.Popen(load) as process:
            try:
                for left in range(seconds, 0, -10):
                    sys.stdout.write(f"the scenario runs, {left} s to go\n")
                    sys.stdout.flush()
                    subprocess.run(["sleep", str(min(10, left))], check=True)
                park(broker)
                take(broker)
            finally:
                process.kill()
    return 0


def park(broker: BrokerProcess) -> None:
    """Park one of the groups, so that a picture shows a parked group."""
    place = f"http://{address_of(broker)}/api/v1/queues/orders/groups/order-0003/park"
    httpx.post(place, auth=(LOGIN, PASSCODE), json={}).raise_for_status()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        asyncio.run(scenario(int(sys.argv[2])))
    sys.exit(main(sys.argv[1:]))
