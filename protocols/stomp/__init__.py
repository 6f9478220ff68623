"""STOMP 1.0, 1.1 and 1.2: frames to core calls, and deliveries to frames.

Read `engine` first, then `session`: what a client has once it has logged in.

- In: `parser` and `line_parser` (bytes to frames), `verbs` (what each frame does), `send` with
  `send_plan` (SEND, the hot path), `ack` with `holding`, `subscribe`.
- Out: `consumer`, `message` and `message_frame` (MESSAGE), `session` (RECEIPT), `heartbeat`.
- Tables and words: `frame`, `versions`, `mapping`, `settings`.
"""
