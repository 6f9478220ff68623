// rhea over the loss of a broker: node failover.js PORT[,PORT..] COUNT
// Sends numbers in five groups, each when the one before was accepted, and receives them. Says "ready"
// when a fifth is done; at the end a line of JSON: what was accepted, what came, the longest pause.
'use strict';

const rhea = require('rhea');

const ports = process.argv[2].split(',').map(Number);
const count = Number(process.argv[3]);
const confirmed = [];
const received = [];
const seen = new Set();
let current = null; // the delivery that is not answered yet
let latest = Date.now();
let pauseMs = 0;
let tries = 0;

const connection = rhea.create_container().connect({
  connection_details: () => ({ host: '127.0.0.1', port: ports[tries++ % ports.length] }),
  username: 'ann',
  password: 'secret',
  initial_reconnect_delay: 50,
  max_reconnect_delay: 500,
});
connection.on('connection_error', () => {}); // the broker says why it goes; rhea connects again
connection.on('disconnected', () => { current = null; });
connection.on('error', () => {});
connection.open_receiver('failover.rhea');
const sender = connection.open_sender('failover.rhea');

function send() {
  const number = confirmed.length;
  if (current !== null || number === count || !sender.sendable()) return;
  current = sender.send({ body: number, durable: true, group_id: 'g' + (number % 5) });
}

function end() {
  if (confirmed.length < count || seen.size < count) return;
  console.log(JSON.stringify({ confirmed, received, pause_s: pauseMs / 1000 }));
  process.exit(0);
}

sender.on('accepted', (context) => {
  if (context.delivery !== current) return;
  current = null;
  confirmed.push(confirmed.length);
  pauseMs = Math.max(pauseMs, Date.now() - latest);
  latest = Date.now();
  if (confirmed.length === count / 5) console.log('ready');
  end();
});
sender.on('released', () => { current = null; });
connection.on('message', (context) => {
  received.push(context.message.body);
  seen.add(context.message.body);
  end();
});
setInterval(send, 5);
