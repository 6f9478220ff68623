// Qpid JMS over the loss of a broker: java Failover URI COUNT
// Sends numbers in five groups, each when the one before was accepted, and receives them. Says "ready"
// when a fifth is done; at the end a line of JSON: what was accepted, what came, the longest pause.

import jakarta.jms.Connection;
import jakarta.jms.MessageProducer;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

public class Failover {
  public static void main(String[] arguments) throws Exception {
    int count = Integer.parseInt(arguments[1]);
    List<Integer> confirmed = new ArrayList<>();
    List<Integer> received = Collections.synchronizedList(new ArrayList<>());
    JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
    Connection connection = factory.createConnection("ann", "secret");
    Session reading = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    reading
        .createConsumer(reading.createQueue("failover.jms"))
        .setMessageListener(
            message -> {
              try {
                received.add(Integer.valueOf(((TextMessage) message).getText()));
              } catch (Exception error) {
                throw new RuntimeException(error);
              }
            });
    connection.start();
    Session writing = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    MessageProducer producer = writing.createProducer(writing.createQueue("failover.jms"));
    long latest = System.nanoTime();
    long pause = 0;
    for (int number = 0; number < count; number++) {
      TextMessage message = writing.createTextMessage(Integer.toString(number));
      message.setStringProperty("JMSXGroupID", "g" + number % 5);
      producer.send(message); // returns when it was accepted, whatever happens to the connection
      confirmed.add(number);
      pause = Math.max(pause, System.nanoTime() - latest);
      latest = System.nanoTime();
      if (confirmed.size() == count / 5) System.out.println("ready");
      Thread.sleep(5);
    }
    while (new HashSet<>(new ArrayList<>(received)).size() < count) Thread.sleep(20);
    System.out.printf(
        "{\"confirmed\": %s, \"received\": %s, \"pause_s\": %f}%n", confirmed, received, pause / 1e9);
    System.exit(0);
  }
}
