"""Limits of the settings that users may set although Spindle owns others with the same prefix (`spindle.api.owned.Owned.free`).

With any permitted value, old and new one, a broker still connects to each other broker, and to the controllers, the operator and the agents:
during a rolling restart, both are in use.
"""

from collections.abc import Callable, Mapping
from typing import Final

# Every TLS client of the last years knows it, and it is the one that the strictest rules permit (CNSA 1.0).
COMMON_SUITE: Final = "TLS_AES_256_GCM_SHA384"
# Suites of Java 17 with forward secrecy and authenticated encryption. Java refuses names that it does not know, and Kafka then does not start.
SUITES: Final = (
    COMMON_SUITE,
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
)
COMMON_PROTOCOL: Final = "TLSv1.3"
PROTOCOLS: Final = (COMMON_PROTOCOL, "TLSv1.2")


def _elements(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _list_of(allowed: tuple[str, ...], common: str) -> Callable[[str], str | None]:
    def wrong(value: str) -> str | None:
        elements = _elements(value)
        if not elements or (common in elements and set(elements) <= set(allowed)):
            return None
        return f"a list with {common}, which brokers, operator and agents have in common during a rolling restart, and otherwise only {', '.join(allowed[1:])}"

    return wrong


def _between(least: int, most: int) -> Callable[[str], str | None]:
    def wrong(value: str) -> str | None:
        try:
            number = int(value)
        except ValueError:  # of another tool's configuration, for example a reference to a config provider
            number = least - 1
        return None if least <= number <= most else f"a number from {least} to {most}"

    return wrong


# Shorter, and a pause of the JVM is enough for an election; longer, and the cluster is without a controller for that time after one fails.
_TIMEOUT: Final = _between(500, 60_000)
_BYTES: Final = _between(65_536, 104_857_600)
LIMITS: Final[Mapping[str, Callable[[str], str | None]]] = {
    "controller.quorum.append.linger.ms": _between(0, 1_000),
    "controller.quorum.election.backoff.max.ms": _between(100, 60_000),
    "controller.quorum.election.timeout.ms": _TIMEOUT,
    "controller.quorum.fetch.max.bytes": _BYTES,
    "controller.quorum.fetch.snapshot.max.bytes": _BYTES,
    "controller.quorum.fetch.timeout.ms": _TIMEOUT,
    "controller.quorum.request.timeout.ms": _TIMEOUT,
    "controller.quorum.retry.backoff.ms": _between(10, 10_000),
    "ssl.cipher.suites": _list_of(SUITES, COMMON_SUITE),
    "ssl.enabled.protocols": _list_of(PROTOCOLS, COMMON_PROTOCOL),
}


def wanted_instead(key: str, value: str) -> str | None:
    """What Spindle accepts for a setting, in words, if that is less than Kafka and not this value; else None.

    Args:
        key: the setting.
        value: of it.
    """
    return LIMITS[key](value.strip()) if key in LIMITS else None
