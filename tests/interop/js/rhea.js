// Scenarios of rhea, the AMQP 1.0 client for node: node rhea.js PORT SCENARIO
// Each one asserts what it must see and ends by itself; a scenario that hangs fails by time.
'use strict';

const assert = require('assert');
const rhea = require('rhea');

const port = Number(process.argv[2]);
const scenario = process.argv[3];
const login = { host: '127.0.0.1', port, username: 'admin', password: 'password', reconnect: false };

const deadline = setTimeout(() => {
  console.error('timed out');
  process.exit(1);
}, 30000);

function done(connection) {
  clearTimeout(deadline);
  connection.close();
}

function connect(options) {
  return rhea.create_container().connect(Object.assign({}, login, options));
}

const scenarios = {
  roundtrip() {
    const connection = connect({ idle_time_out: 5000 });
    connection.open_receiver('rhea.roundtrip');
    const sender = connection.open_sender('rhea.roundtrip');
    let accepted = 0;
    sender.once('sendable', () => {
      for (let i = 0; i < 100; i++) sender.send({ body: { number: i }, group_id: 'g' + (i % 3) });
    });
    sender.on('accepted', () => { accepted++; });
    let next = 0;
    connection.on('message', (context) => {
      assert.strictEqual(context.message.body.number, next++);
      if (next === 100) setTimeout(() => { assert.strictEqual(accepted, 100); done(connection); }, 200);
    });
  },

  wrong_password() {
    const connection = connect({ password: 'wrong' });
    connection.on('connection_error', () => {});
    connection.on('connection_open', () => assert.fail('was let in'));
    connection.on('disconnected', () => clearTimeout(deadline));
  },

  outcomes() {
    const connection = connect();
    const sender = connection.open_sender('rhea.outcomes');
    sender.once('sendable', () => sender.send({ body: 'x' }));
    connection.open_receiver({ source: 'rhea.outcomes', autoaccept: false });
    const seen = [];
    connection.on('message', (context) => {
      seen.push(context.message.delivery_count || 0);
      if (seen.length === 1) return context.delivery.release();
      if (seen.length === 2) return context.delivery.modified({ delivery_failed: true });
      assert.deepStrictEqual(seen, [0, 0, 1]);
      context.delivery.reject({ condition: 'app:bad', description: 'no use' });
      setTimeout(() => done(connection), 200);
    });
  },

  drain() {
    const connection = connect();
    const sender = connection.open_sender('rhea.drain');
    sender.once('sendable', () => { sender.send({ body: 1 }); sender.send({ body: 2 }); });
    let accepted = 0;
    sender.on('accepted', () => {
      if (++accepted < 2) return;
      const receiver = connection.open_receiver({ source: 'rhea.drain', credit_window: 0 });
      let got = 0;
      receiver.on('message', () => { got++; });
      receiver.on('receiver_drained', () => {
        assert.strictEqual(got, 2);
        assert.strictEqual(receiver.credit, 0);
        done(connection);
      });
      receiver.once('receiver_open', () => { receiver.drain = true; receiver.add_credit(10); });
    });
  },

  presettled() {
    const connection = connect();
    const sender = connection.open_sender({ target: 'rhea.presettled', snd_settle_mode: 1 });
    sender.once('sendable', () => sender.send({ body: 'once' }));
    connection.open_receiver({ source: 'rhea.presettled', snd_settle_mode: 1 });
    connection.on('message', (context) => {
      assert.strictEqual(context.message.body, 'once');
      assert.strictEqual(context.delivery.remote_settled, true);
      done(connection);
    });
  },

  settles_second() {
    const connection = connect();
    const sender = connection.open_sender({ target: 'rhea.second', rcv_settle_mode: 1 });
    sender.once('sendable', () => sender.send({ body: 'twice' }));
    sender.on('accepted', () => connection.open_receiver({ source: 'rhea.second', rcv_settle_mode: 1 }));
    connection.on('message', () => setTimeout(() => done(connection), 200));
  },

  selector() {
    const connection = connect();
    connection.open_receiver({
      source: { address: 'rhea.selector', filter: rhea.filter.selector("colour = 'red'") },
    });
    const sender = connection.open_sender('rhea.selector');
    sender.once('sendable', () => {
      sender.send({ body: 1, application_properties: { colour: 'blue' } });
      sender.send({ body: 2, application_properties: { colour: 'red' } });
    });
    connection.on('message', (context) => {
      assert.strictEqual(context.message.body, 2);
      done(connection);
    });
  },

  rpc() {
    const connection = connect();
    const replies = connection.open_receiver({ source: { dynamic: true } });
    const sender = connection.open_sender('$management');
    replies.once('receiver_open', () => {
      sender.send({
        reply_to: replies.source.address,
        message_id: 7,
        body: { attributeNames: ['name'] },
        application_properties: { operation: 'QUERY', entityType: 'queue', name: 'self' },
      });
    });
    replies.on('message', (context) => {
      assert.strictEqual(context.message.correlation_id, 7);
      assert.strictEqual(context.message.application_properties.statusCode, 200);
      assert.deepStrictEqual(context.message.body.attributeNames, ['name']);
      done(connection);
    });
  },

  relay() {
    const connection = connect();
    connection.open_receiver('topic://rhea.relay').once('receiver_open', () => {
      const sender = connection.open_sender({ target: {} });
      sender.once('sendable', () => sender.send({ to: 'topic://rhea.relay', body: 'relayed' }));
    });
    connection.on('message', (context) => {
      assert.strictEqual(context.message.body, 'relayed');
      done(connection);
    });
  },

  refusal() {
    const connection = connect();
    const receiver = connection.open_receiver('nosuch://x');
    receiver.on('receiver_error', () => {
      assert.strictEqual(receiver.error.condition, 'amqp:invalid-field');
      done(connection);
    });
  },

  large() {
    // Each message has 900 frames, all four more than rhea's session window (2048), so that it has to
    // be renewed. rhea 3.0.5 does that when it settles a message, never while one is coming in: a
    // single message of more frames than the window hangs, whoever sends it.
    const bodies = ['a', 'b', 'c', 'd'].map((letter) => letter.repeat(420 * 1024));
    const connection = connect({ max_frame_size: 512 });
    const sender = connection.open_sender('rhea.large');
    sender.once('sendable', () => bodies.forEach((body) => sender.send({ body })));
    connection.open_receiver('rhea.large');
    let count = 0;
    connection.on('message', (context) => {
      assert.strictEqual(context.message.body, bodies[count++]);
      if (count === bodies.length) done(connection);
    });
  },

  binary_tags() {
    const connection = connect();
    const sender = connection.open_sender('rhea.tags');
    sender.once('sendable', () => sender.send({ body: 'x' }, Buffer.from([0xff, 0x00, 0xc3])));
    sender.on('accepted', () => done(connection));
  },

  groups() {
    const connection = connect();
    connection.open_receiver('rhea.groups').once('receiver_open', () => {
      const sender = connection.open_sender('rhea.groups');
      sender.once('sendable', () => {
        for (let i = 0; i < 4; i++) sender.send({ body: i, group_id: 'g', group_sequence: i + 1 });
      });
    });
    const first = [];
    connection.on('message', (context) => {
      const annotations = context.message.message_annotations || {};
      first.push(annotations['x-opt-group-first-for-consumer'] === true);
      assert.strictEqual(context.message.group_sequence, first.length);
      if (first.length < 4) return;
      assert.deepStrictEqual(first, [true, false, false, false]);
      done(connection);
    });
  },

  undeliverable() {
    const connection = connect();
    const sender = connection.open_sender('rhea.undeliverable');
    sender.once('sendable', () => sender.send({ body: 'x' }));
    const one = connection.open_receiver({ source: 'rhea.undeliverable', autoaccept: false, name: 'one' });
    one.once('message', (context) => {
      context.delivery.modified({ delivery_failed: true, undeliverable_here: true });
      one.once('message', () => assert.fail('came again'));
      const two = connection.open_receiver({ source: 'rhea.undeliverable', name: 'two' });
      two.on('message', (again) => {
        assert.strictEqual(again.message.delivery_count, 1);
        done(connection);
      });
    });
  },

  browse() {
    const connection = connect();
    const sender = connection.open_sender('rhea.browse');
    sender.once('sendable', () => sender.send({ body: 'x' }));
    sender.on('accepted', () => {
      const source = { address: 'rhea.browse', distribution_mode: 'copy' };
      connection.open_receiver({ source, name: 'browser' }).on('message', () => {
        connection.open_receiver({ source: 'rhea.browse', name: 'taker' })
          .on('message', () => done(connection));
      });
    });
  },

  durable() {
    const source = { address: 'topic://rhea.durable', durable: 2, expiry_policy: 'never' };
    const first = connect({ container_id: 'rhea-durable' });
    const receiver = first.open_receiver({ source, name: 'news' });
    receiver.once('receiver_open', () => receiver.detach());
    receiver.once('receiver_close', () => first.close());
    first.once('connection_close', () => {
      const second = connect({ container_id: 'rhea-durable' });
      const sender = second.open_sender('topic://rhea.durable');
      sender.once('sendable', () => sender.send({ body: 'missed' }));
      sender.once('accepted', () => second.open_receiver({ source, name: 'news' }));
      second.on('message', (context) => {
        assert.strictEqual(context.message.body, 'missed');
        done(second);
      });
    });
  },

  takeover() {
    const options = { container_id: 'rhea-takeover' };
    const old = connect(options);
    const receiver = old.open_receiver({ source: 'rhea.takeover', name: 'mine' });
    receiver.once('receiver_open', () => {
      const young = connect(options);
      young.open_receiver({ source: 'rhea.takeover', name: 'mine' });
      receiver.on('receiver_error', () => {
        assert.strictEqual(receiver.error.condition, 'amqp:link:stolen');
        old.close();
        done(young);
      });
    });
  },
};

scenarios[scenario]();
