// Scenarios with @stomp/stompjs: node stompjs.js PORT SCENARIO. Exit code 0: it went as it should.
"use strict";

const assert = require("assert");
const { Client } = require("@stomp/stompjs");
const { TcpSocket } = require("../../../docs/examples/stompjs/tcp_socket.js");

const port = Number(process.argv[2]);

function connect(options = {}) {
  return new Promise((resolve, reject) => {
    const client = new Client({
      webSocketFactory: () => new TcpSocket(port, "127.0.0.1"),
      connectHeaders: { login: "admin", passcode: "password", host: "localhost" },
      reconnectDelay: 0,
      heartbeatIncoming: 0,
      heartbeatOutgoing: 0,
      ...options,
    });
    client.onConnect = () => resolve(client);
    client.onStompError = (frame) => reject(new Error(frame.headers.message));
    client.activate();
  });
}

// What a subscription brings, to be taken one by one.
function listen(client, destination, headers = {}) {
  const waiting = [];
  const arrived = [];
  client.subscribe(destination, (message) => {
    if (waiting.length) waiting.shift()(message);
    else arrived.push(message);
  }, headers);
  return () => new Promise((resolve) => {
    if (arrived.length) resolve(arrived.shift());
    else waiting.push(resolve);
  });
}

function receipt(client, id) {
  return new Promise((resolve) => client.watchForReceipt(id, resolve));
}

const scenarios = {
  async versions() {
    for (const version of ["1.0", "1.1", "1.2"]) {
      const client = await connect({ stompVersions: { versions: [version],
        supportedVersions: () => version, protocolVersions: () => [] } });
      assert.equal(client.connectedVersion, version);
      const next = listen(client, `/queue/js.${version}`);
      client.publish({ destination: `/queue/js.${version}`, body: "Grüße, 世界 🐦" });
      assert.equal((await next()).body, "Grüße, 世界 🐦");
      await client.deactivate();
    }
  },

  async binary() {
    const client = await connect();
    const next = listen(client, "/queue/js.binary");
    const body = new Uint8Array(8 * 1024 * 1024).map((_, index) => index & 255);
    // Not "\\c": stompjs itself unescapes a backslash before c, n or r twice.
    const who = "a:b\\d\nÜ";
    client.publish({ destination: "/queue/js.binary", binaryBody: body, headers: { who } });
    const message = await next();
    assert.ok(Buffer.from(message.binaryBody).equals(Buffer.from(body)));
    assert.equal(message.headers.who, who);
    await client.deactivate();
  },

  async nack() {
    const client = await connect();
    const next = listen(client, "/queue/js.nack", { ack: "client-individual" });
    client.publish({ destination: "/queue/js.nack", body: "again" });
    (await next()).nack();
    const message = await next();
    assert.equal(message.headers.redelivered, "true");
    const done = receipt(client, "acked");
    message.ack({ receipt: "acked" });
    await done;
    await client.deactivate();
  },

  async transaction() {
    const client = await connect();
    const next = listen(client, "/queue/js.tx");
    const undone = client.begin();
    client.publish({ destination: "/queue/js.tx", body: "never",
      headers: { transaction: undone.id } });
    undone.abort();
    const done = client.begin();
    client.publish({ destination: "/queue/js.tx", body: "done",
      headers: { transaction: done.id } });
    done.commit();
    assert.equal((await next()).body, "done");
    await client.deactivate();
  },

  async heartbeats() {
    const client = await connect({ heartbeatIncoming: 200, heartbeatOutgoing: 200 });
    await new Promise((resolve) => setTimeout(resolve, 1000)); // a dead peer lives 400 ms
    assert.ok(client.connected);
    await client.deactivate();
  },

  async groups() {
    const [one, two, sender] = [await connect(), await connect(), await connect()];
    const heard = [[], []];
    await new Promise((resolve) => {
      [one, two].forEach((client, who) => client.subscribe("/queue/js.groups", (message) => {
        heard[who].push(Number(message.body));
        message.ack();
        if (heard[0].length + heard[1].length === 40) resolve();
      }, { ack: "client-individual" }));
      for (let number = 0; number < 40; number += 1) {
        sender.publish({ destination: "/queue/js.groups", body: String(number),
          headers: { message_group: `g${number % 8}` } });
      }
    });
    for (const numbers of heard) {
      for (let group = 0; group < 8; group += 1) {
        const mine = numbers.filter((number) => number % 8 === group);
        assert.deepEqual(mine, [...mine].sort((a, b) => a - b));
      }
    }
    await Promise.all([one, two, sender].map((client) => client.deactivate()));
  },
};

scenarios[process.argv[3]]().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
