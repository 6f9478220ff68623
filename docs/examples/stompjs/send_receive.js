// Sends a message and receives it, with @stomp/stompjs over plain TCP.
//
//   npm install @stomp/stompjs
//   node send_receive.js [PORT [HOST]]
"use strict";

const { Client } = require("@stomp/stompjs");
const { TcpSocket } = require("./tcp_socket.js");

const port = Number(process.argv[2] || 61613);
const host = process.argv[3] || "127.0.0.1";

const client = new Client({
  webSocketFactory: () => new TcpSocket(port, host),
  connectHeaders: { login: "admin", passcode: "password", host },
  reconnectDelay: 0, // an example ends, a service reconnects
});

client.onConnect = () => {
  client.subscribe(
    "/queue/example.js",
    (message) => {
      console.log(`received: ${message.body}`);
      message.ack();
      client.deactivate();
    },
    { ack: "client-individual" },
  );
  client.publish({ destination: "/queue/example.js", body: "hello from node" });
};
client.onStompError = (frame) => {
  console.error(frame.headers.message);
  process.exit(1);
};
client.activate();
