// A WebSocket's face on a TCP connection: @stomp/stompjs only speaks WebSocket by itself.
"use strict";

const net = require("net");

class TcpSocket {
  constructor(port, host) {
    this.url = `tcp://${host}:${port}`;
    this.readyState = 0; // connecting
    this.socket = net.connect(port, host);
    this.socket.on("connect", () => { this.readyState = 1; this.onopen(); });
    this.socket.on("data", (data) => this.onmessage({ data }));
    this.socket.on("error", (error) => this.onerror && this.onerror(error));
    this.socket.on("close", () => { this.readyState = 3; this.onclose({ wasClean: true }); });
  }

  send(data) { this.socket.write(Buffer.from(data)); }

  close() { this.readyState = 2; this.socket.end(); }
}

module.exports = { TcpSocket };
