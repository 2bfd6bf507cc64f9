"""Errors whose messages are for the user."""


class ClientError(Exception):
    """Kafka was not reachable, or refused the request; or a file or a file's content is not usable."""
