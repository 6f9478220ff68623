// Scenarios of Qpid JMS: java QpidJms PORT SCENARIO
// Each one checks what it must see and ends with "ok"; a failed check is an exception.

import jakarta.jms.BytesMessage;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.JMSSecurityException;
import jakarta.jms.MapMessage;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.ObjectMessage;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.StreamMessage;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.TemporaryTopic;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
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

  static void delayed() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.delayed");
      MessageConsumer consumer = session.createConsumer(queue);
      MessageProducer producer = session.createProducer(queue);
      producer.setDeliveryDelay(1_000);
      long sentAt = System.currentTimeMillis();
      producer.send(session.createTextMessage("later"));
      producer.setDeliveryDelay(0);
      producer.send(session.createTextMessage("now"));
      equal("now", text(consumer));
      Message later = consumer.receive(SOON_MS);
      equal("later", ((TextMessage) later).getText());
      long came = System.currentTimeMillis() - sentAt;
      check(came >= 1_000, "came after " + came + " ms");
      check(later.getJMSDeliveryTime() >= sentAt + 1_000, "its delivery time is too early");
    }
  }

  static void selectsByHeaders() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.headers");
      MessageProducer producer = session.createProducer(queue);
      for (int number = 0; number < 4; number++) {
        Message message = session.createTextMessage("" + number);
        message.setJMSType(number % 2 == 0 ? "even" : "odd");
        message.setStringProperty("JMSXGroupID", "g" + number);
        producer.send(message, DeliveryMode.NON_PERSISTENT, number + 4, 0);
      }
      String rest = " AND JMSDeliveryMode = 'NON_PERSISTENT'";
      equal("3", text(session.createConsumer(queue, "JMSType = 'odd' AND JMSPriority > 6" + rest)));
      equal("2", text(session.createConsumer(queue, "JMSXGroupID IN ('g2', 'g9')" + rest)));
      equal("0", text(session.createConsumer(queue, "JMSMessageID IS NOT NULL" + rest)));
    }
  }

  static void closesGroups() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.close");
      MessageConsumer consumer = session.createConsumer(queue);
      MessageProducer producer = session.createProducer(queue);
      for (int sequence : new int[] {1, 2, -1, 1}) {
        Message message = session.createTextMessage("" + sequence);
        message.setStringProperty("JMSXGroupID", "g");
        message.setIntProperty("JMSXGroupSeq", sequence);
        producer.send(message);
      }
      for (int sequence : new int[] {1, 2, -1, 1}) {
        Message message = consumer.receive(SOON_MS);
        equal("g", message.getStringProperty("JMSXGroupID"));
        equal(sequence, message.getIntProperty("JMSXGroupSeq"));
      }
    }
  }

  static void listens() throws Exception {
    try (Connection connection = connect()) {
      Queue queue = automatic(connection).createQueue("jms.listens");
      BlockingQueue<String> got = new LinkedBlockingQueue<>();
      BlockingQueue<String> completed = new LinkedBlockingQueue<>();
      automatic(connection)
          .createConsumer(queue)
          .setMessageListener(
              message -> {
                try {
                  got.add(((TextMessage) message).getText());
                } catch (JMSException error) {
                  got.add(error.toString());
                }
              });
      Session session = automatic(connection);
      MessageProducer producer = session.createProducer(queue);
      for (int number = 0; number < 50; number++) {
        producer.send(
            session.createTextMessage("" + number),
            new CompletionListener() {
              public void onCompletion(Message message) {
                completed.add("done");
              }

              public void onException(Message message, Exception error) {
                completed.add(error.toString());
              }
            });
      }
      for (int number = 0; number < 50; number++) {
        equal("" + number, got.poll(SOON_MS, TimeUnit.MILLISECONDS));
        equal("done", completed.poll(SOON_MS, TimeUnit.MILLISECONDS));
      }
    }
  }

  static void givesBack() throws Exception {
    try (Connection connection = connect()) {
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue("jms.back");
      MessageProducer producer = session.createProducer(queue);
      for (int number = 0; number < 6; number++) {
        producer.send(session.createTextMessage("" + number));
      }
      MessageConsumer first = session.createConsumer(queue);
      Message zero = first.receive(SOON_MS);
      equal("0", ((TextMessage) zero).getText());
      zero.acknowledge();
      first.close(); // with the other five fetched in advance
      MessageConsumer second = session.createConsumer(queue);
      for (int number = 1; number < 6; number++) {
        Message message = second.receive(SOON_MS);
        equal("" + number, ((TextMessage) message).getText());
        check(!message.getJMSRedelivered(), "nobody had seen it");
      }
    }
  }

  static final int NO_ACKNOWLEDGE = 100; // of Qpid JMS: sent settled
  static final int INDIVIDUAL_ACKNOWLEDGE = 101;

  static void otherModes() throws Exception {
    try (Connection connection = connect()) {
      Session settled = connection.createSession(NO_ACKNOWLEDGE);
      Queue queue = settled.createQueue("jms.modes");
      MessageProducer producer = settled.createProducer(queue);
      MessageConsumer careless = settled.createConsumer(queue);
      producer.send(settled.createTextMessage("once"));
      equal("once", text(careless));
      careless.close();
      for (int number = 0; number < 3; number++) {
        producer.send(settled.createTextMessage("" + number));
      }
      Session single = connection.createSession(INDIVIDUAL_ACKNOWLEDGE);
      MessageConsumer careful = single.createConsumer(queue);
      careful.receive(SOON_MS);
      careful.receive(SOON_MS).acknowledge();
      equal("2", text(careful));
      single.close();
      Session last = connection.createSession(Session.DUPS_OK_ACKNOWLEDGE);
      MessageConsumer rest = last.createConsumer(queue);
      equal("0", text(rest));
      equal("2", text(rest));
      empty(rest);
    }
  }

  static void otherBodies() throws Exception {
    try (Connection connection = connect()) {
      Session session = automatic(connection);
      Queue queue = session.createQueue("jms.bodies");
      MessageProducer producer = session.createProducer(queue);
      StreamMessage stream = session.createStreamMessage();
      stream.writeInt(7);
      stream.writeString("seven");
      stream.writeBytes(new byte[] {7});
      producer.send(stream);
      producer.send(session.createObjectMessage(new ArrayList<>(List.of("a", "b"))));
      producer.send(session.createMessage());
      BytesMessage large = session.createBytesMessage();
      large.writeBytes(new byte[3_000_000]);
      producer.send(large);
      MessageConsumer consumer = session.createConsumer(queue);
      StreamMessage read = (StreamMessage) consumer.receive(SOON_MS);
      equal(7, read.readInt());
      equal("seven", read.readString());
      equal(1, read.readBytes(new byte[8]));
      equal(List.of("a", "b"), ((ObjectMessage) consumer.receive(SOON_MS)).getObject());
      check(consumer.receive(SOON_MS) != null, "a message without a body did not come");
      equal(3_000_000L, ((BytesMessage) consumer.receive(SOON_MS)).getBodyLength());
    }
  }

  static void temporaryTopic() throws Exception {
    try (Connection connection = connect();
        Connection other = connect()) {
      Session session = automatic(connection);
      TemporaryTopic topic = session.createTemporaryTopic();
      List<MessageConsumer> listeners =
          List.of(session.createConsumer(topic), session.createConsumer(topic, "a = 1"));
      Session sending = automatic(other);
      MessageProducer producer = sending.createProducer(topic);
      for (int number = 1; number <= 2; number++) {
        Message message = sending.createTextMessage("" + number);
        message.setIntProperty("a", number);
        producer.send(message);
      }
      equal("1", text(listeners.get(0)));
      equal("2", text(listeners.get(0)));
      equal("1", text(listeners.get(1)));
      empty(listeners.get(1));
      for (MessageConsumer listener : listeners) listener.close();
      topic.delete();
    }
  }

  static void durableWithSelector() throws Exception {
    for (int round = 0; round < 2; round++) {
      try (Connection connection = connect("jms-choosy", "password")) {
        Session session = automatic(connection);
        Topic topic = session.createTopic("jms.choosy");
        MessageConsumer choosy =
            session.createDurableConsumer(topic, "choosy", "round = 1", false);
        if (round == 1) {
          equal("1", text(choosy));
          empty(choosy);
          choosy.close();
          session.unsubscribe("choosy");
          return;
        }
        choosy.close();
        for (int number = 0; number < 2; number++) {
          Message message = session.createTextMessage("" + number);
          message.setIntProperty("round", number);
          session.createProducer(topic).send(message);
        }
      }
    }
  }

  static void lostConnection() throws Exception {
    String uri = "failover:(amqp://127.0.0.1:" + port + ")?failover.reconnectDelay=50";
    JmsConnectionFactory factory = new JmsConnectionFactory(uri);
    try (Connection connection = factory.createConnection("admin", "password")) {
      connection.start();
      Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
      Queue queue = session.createQueue("jms.failover");
      MessageProducer producer = session.createProducer(queue);
      MessageConsumer consumer = session.createConsumer(queue);
      producer.send(session.createTextMessage("kept"));
      producer.send(session.createTextMessage("done"));
      equal("kept", text(consumer));
      System.out.println("ready");
      System.in.read(); // until the broker has been killed and started again
      producer.send(session.createTextMessage("after"));
      Message again = consumer.receive(SOON_MS);
      equal("kept", ((TextMessage) again).getText());
      equal("done", text(consumer));
      Message last = consumer.receive(SOON_MS);
      equal("after", ((TextMessage) last).getText());
      last.acknowledge();
    }
  }
}
