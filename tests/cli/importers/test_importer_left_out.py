"""Nothing of a foreign file is left out in silence: whatever is taken away, the import tells.

Each document has the shape of what those brokers' distributions bring. One part after the other is
taken out; the configuration or its notes must be others then. What stands inside of an element that
is noted as a whole has been told with it.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from covey.cli.importers.imported import ImportRefused, local_name
from covey.cli.importers.importer import import_text

ARTEMIS = """
<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
 <persistence-enabled>true</persistence-enabled>
 <journal-type>NIO</journal-type>
 <max-disk-usage>90</max-disk-usage>
 <acceptors>
  <acceptor name="artemis">tcp://0.0.0.0:61616?useEpoll=true;protocols=CORE,AMQP,STOMP</acceptor>
  <acceptor name="amqp">tcp://0.0.0.0:5672?protocols=AMQP;amqpCredits=1000</acceptor>
  <acceptor name="inner">vm://0</acceptor>
 </acceptors>
 <security-settings>
  <security-setting match="a.#">
   <permission type="createDurableQueue" roles="amq"/>
   <permission type="send" roles="amq,users"/>
   <permission type="view" roles="amq"/>
  </security-setting>
  <role-mapping from="cn=a" to="amq"/>
 </security-settings>
 <address-settings>
  <address-setting match="a.#">
   <dead-letter-address>DLQ</dead-letter-address>
   <expiry-address>ExpiryQueue</expiry-address>
   <max-delivery-attempts>4</max-delivery-attempts>
   <redelivery-delay>500</redelivery-delay>
   <max-size-bytes>10Mb</max-size-bytes>
   <page-size-bytes>10Mb</page-size-bytes>
   <address-full-policy>BLOCK</address-full-policy>
   <message-counter-history-day-limit>10</message-counter-history-day-limit>
   <auto-create-queues>false</auto-create-queues>
   <default-address-routing-type>MULTICAST</default-address-routing-type>
   <default-group-rebalance>true</default-group-rebalance>
  </address-setting>
 </address-settings>
 <addresses>
  <address name="plain"><anycast><queue name="plain"/></anycast></address>
  <address name="news"><multicast>
   <queue name="sub" max-consumers="1"><filter string="a = 1"/></queue></multicast></address>
  <address name="ring"><anycast>
   <queue name="ring" ring-size="5" purge-on-no-consumers="true">
    <durable>false</durable><user>joe</user><filter string="a = 1"/></queue></anycast></address>
 </addresses>
 <diverts><divert name="d"><address>a</address></divert></diverts>
</core></configuration>
"""

ACTIVEMQ = """
<beans xmlns="http://www.springframework.org/schema/beans">
 <bean class="org.example.PropertyPlaceholder"><property name="a" value="b"/></bean>
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="b" persistent="false">
  <destinations><queue physicalName="Q"/><topic physicalName="T"/></destinations>
  <destinationPolicy><policyMap><policyEntries>
   <policyEntry queue="b.&gt;" memoryLimit="1 mb" producerFlowControl="true">
    <deadLetterStrategy>
     <sharedDeadLetterStrategy processExpired="false" processNonPersistent="true">
      <deadLetterQueue><queue physicalName="DLQ.all"/></deadLetterQueue>
     </sharedDeadLetterStrategy>
    </deadLetterStrategy>
   </policyEntry>
   <policyEntry queue="a">
    <deadLetterStrategy>
     <individualDeadLetterStrategy queuePrefix="DLQ." useQueueForQueueMessages="true"/>
    </deadLetterStrategy>
   </policyEntry>
   <policyEntry topic="&gt;" producerFlowControl="true"><dispatchPolicy/></policyEntry>
  </policyEntries></policyMap></destinationPolicy>
  <managementContext><managementContext createConnector="false"/></managementContext>
  <persistenceAdapter><kahaDB directory="data"/></persistenceAdapter>
  <systemUsage><systemUsage><memoryUsage/></systemUsage></systemUsage>
  <plugins>
   <loggingBrokerPlugin/>
   <simpleAuthenticationPlugin anonymousAccessAllowed="true"><users>
    <authenticationUser username="a" password="p" groups="admins"/>
   </users></simpleAuthenticationPlugin>
   <authorizationPlugin><map><authorizationMap><authorizationEntries>
    <authorizationEntry queue="A.&gt;" read="users" write="users" admin="admins"/>
   </authorizationEntries><tempDestinationAuthorizationEntry>
    <tempDestinationAuthorizationEntry read="users" write="users" admin="users"/>
   </tempDestinationAuthorizationEntry></authorizationMap></map></authorizationPlugin>
   <bean class="org.example.Guard"/>
  </plugins>
  <transportConnectors>
   <transportConnector name="openwire" uri="tcp://0.0.0.0:61616?wireFormat.maxFrameSize=1"/>
   <transportConnector name="stomp" uri="stomp://0.0.0.0:61613?maximumConnections=10"
     updateClusterClients="true"/>
  </transportConnectors>
 </broker>
 <import resource="jetty.xml"/>
