"""HTTP: management, metrics, health, a status page, and STOMP over WebSocket, on one port.

Read `app` first, then `routes` (everything that can be asked) and `routing`. `ask` and `answer` are
a request and what comes back, `auth` is who asks, `schemas` what a body may hold. The handlers:
`management`, `messages`, `definitions`, `metrics`, `openapi`, `status_page`. `server` is the port,
`websocket` and `websocket_stream` carry STOMP.
"""
