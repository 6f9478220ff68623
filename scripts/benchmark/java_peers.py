"""Java peers: brokers from Maven, fetched once and started here.

    artemis     ActiveMQ Artemis, its distribution; an instance with NIO journal, as `artemis
                create` makes it. ANYCAST is made the default: else an AMQP address is a topic,
                whose messages nobody stores
    activemq6   ActiveMQ Classic 6, which Maven has as libraries: embedded in a main of a few lines,
                with the settings of its manual's advice for speed, and KahaDB

They lie in the user's cache (XDG_CACHE_HOME or ~/.cache) under covey-bench and are fetched when
they are first asked for. Both need Java 17 and `mvn`, and run untuned otherwise.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

from scripts.benchmark.contender import Contender
from scripts.benchmark.process import Process, StartError, free_port, scratch_directory

ARTEMIS_VERSION: Final = "2.44.0"
ACTIVEMQ_VERSION: Final = "6.1.6"
SLF4J_VERSION: Final = "2.0.16"
FETCH_S: Final = 600.0

POM: Final = """<project xmlns="http://maven.apache.org/POM/4.0.0">
 <modelVersion>4.0.0</modelVersion>
 <groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
 <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
ACTIVEMQ_PARTS: Final = ("broker", "stomp", "amqp", "kahadb-store", "spring")

MAIN: Final = """import java.io.File;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;

public class Bench {
    public static void main(String[] words) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setAdvisorySupport(false);
        broker.setPersistent(true);
        broker.setDataDirectoryFile(new File(words[2]));
        broker.getSystemUsage().getMemoryUsage().setLimit(1500L << 20);
        PolicyEntry entry = new PolicyEntry();
        entry.setProducerFlowControl(false);
        entry.setOptimizedDispatch(true);
        PolicyMap policies = new PolicyMap();
        policies.setDefaultEntry(entry);
        broker.setDestinationPolicy(policies);
        broker.addConnector("stomp://127.0.0.1:" + words[0]);
        broker.addConnector("amqp://127.0.0.1:" + words[1]);
        broker.start();
        broker.waitUntilStopped();
    }
}
"""


def cache() -> Path:
    """Return the folder of what was fetched."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "covey-bench"


class JavaPeer(Contender):
    """A peer that is fetched from Maven."""

    speaks = frozenset(("stomp", "amqp"))
    foreign_queue = ""
    home = Path()  # exists once all was fetched

    def missing(self) -> str:
        """Return which program is missing; if none is, fetch the peer."""
        lacking = [name for name in ("java", "javac", "mvn") if not shutil.which(name)]
        if lacking:
            return f"apt-get install default-jdk-headless maven: no {', '.join(lacking)}"
        if self.home.exists():
            return ""
        try:
            self.fetch()
        except (OSError, subprocess.SubprocessError) as error:
            words = getattr(error, "stdout", None) or str(error)
            return f"cannot be fetched: {words[-300:]}"
        return ""

    def fetch(self) -> None:
        """Fetch everything into its home."""
        raise NotImplementedError


class Artemis(JavaPeer):
    """ActiveMQ Artemis."""

    name = "artemis"

    def __init__(self) -> None:
        self.home = cache() / f"apache-artemis-{ARTEMIS_VERSION}"

    def fetch(self) -> None:
        """Unpack the distribution."""
        cache().mkdir(parents=True, exist_ok=True)
        place = f"org.apache.activemq:apache-artemis:{ARTEMIS_VERSION}:tar.gz:bin"
        _maven(cache(), "dependency:copy", f"-Dartifact={place}", "-DoutputDirectory=.")
        (archive,) = cache().glob(f"apache-artemis-{ARTEMIS_VERSION}*.tar.gz")
        part = cache() / "unpacking"
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
        (part / self.home.name).rename(self.home)
        archive.unlink()

    def start(self) -> Process:
        """Make an instance, set its ports, and run it."""
        directory = scratch_directory()
        port, amqp_port = free_port(), free_port()
        instance = directory / "instance"
        words = f"create {instance} --user {self.user} --password {self.password} --require-login"
        words += " --host 127.0.0.1 --no-web --no-autotune --silent --nio"
        made = [str(self.home / "bin/artemis"), *words.split()]
        subprocess.run(made, capture_output=True, text=True, check=True, timeout=FETCH_S)
        config = instance / "etc/broker.xml"
        config.write_text(artemis_config(config.read_text(), port, amqp_port))
        process = Process([str(instance / "bin/artemis"), "run"], port, directory, {})
        process.amqp_port = amqp_port
        return process


def artemis_config(text: str, port: int, amqp_port: int) -> str:
    """Keep only the ports of STOMP and AMQP, and make addresses queues by default."""
    stomp = (
        f'<acceptor name="stomp">tcp://127.0.0.1:{port}?protocols=STOMP;useEpoll=true'
        ";anycastPrefix=/queue/;multicastPrefix=/topic/</acceptor>"
    )
    amqp = (
        f'<acceptor name="amqp">tcp://127.0.0.1:{amqp_port}?protocols=AMQP;useEpoll=true'
        ";amqpCredits=1000;amqpLowCredits=300;anycastPrefix=/queue/</acceptor>"
    )
    acceptors = re.compile(r"<acceptors>.*</acceptors>", re.DOTALL)
    text = acceptors.sub(f"<acceptors>{stomp}{amqp}</acceptors>", text)
    kinds = (
        "<default-address-routing-type>ANYCAST</default-address-routing-type>"
        "<default-queue-routing-type>ANYCAST</default-queue-routing-type>"
    )
    topics = f'<address-setting match="bench.topic.#">{kinds}</address-setting>'
    topics = topics.replace("ANYCAST", "MULTICAST")
    head = '<address-setting match="#">'
    return text.replace(head, f"{topics}{head}{kinds}")


class ActiveMQ6(JavaPeer):
    """ActiveMQ Classic, a current version."""

    name = "activemq6"
    foreign_queue = "queue://"

    def __init__(self) -> None:
        self.home = cache() / f"activemq-{ACTIVEMQ_VERSION}"

    def fetch(self) -> None:
        """Fetch the libraries and compile the main class beside them."""
        part = cache() / "libraries"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        rows = [
            ("org.apache.activemq", f"activemq-{name}", ACTIVEMQ_VERSION) for name in ACTIVEMQ_PARTS
        ]
        rows.append(("org.slf4j", "slf4j-nop", SLF4J_VERSION))
        wanted = "".join(DEPENDENCY.format(*row) for row in rows)
        (part / "pom.xml").write_text(POM.format(dependencies=wanted))
        (part / "Bench.java").write_text(MAIN)
        _maven(part, "dependency:copy-dependencies", "-DoutputDirectory=lib")
        compiler = ["javac", "-cp", "lib/*", "Bench.java"]
        subprocess.run(compiler, cwd=part, check=True, capture_output=True, text=True)
        part.rename(self.home)

    def start(self) -> Process:
        """Start a broker in a JVM of its own."""
        directory = scratch_directory()
        port, amqp_port = free_port(), free_port()
        command = ["java", "-Xmx2g", "-cp", f"{self.home}:{self.home}/lib/*", "Bench"]
        command += [str(port), str(amqp_port), str(directory / "data")]
        process = Process(command, port, directory, {})
        process.amqp_port = amqp_port
        return process


def _maven(folder: Path, *words: str) -> None:
    if shutil.which("mvn") is None:
        raise StartError("no mvn")
    subprocess.run(
        ["mvn", "-q", "-B", *words],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
        timeout=FETCH_S,
    )