</beans>
"""

APOLLO = """
<broker xmlns="http://activemq.apache.org/schema/activemq/apollo" security_factory="x.Y">
 <authentication domain="apollo"/>
 <access_rule allow="users" action="connect create destroy send receive consume"/>
 <access_rule allow="guests" action="send" connector="tcp2"/>
 <access_rule allow="guests" action="send" id_regex="a.*"/>
 <virtual_host id="v" auto_create_queues="true">
  <host_name>localhost</host_name>
  <access_rule allow="bosses" action="admin"/>
  <queue id="a" quota="1k" swap="true"/>
  <topic id="t" slow_consumer_policy="block"><subscription tail_buffer="4k"/></topic>
  <leveldb_store directory="d"/>
 </virtual_host>
 <web_admin bind="http://127.0.0.1:61680"/>
 <connector id="tcp" bind="tcp://0.0.0.0:61613" connection_limit="10">
  <stomp max_header_length="10k"/><mqtt/>
 </connector>
 <key_storage file="k" password="p"/>
</broker>
"""
# Told by the note about the element around them.
INSIDE = frozenset(
    {
        "diverts", "bean", "managementContext", "persistenceAdapter", "systemUsage", "import",
        "leveldb_store", "web_admin", "key_storage", "subscription", "dispatchPolicy",
        "role-mapping", "authentication",
    }
)  # fmt: skip
# Frames around what is read, which are taken away piece by piece, and names that have a default.
FRAMES = frozenset(
    {
        "address/anycast", "anycast/queue", "queue@name", "acceptor@name", "permission@type",
        "transportConnector@name", "virtual_host@id",
    }
)  # fmt: skip


def told(root: ElementTree.Element) -> object:
    try:
        found = import_text(ElementTree.tostring(root, encoding="unicode"))
        return found.data(), found.short_notes(), found.opens
    except ImportRefused as refused:
        return str(refused)


@pytest.mark.parametrize("text", [ARTEMIS, ACTIVEMQ, APOLLO], ids=["artemis", "activemq", "apollo"])
def test_whatever_is_taken_away_the_import_tells(text: str) -> None:
    root = ElementTree.fromstring(text)
    whole = told(root)
    silent = []
    waiting = [root]
    while waiting:
        element = waiting.pop()
        name = local_name(element)
        for key, value in list(element.attrib.items()):
            del element.attrib[key]
            if told(root) == whole and f"{name}@{key}" not in FRAMES:
                silent.append(f"{name}@{key}")
            element.attrib[key] = value
        for place, child in enumerate(list(element)):
            element.remove(child)
            if told(root) == whole and f"{name}/{local_name(child)}" not in FRAMES:
                silent.append(f"{name}/{local_name(child)}")
            element.insert(place, child)
            if local_name(child) not in INSIDE:
                waiting.append(child)
    assert silent == []
