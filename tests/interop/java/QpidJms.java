// Scenarios of Qpid JMS: java QpidJms PORT SCENARIO
// Each one checks what it must see and ends with "ok"; a failed check is an exception.

import jakarta.jms.BytesMessage;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.qpid.jms.JmsConnectionFactory;

public class QpidJms {
  static final long SOON_MS = 10_000; // for what must come
  static final long NEVER_MS = 300; // for what must not

  static String port;

  public static void main(String[] arguments) throws Exception {
    port = arguments[0];
    QpidJms.class.getDeclaredMethod(arguments[1]).invoke(null);
    System.out.println("ok");
    System.exit(0);
  }

  static Connection connect(String clientId, String password) throws JMSException {
    JmsConnectionFactory factory = new JmsConnectionFactory("amqp://127.0.0.1:" + port);
    Connection connection = factory.createConnection("admin", password);
    if (clientId != null) connection.setClientID(clientId);
    connection.start();
    return connection;
  }

  static Connection connect() throws JMSException {
    return connect(null, "password");
  }

  static Session automatic(Connection connection) throws JMSException {
    return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void equal(Object expected, Object found) {
    check(expected.equals(found), "expected " + expected + ", found " + found);
  }

  static String text(MessageConsumer consumer) throws JMSException {
    Message message = consumer.receive(SOON_MS);
    check(message != null, "nothing came");
    return ((TextMessage) message).getText();
  }

  static void empty(MessageConsumer consumer) throws JMSException {
    check(consumer.receive(NEVER_MS) == null, "something came");
  }

  static void roundtrip() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.roundtrip");
      MessageProducer producer = session.createProducer(queue);
      TextMessage sent = session.createTextMessage("hello");
      sent.setJMSCorrelationID("c");
      sent.setJMSType("greeting");
      sent.setIntProperty("number", 7);
      sent.setBooleanProperty("flag", true);
      sent.setStringProperty("colour", "red");
      producer.send(sent, DeliveryMode.PERSISTENT, 7, 60_000);
      BytesMessage bytes = session.createBytesMessage();
      bytes.writeBytes(new byte[] {0, 1, -1});
      producer.send(bytes);
      MapMessage map = session.createMapMessage();
      map.setInt("a", 1);
      map.setString("b", "two");
      producer.send(map);
      MessageConsumer consumer = session.createConsumer(queue);
      TextMessage got = (TextMessage) consumer.receive(SOON_MS);
      equal("hello", got.getText());
      equal(sent.getJMSMessageID(), got.getJMSMessageID());
      equal("c", got.getJMSCorrelationID());
      equal("greeting", got.getJMSType());
      equal(7, got.getIntProperty("number"));
      equal(true, got.getBooleanProperty("flag"));
      equal("red", got.getStringProperty("colour"));
      equal(7, got.getJMSPriority());
      equal(DeliveryMode.PERSISTENT, got.getJMSDeliveryMode());
      equal(sent.getJMSExpiration(), got.getJMSExpiration());
      equal(queue, got.getJMSDestination());
      equal(3L, ((BytesMessage) consumer.receive(SOON_MS)).getBodyLength());
      MapMessage mapped = (MapMessage) consumer.receive(SOON_MS);
      equal(1, mapped.getInt("a"));
      equal("two", mapped.getString("b"));
    }
  }

  static void wrongPassword() throws Exception {
    try (Connection connection = connect(null, "wrong")) {
      throw new AssertionError("was let in");
    } catch (JMSSecurityException expected) {
      // as it should be
    }
  }

  static void selector() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.selector");
      MessageConsumer red =
          session.createConsumer(queue, "colour = 'red' AND number BETWEEN 2 AND 3");
      MessageProducer producer = session.createProducer(queue);
      for (int number = 1; number <= 4; number++) {
        Message message = session.createTextMessage("" + number);
        message.setStringProperty("colour", "red");
        message.setIntProperty("number", number);
        producer.send(message);
      }
      equal("2", text(red));
      equal("3", text(red));
      empty(red);
    }
  }

  static void groups() throws Exception {
    try (Connection one = connect();
        Connection two = connect()) {
      Session sending = automatic(one);
      Queue queue = sending.createQueue("jms.groups");
      List<MessageConsumer> consumers = new ArrayList<>();
      for (Connection each : List.of(one, two)) {
        consumers.add(automatic(each).createConsumer(queue));
      }
      MessageProducer producer = sending.createProducer(queue);
      for (int number = 0; number < 60; number++) {
        Message message = sending.createTextMessage("" + number);
        message.setStringProperty("JMSXGroupID", "group-" + number % 6);
        message.setIntProperty("JMSXGroupSeq", number / 6 + 1);
        producer.send(message);
      }
      Map<String, Integer> owners = new HashMap<>();
      Map<String, Integer> last = new HashMap<>();
      int received = 0;
      for (int owner = 0; owner < consumers.size(); owner++) {
        Message message;
        while ((message = consumers.get(owner).receive(NEVER_MS)) != null) {
          String group = message.getStringProperty("JMSXGroupID");
          int sequence = message.getIntProperty("JMSXGroupSeq");
          equal(owner, owners.getOrDefault(group, owner));
          equal(last.getOrDefault(group, 0) + 1, sequence);
          owners.put(group, owner);
          last.put(group, sequence);
          received++;
        }
      }
      equal(60, received);
    }
  }

  static void transactions() throws Exception {
    try (Connection connection = connect()) {
      Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
      Queue queue = session.createQueue("jms.transactions");
      MessageProducer producer = session.createProducer(queue);
      MessageConsumer consumer = session.createConsumer(queue);
      producer.send(session.createTextMessage("undone"));
      session.rollback();
      producer.send(session.createTextMessage("1"));
      producer.send(session.createTextMessage("2"));
      session.commit();
      equal("1", text(consumer));
      session.rollback();
      Message again = consumer.receive(SOON_MS);
      equal("1", ((TextMessage) again).getText());
      check(again.getJMSRedelivered(), "not marked as redelivered");
      equal("2", text(consumer));
      session.commit();
      empty(consumer);
      session.commit();
    }
  }

  static void recovery() throws Exception {
    try (Connection connection = connect()) {
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue("jms.recovery");
      session.createProducer(queue).send(session.createTextMessage("again"));
      MessageConsumer consumer = session.createConsumer(queue);
      equal("again", text(consumer));
      session.recover();
      Message again = consumer.receive(SOON_MS);
      check(again.getJMSRedelivered(), "not marked as redelivered");
      equal(2, again.getIntProperty("JMSXDeliveryCount"));
      again.acknowledge();
    }
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      empty(session.createConsumer(session.createQueue("jms.recovery")));
    }
  }

  static void durable() throws Exception {
    try (Connection connection = connect("jms-durable", "password")) {
      Session session = automatic(connection);
      Topic topic = session.createTopic("jms.durable");
      MessageConsumer first = session.createDurableConsumer(topic, "news");
      first.close();
      session.createProducer(topic).send(session.createTextMessage("missed"));
    }
    try (Connection connection = connect("jms-durable", "password")) {
      Session session = automatic(connection);
      Topic topic = session.createTopic("jms.durable");
      MessageConsumer second = session.createDurableConsumer(topic, "news");
      equal("missed", text(second));
      second.close();
      session.unsubscribe("news");
      session.createProducer(topic).send(session.createTextMessage("unheard"));
      empty(session.createDurableConsumer(topic, "news"));
    }
  }

  static void shared() throws Exception {
    try (Connection one = connect();
        Connection two = connect()) {
      Session sending = automatic(one);
      Topic topic = sending.createTopic("jms.shared");
      List<MessageConsumer> volatileOnes = new ArrayList<>();
      List<MessageConsumer> durableOnes = new ArrayList<>();
      for (Connection each : List.of(one, two)) {
        Session session = automatic(each);
        volatileOnes.add(session.createSharedConsumer(topic, "light"));
        durableOnes.add(session.createSharedDurableConsumer(topic, "heavy"));
      }
      MessageProducer producer = sending.createProducer(topic);
      for (int number = 0; number < 20; number++) {
        producer.send(sending.createTextMessage("" + number));
      }
      for (List<MessageConsumer> consumers : List.of(volatileOnes, durableOnes)) {
        List<Integer> got = new ArrayList<>();
        for (MessageConsumer consumer : consumers) {
          int before = got.size();
          Message message;
          while ((message = consumer.receive(NEVER_MS)) != null) {
            got.add(Integer.parseInt(((TextMessage) message).getText()));
          }
          check(got.size() > before, "one of them got nothing");
        }
        Collections.sort(got);
        equal(20, got.size());
        equal(19, got.get(19));
      }
      for (MessageConsumer consumer : durableOnes) consumer.close();
      sending.unsubscribe("heavy");
    }
  }

  static void browser() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.browser");
      MessageProducer producer = session.createProducer(queue);
      for (int number = 0; number < 5; number++) {
        producer.send(session.createTextMessage("" + number));
      }
      for (int round = 0; round < 2; round++) {
        try (QueueBrowser browser = session.createBrowser(queue)) {
          equal(5, Collections.list(browser.getEnumeration()).size());
        }
      }
      MessageConsumer consumer = session.createConsumer(queue);
      for (int number = 0; number < 5; number++) equal("" + number, text(consumer));
    }
  }

  static void temporary() throws Exception {
    try (Connection asking = connect();
        Connection answering = connect()) {
      Session client = automatic(asking);
      Session service = automatic(answering);
      Queue queue = client.createQueue("jms.requests");
      TemporaryQueue replies = client.createTemporaryQueue();
      MessageConsumer answers = client.createConsumer(replies);
      Message request = client.createTextMessage("question");
      request.setJMSReplyTo(replies);
      client.createProducer(queue).send(request);
      Message asked = service.createConsumer(queue).receive(SOON_MS);
      Message answer = service.createTextMessage("answer");
      answer.setJMSCorrelationID(asked.getJMSMessageID());
      service.createProducer(null).send(asked.getJMSReplyTo(), answer);
      Message got = answers.receive(SOON_MS);
      equal("answer", ((TextMessage) got).getText());
      equal(request.getJMSMessageID(), got.getJMSCorrelationID());
      answers.close();
      replies.delete();
    }
  }
}
