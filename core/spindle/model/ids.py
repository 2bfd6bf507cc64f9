"""Kafka's 128-bit ids as text: URL-safe base64 without padding (``org.apache.kafka.common.Uuid``)."""

import base64
import binascii
import hashlib
from typing import Final

_LENGTH: Final = 16
_RESERVED_BELOW: Final = 100  # DirectoryId reserves the first hundred ids


def uuid_from_entropy(entropy: bytes, *path: str) -> str:
    """Derive an id from random bytes and a path that says what the id is for.

    The same entropy and path give the same id, so that a pure plan can name several new ids at once.

    Args:
        entropy: at least 16 random bytes, fresh for each plan.
        path: what the id is for, for example ``("broker", "0", "disk1")``.
    """
    if len(entropy) < _LENGTH:
        raise ValueError(f"entropy has {len(entropy)} bytes, but at least {_LENGTH} are needed")
    counter = 0
    while True:
        digest = hashlib.sha256(entropy + b"\0".join(p.encode() for p in (*path, str(counter)))).digest()[
            :_LENGTH
        ]
        text = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        # Kafka itself never generates an id that starts with a dash, because command lines would parse it as an option.
        if not text.startswith("-") and int.from_bytes(digest) >= _RESERVED_BELOW:
            return text
        counter += 1


def is_uuid(text: str) -> bool:
    """Whether a text is an id that Kafka accepts and does not reserve."""
    try:
        raw = base64.urlsafe_b64decode(text + "==")
    except (ValueError, binascii.Error):
        return False
    return len(text) == 22 and len(raw) == _LENGTH and int.from_bytes(raw) >= _RESERVED_BELOW
