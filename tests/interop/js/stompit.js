// Scenarios with stompit: node stompit.js PORT SCENARIO. Exit code 0: it went as it should.
"use strict";

const assert = require("assert");
const stompit = require("stompit");

const port = Number(process.argv[2]);

function connect(headers = {}) {
  return new Promise((resolve, reject) => {
    stompit.connect({
      host: "127.0.0.1",
      port,
      connectHeaders: { host: "localhost", login: "admin", passcode: "password",
        "heart-beat": "0,0", ...headers },
    }, (error, client) => {
      if (error) { reject(error); return; }
      client.on("error", (problem) => { console.error(problem); process.exit(1); });
      resolve(client);
    });
  });
}

function send(client, headers, body, channel = client) {
  return new Promise((resolve) => {
    const frame = channel.send(headers, { onReceipt: resolve });
    frame.end(body);
  });
}

// What a subscription brings, with its body read, to be taken one by one.
function listen(client, headers) {
  const waiting = [];
  const arrived = [];
  client.subscribe(headers, (error, message) => {
    assert.ifError(error);
    const parts = [];
    message.on("data", (part) => parts.push(part));
    message.on("end", () => {
      const item = { message, body: Buffer.concat(parts) };
      if (waiting.length) waiting.shift()(item);
      else arrived.push(item);
    });
  });
  return () => new Promise((resolve) => {
    if (arrived.length) resolve(arrived.shift());
    else waiting.push(resolve);
  });
}

function disconnect(client) {
  return new Promise((resolve) => { client.disconnect(resolve); });
}

const scenarios = {
  async versions() {
    for (const version of ["1.0", "1.1", "1.2"]) {
      const client = await connect({ "accept-version": version });
      const destination = `/queue/stompit.${version}`;
      const next = listen(client, { destination, ack: "auto" });
      await send(client, { destination }, "Grüße, 世界 🐦");
      assert.equal((await next()).body.toString(), "Grüße, 世界 🐦");
      await disconnect(client);
    }
  },

  async binary() {
    const client = await connect();
    const destination = "/queue/stompit.binary";
    const body = Buffer.alloc(8 * 1024 * 1024, Buffer.from([0, 1, 2, 10, 13, 255]));
    const next = listen(client, { destination, ack: "auto" });
    await send(client, { destination, "content-length": body.length }, body);
    assert.ok((await next()).body.equals(body));
    await disconnect(client);
  },

  async nack() {
    const client = await connect();
    const destination = "/queue/stompit.nack";
    const next = listen(client, { destination, ack: "client-individual" });
    await send(client, { destination }, "again");
    client.nack((await next()).message);
    const { message } = await next();
    assert.equal(message.headers.redelivered, "true");
    client.ack(message);
    await disconnect(client);
  },

  async transaction() {
    const client = await connect();
    const destination = "/queue/stompit.tx";
    const next = listen(client, { destination, ack: "auto" });
    const undone = client.begin();
    undone.send({ destination }).end("never");
    undone.abort();
    const done = client.begin();
    done.send({ destination }).end("done");
    done.commit();
    assert.equal((await next()).body.toString(), "done");
    await disconnect(client);
  },

  async heartbeats() {
    const client = await connect({ "heart-beat": "200,200" });
    await new Promise((resolve) => setTimeout(resolve, 1000)); // a dead peer lives 300 ms
    await disconnect(client);
  },
};

scenarios[process.argv[3]]().then(() => process.exit(0), (error) => {
  console.error(error);
  process.exit(1);
});
