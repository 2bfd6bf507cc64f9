"""One listener of one broker and its configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

SCRAM: Final = "scram"
MTLS: Final = "mtls"
MECHANISM: Final = "SCRAM-SHA-512"
# Whether clients have a password, and whether there is TLS.
_PROTOCOLS: Final = {
    (False, False): "PLAINTEXT",
    (False, True): "SSL",
    (True, False): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class BrokerListener:
    """A listener for clients.

    Attributes:
        name: as in the spec; in Kafka it has capital letters.
        port: port that the broker listens on.
        auth: ``none``, ``mtls`` or ``scram``.
        host, advertised: advertised name or address, and port.
        tls: whether connections are encrypted.
        own_certificate: whether it presents a certificate of the user's own, from the file for it in the layout's folder.
        limits: Kafka's settings of the listener that limit its connections, without their prefix.
    """

    name: str
    port: int
    auth: str
    host: str
    advertised: int
    tls: bool = True
    limits: tuple[tuple[str, str], ...] = ()
    own_certificate: bool = False

    @property
    def listener(self) -> str:
        """Kafka's name of the listener."""
        return self.name.upper()

    @property
    def address(self) -> str:
        """The advertised ``host:port``; an IPv6 address is in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.advertised}"


def keystore_key(listener: str) -> str:
    """Kafka's setting for the file with a listener's key and certificate chain."""
    return f"listener.name.{listener}.ssl.keystore.location"


def keystore_path(folder: str, listener: str, mark: str = "") -> str:
    """That file: the present one, or the same under a name that tells it from others."""
    return f"{folder}/{listener}{f'.{mark}' if mark else ''}.pem"


def protocols(listeners: Iterable[BrokerListener]) -> dict[str, str]:
    """Kafka's security protocol of each listener."""
    return {listener.listener: _PROTOCOLS[listener.auth == SCRAM, listener.tls] for listener in listeners}


def listener_settings(listeners: Iterable[BrokerListener], folder: str) -> Mapping[str, str]:
    """Properties of a broker for its listeners, except addresses and protocols.

    ``folder`` has the listeners' own certificates.

    Source: Kafka's ``ChannelBuilders``, which prefers ``listener.name.<in small letters>.<key>`` to ``<key>``.
    """
    settings: dict[str, str] = {}
    for listener in listeners:
        prefix = f"listener.name.{listener.name}"
        # A client that presents a certificate without being asked for one has the same identity as without it.
        if listener.tls:
            settings[f"{prefix}.ssl.client.auth"] = "required" if listener.auth == MTLS else "none"
        if listener.own_certificate:
            settings |= {keystore_key(listener.name): keystore_path(folder, listener.name)}
            # Its next certificate may have another subject and other hosts (SslFactory.ensureCompatible would refuse it).
            settings |= {f"{prefix}.ssl.allow.{what}.changes": "true" for what in ("dn", "san")}
        if listener.auth == SCRAM:
            settings[f"{prefix}.sasl.enabled.mechanisms"] = MECHANISM
            settings[f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config"] = _LOGIN
        settings |= {f"{prefix}.{key}": value for key, value in listener.limits}
    return settings
