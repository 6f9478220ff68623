"""Configuration: every option of the broker, how it is read, and what is refused."""
