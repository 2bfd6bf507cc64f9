"""One listener of one broker and its configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

SCRAM: Final = "scram"
MTLS: Final = "mtls"
OAUTH: Final = "oauth"
MECHANISM: Final = "SCRAM-SHA-512"
# Whether clients log in (SASL), and whether there is TLS.
_PROTOCOLS: Final = {
    (False, False): "PLAINTEXT",
    (False, True): "SSL",
    (True, False): "SASL_PLAINTEXT",
    (True, True): "SASL_SSL",
}
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


_TOKENS: Final = "OAUTHBEARER"
_UNUSED: Final = 'unsecuredLoginStringClaim_sub="unused"'
_VALIDATOR: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
# Without it, a client that has logged in once stays connected when its token has expired. The token's own end is earlier in most cases.
_LONGEST_SESSION: Final = "3600000"


@dataclass(frozen=True)
class Tokens:
    """Which tokens a listener accepts.

    Attributes:
        issuer, audience: claims ``iss`` and ``aud``.
        jwks: URL of the issuer's keys.
        principal_claim: the claim that is the principal's name.
        trusted: certificates (PEM) of the authorities of that URL; empty for those that Java trusts.
    """

    issuer: str
    jwks: str
    audience: str
    principal_claim: str = "sub"
    trusted: str = ""


@dataclass(frozen=True)
class BrokerListener:
    """A listener for clients.

    Attributes:
        name: as in the spec; in Kafka it has capital letters.
        port: port that the broker listens on.
        auth: ``none``, ``mtls``, ``scram`` or ``oauth``.
        tokens: which ones, for ``oauth``.
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
    tokens: Tokens | None = None

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
    return {
        listener.listener: _PROTOCOLS[listener.auth in (SCRAM, OAUTH), listener.tls] for listener in listeners
    }


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
        if listener.tokens is not None:
            settings |= {f"{prefix}.{key}": value for key, value in _token_settings(listener.tokens).items()}
        settings |= {f"{prefix}.{key}": value for key, value in listener.limits}
    return settings


def _token_settings(tokens: Tokens) -> dict[str, str]:
    """Kafka's settings of its own validator of JSON Web Tokens, without the prefix of the listener."""
    mechanism = _TOKENS.lower()
    # A quoted value of a login module ends at the end of its line, of Windows or not.
    trusted = "\\n".join(tokens.trusted.strip().splitlines())
    # With options, Kafka wants a token of its own from the login module, which it never uses: nothing connects through this listener as a broker.
    options = (
        f' {_UNUSED} ssl.truststore.type="PEM" ssl.truststore.certificates="{trusted}"' if trusted else ""
    )
    validator = {
        "jwks.endpoint.url": tokens.jwks,
        "expected.issuer": tokens.issuer,
        "expected.audience": tokens.audience,
        "sub.claim.name": tokens.principal_claim,
    }
    return {
        "sasl.enabled.mechanisms": _TOKENS,
        f"{mechanism}.sasl.jaas.config": f"org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required{options};",
        f"{mechanism}.sasl.server.callback.handler.class": _VALIDATOR,
        f"{mechanism}.connections.max.reauth.ms": _LONGEST_SESSION,
        **{f"{mechanism}.sasl.oauthbearer.{key}": value for key, value in validator.items()},
    }


def token_urls(listeners: Iterable[BrokerListener]) -> tuple[str, ...]:
    """The URLs that brokers read keys from: Kafka reads only from those that a property of its JVM allows."""
    return tuple(sorted({each.tokens.jwks for each in listeners if each.tokens is not None}))


def allowed_urls(urls: Iterable[str]) -> str:
    """The option of the JVM that allows these URLs; empty for none."""
    listed = ",".join(urls)
    return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={listed}" if listed else ""
