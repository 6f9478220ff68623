"""HTTP: management, metrics, health, a status page, and STOMP over WebSocket, on one port."""
