"""The server: settings in, a running broker out.

`server` puts everything together. It knows wire protocols through `covey.protocols.registry` only.
`log_audit` writes what an operator must hear. `event_log_task` runs the event log.
`spans` follows messages for OpenTelemetry, `span_export` sends that. `systemd` talks
to the service manager.
"""
