// @stomp/stompjs over a real WebSocket: node websocket.js URL. Exit code 0: it went as it should.
"use strict";

const assert = require("assert");
const { Client } = require("@stomp/stompjs");

const url = process.argv[2];

function connect(versions, expected) {
  return new Promise((resolve, reject) => {
    const client = new Client({
      brokerURL: url,
      stompVersions: versions,
      connectHeaders: { login: "admin", passcode: "password", host: "localhost" },
      reconnectDelay: 0,
      heartbeatIncoming: 500,
      heartbeatOutgoing: 500,
    });
    client.onConnect = (frame) => {
      assert.strictEqual(frame.headers.version, expected);
      resolve(client);
    };
    client.onStompError = (frame) => reject(new Error(frame.headers.message));
    client.onWebSocketError = () => reject(new Error("the WebSocket failed"));
    client.activate();
  });
}

function roundTrip(client, destination, body) {
  return new Promise((resolve) => {
    client.subscribe(destination, (message) => {
      message.ack();
      resolve(message);
    }, { ack: "client-individual" });
    client.publish({ destination, ...body });
  });
}

async function main() {
  const { Versions } = require("@stomp/stompjs");
  for (const version of ["1.0", "1.1", "1.2"]) {
    const client = await connect(new Versions([version]), version);
    const text = await roundTrip(client, `/queue/text-${version}`, { body: "hällo ✓\n\n" });
    assert.strictEqual(text.body, "hällo ✓\n\n");
    const bytes = Uint8Array.from([0, 255, 254, 10, 0]);
    const binary = await roundTrip(client, `/queue/binary-${version}`, { binaryBody: bytes });
    assert.deepStrictEqual(Buffer.from(binary.binaryBody), Buffer.from(bytes));
    const large = "x".repeat(1 << 20);
    const echoed = await roundTrip(client, `/queue/large-${version}`, { body: large });
    assert.strictEqual(echoed.body, large);
    await client.deactivate();
  }
}

main().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
