// Sends a message and receives it, with rhea.
//
//   npm install rhea
//   node send_receive.js [PORT [HOST]]
"use strict";

const rhea = require("rhea");

const port = Number(process.argv[2] || 5672);
const host = process.argv[3] || "127.0.0.1";

const connection = rhea.connect({ host, port, username: "admin", password: "password" });

connection.open_receiver({ source: "example.rhea", autoaccept: false });
connection.open_sender("example.rhea").once("sendable", (context) => {
  context.sender.send({ body: "hello from rhea", durable: true });
});

connection.on("message", (context) => {
  console.log(`received: ${context.message.body}`);
  context.delivery.accept();
  connection.close();
});
connection.on("connection_error", (context) => {
  console.error(context.error);
  process.exit(1);
});
