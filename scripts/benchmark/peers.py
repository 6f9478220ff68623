"""Peers: the brokers that Covey is compared with, if they are installed.

    rabbitmq   Debian's rabbitmq-server with its STOMP and AMQP 1.0 plug-ins; it has no message
               groups, so a run with groups is competing consumers and is not checked for order
    activemq   Debian's activemq, blocking STOMP connector, as in its manual's advice for speed
               (optimizedDispatch, no producer flow control), with its own store KahaDB; that
               package has no AMQP
    coilmq     from PyPI; stalls with more than a few messages in flight, and its MESSAGE frames
               carry no `ack`, so nothing can be acknowledged one by one

The others are in `java_peers`: artemis, activemq6. All peers run untuned otherwise: a tuned one may
be faster.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final

from scripts.benchmark.contender import Contender, environment_path
from scripts.benchmark.java_peers import ActiveMQ6, Artemis
from scripts.benchmark.process import Process, free_port, scratch_directory

RABBITMQ_PROGRAM: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
ACTIVEMQ_HOME: Final = Path("/usr/share/activemq")

ACTIVEMQ_XML: Final = """<beans xmlns="http://www.springframework.org/schema/beans"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
 xsi:schemaLocation="http://www.springframework.org/schema/beans
 http://www.springframework.org/schema/beans/spring-beans.xsd
 http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="bench" persistent="true"
  useJmx="false" schedulerSupport="false" dataDirectory="{directory}">
  <persistenceAdapter><kahaDB directory="{directory}/kahadb"/></persistenceAdapter>
  <destinationPolicy><policyMap><policyEntries>
   <policyEntry queue="&gt;" producerFlowControl="false" optimizedDispatch="true"/>
   <policyEntry topic="&gt;" producerFlowControl="false" optimizedDispatch="true"/>
  </policyEntries></policyMap></destinationPolicy>
  <transportConnectors>
   <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
  </transportConnectors>
 </broker>
</beans>
"""


class RabbitMQ(Contender):
    """RabbitMQ with rabbitmq_stomp."""

    name = "rabbitmq"
    host = "/"
    user = "guest"
    password = "guest"
    keeps_groups = False
    speaks = frozenset(("stomp", "amqp"))
    foreign_queue = "/amq/queue/"  # `/queue/` would declare the queue again as not durable

    def missing(self) -> str:
        """Return what is missing of the Debian package; "" if it is installed."""
        return "" if RABBITMQ_PROGRAM.exists() else "apt-get install rabbitmq-server"

    def start(self) -> Process:
        """Start a node of its own, with an Erlang port mapper that ends with it."""
        directory = scratch_directory()
        port, amqp, dist, mapper = free_port(), free_port(), free_port(), free_port()
        (directory / "enabled_plugins").write_text("[rabbitmq_stomp,rabbitmq_amqp1_0].\n")
        (directory / "rabbitmq.conf").write_text(
            f"stomp.listeners.tcp.1 = 127.0.0.1:{port}\nlisteners.tcp.1 = 127.0.0.1:{amqp}\n"
        )
        # If the node started the mapper, it would leave our session and outlive the run.
        epmd = shutil.which("epmd", path=environment_path()) or "epmd"
        command = f'{epmd} -port {mapper} & exec "{RABBITMQ_PROGRAM}"'
        process = Process(
            ["bash", "-c", command],
            port,
            directory,
            {
                "HOME": str(directory),
                "ERL_EPMD_PORT": str(mapper),
                "RABBITMQ_NODENAME": f"bench{port}@localhost",
                "RABBITMQ_DIST_PORT": str(dist),
                "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"),
                "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
                "RABBITMQ_LOG_BASE": str(directory / "log"),
            },
        )
        process.amqp_port = amqp
        return process


class ActiveMQ(Contender):
    """ActiveMQ Classic."""

    name = "activemq"

    def missing(self) -> str:
        """Return what is missing of the Debian package and its Java; "" if both are installed."""
        if not (ACTIVEMQ_HOME / "bin/activemq.jar").exists():
            return "apt-get install activemq"
        return "" if shutil.which("java") else "apt-get install default-jre-headless"

    def start(self) -> Process:
        """Start a broker in a JVM of its own."""
        directory = scratch_directory()
        port = free_port()
        config = directory / "activemq.xml"
        config.write_text(ACTIVEMQ_XML.format(directory=directory, port=port))
        command = ["java", "-Xmx1g"]
        command += [f"-Dactivemq.{name}={directory}" for name in ("base", "conf", "data")]
        command += [f"-Dactivemq.home={ACTIVEMQ_HOME}", "-jar"]
        command += [str(ACTIVEMQ_HOME / "bin/activemq.jar"), "start", f"xbean:file:{config}"]
        return Process(command, port, directory, {})


class CoilMQ(Contender):
    """CoilMQ, the broker in Python."""

    name = "coilmq"
    host = socket.getfqdn()  # CoilMQ refuses any other host
    window_max = 10
    cannot = frozenset(("individual", "groups", "durable", "durable-beside"))

    def missing(self) -> str:
        """Return how to install its program if neither this Python's folder nor PATH has it."""
        return "" if _coilmq() else "pip install coilmq"

    def start(self) -> Process:
        """Start it in the foreground."""
        directory = scratch_directory()
        port = free_port()
        return Process([_coilmq(), "-b", "127.0.0.1", "-p", str(port)], port, directory, {})


def _coilmq() -> str:
    own = Path(sys.executable).parent
    return shutil.which("coilmq", path=f"{own}:{environment_path()}") or ""


PEERS: Final[dict[str, type[Contender]]] = {
    peer.name: peer for peer in (Artemis, ActiveMQ6, RabbitMQ, ActiveMQ, CoilMQ)
}


def cores() -> str:
    """Name the processor the figures were taken on."""
    listing = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    found = [
        line.partition(":")[2].strip() for line in listing.splitlines() if "Model name" in line
    ]
    return found[0] if found else "an unknown processor"
