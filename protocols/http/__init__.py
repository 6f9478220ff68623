"""HTTP: management, metrics, health, the console, and STOMP over WebSocket, on one port.

Read `app` first, then `routes` (the table of all requests) and `routing`. `ask` is a request,
`answer` is what comes back, `auth` checks who asks, `schemas` says what a body may hold. The
handlers: `management`, `listing`, `messages`, `transfers`, `configuration`, `metrics`, `openapi`.
`console` is the web page with its sign-in and its streams of events. `server` is the port and
reads it fairly, `websocket` and `websocket_stream` carry STOMP.
"""
