"""HTTP: management, metrics, health, the console, and STOMP over WebSocket, on one port.

Read `app` first, then `routes` (everything that can be asked) and `routing`. `ask` and `answer` are
a request and what comes back, `auth` is who asks, `schemas` what a body may hold. The handlers:
`management`, `listing`, `messages`, `configuration`, `definitions`, `metrics`, `openapi`. `console`
is the web page with its sign-in and its streams of events. `server` is the port,
`websocket` and `websocket_stream` carry STOMP.
"""
