"""Creates CAs and certificates, and stores them in Secrets. Private keys and passwords never leave this module and `ca`."""

import asyncio
import base64
import datetime as dt
import secrets
import time
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from spindle.api import names
from spindle.listeners.own_certificates import file_names, listener_of, mark
from spindle.model.actions import (
    CertifyAgents,
    CopyCertificates,
    IssueCa,
    IssueCertificate,
    KeepPassword,
    TurnCa,
)
from spindle.model.times import stamp
from spindle.security.certificates import FOLLOWING, FORMER
from spindle_operator import ca, own_certificate
from spindle_operator.kinds import CONFIG_MAP, SECRET
from spindle_operator.kube import Kube
from spindle_operator.writing import Writer
from spindle_shared.api_answers import Json

_CERT, _KEY, _FOLLOWING_KEY = "ca.crt", "ca.key", "next.key"
_END: Final = b"-----END CERTIFICATE-----"
_TRUSTED: Final = (FOLLOWING, FORMER)


def password_mark(password: bytes | None) -> str | None:
    """Fingerprint of a password, to detect a change."""
    return sha256(b"spindle " + password).hexdigest()[:16] if password else None


def authority_in(secret: Mapping[str, Any]) -> ca.Pem:
    """The CA in a Secret in cert-manager's format; empty strings where it has none. Further certificates of a chain are ignored."""
    data = secret.get("data") or {}
    cert, key = (base64.b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key"))
    end = cert.find(_END)
    return ca.Pem(cert[: end + len(_END)] + b"\n" if end >= 0 else cert, key)


class Certificates:
    """The certificates of one KafkaCluster."""

    def __init__(self, kube: Kube, cluster: Json, writer: Writer) -> None:
        self._kube = kube
        self._writer = writer
        self._name: str = cluster["metadata"]["name"]
        self._namespace: str = cluster["metadata"]["namespace"]

    async def make(self, action: IssueCa) -> None:
        """Create the CA, or copy it from the user's Secret. It is an error if it exists already; it is never overwritten."""
        pem = await self._new(action.days, action.source)
        data = {_CERT: pem.cert, _KEY: pem.key}
        await self._writer.create(self._secret({**action.metadata, "name": action.secret}, data))

    async def turn(self, action: TurnCa) -> None:
        """One step of its replacement: one write, which the API server rejects if the Secret changed since it was read."""
        stored = await self._stored(action.secret)
        changes: dict[str, bytes | None]
        if action.step == "announce":
            pem = await self._new(action.days, action.source)
            changes = {FOLLOWING: pem.cert, _FOLLOWING_KEY: pem.key}
        elif action.step == "switch":
            changes = {
                FORMER: stored[_CERT],
                _CERT: stored[FOLLOWING],
                _KEY: stored[_FOLLOWING_KEY],
                FOLLOWING: None,
                _FOLLOWING_KEY: None,
            }
        else:
            changes = {FORMER: None}
        body: dict[str, Any] = {
            "metadata": {
                "uid": action.uid,
                "resourceVersion": action.resource_version,
                "annotations": dict(action.annotations),
            },
            "data": {key: _encoded(value) if value is not None else None for key, value in changes.items()},
        }
        await self._kube.patch(SECRET, self._namespace, action.secret, body)

    async def issue(self, action: IssueCertificate) -> None:
        """Sign a certificate and write it into its Secret.

        Raises:
            RuntimeError: the CAs have changed since the plan was made; the next pass makes a new plan.
        """
        stored, also = await self._trusted(action.trusted)
        # Generating a key takes a while on a small machine: not on the event loop.
        data = await asyncio.to_thread(
            ca.issue,
            ca.Pem(stored[_CERT], stored[_KEY]),
            action.common_name,
            action.dns_names,
            action.days,
            trusted=also,
        )
        if action.client_properties is not None:
            data = {**data, "client.properties": ca.client_properties(data, action.client_properties)}
        await self._writer.put(self._secret(_dated(action), data), action.seen)

    async def certify(self, action: CertifyAgents) -> None:
        """Sign the agents' requests, and write the certificates next to the kept ones.

        Raises:
            RuntimeError: as for `issue`; or the ConfigMap was replaced meanwhile.
        """
        stored, also = await self._trusted(action.trusted)
        authority, now = ca.Pem(stored[_CERT], stored[_KEY]), dt.datetime.fromtimestamp(time.time(), dt.UTC)

        def sign() -> dict[str, str]:
            return {
                node: ca.grant(
                    authority, pem.encode(), names.agent_principal(node), action.days, now
                ).decode()
                for node, pem in action.requests.items()
            }

        made = await asyncio.to_thread(sign)
        namespace, name = (str(action.metadata[key]) for key in ("namespace", "name"))
        kept = {}
        if action.seen is not None:
            found = await self._kube.get(CONFIG_MAP, namespace, name)
            if found["metadata"].get("uid") != action.seen["uid"]:
                raise RuntimeError(f"ConfigMap {name} was replaced meanwhile")
            kept = {node: pem for node, pem in (found.get("data") or {}).items() if node in action.keep}
        trusted = b"".join([stored[_CERT], *also]).decode()
        await self._writer.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": _dated(action),
                "data": {**kept, **made, names.AGENT_AUTHORITIES: trusted},
            },
            action.seen,
        )

    async def copy(self, action: CopyCertificates) -> None:
        """Copy the listeners' own certificates into the Secret that brokers read.

        Raises:
            RuntimeError: a Secret has changed since it was read; the next pass makes a new plan.
        """
        name = str(action.metadata["name"])
        stored = await self._stored(name, str(action.seen["uid"])) if action.seen is not None else {}
        data = {key: pem for key, pem in stored.items() if listener_of(key) in action.keep}
        for listener, (source, expected) in action.sources.items():
            found = own_certificate.read(await self._kube.get(SECRET, self._namespace, source), self._name)
            if found.certificate is None or mark(found.certificate) != expected:
                raise RuntimeError(f"Secret {source} has changed since it was read")
            data |= dict.fromkeys(file_names(listener, mark(found.certificate)), found.keystore)
        await self._writer.put(self._secret(_written(action.metadata, ""), data), action.seen)

    async def keep_password(self, action: KeepPassword) -> None:
        """Write the Secret of a user with a password; generates the password unless there is one.

        Raises:
            RuntimeError: as for `issue`; or the password in the Secret is not UTF-8.
        """
        stored, also = await self._trusted(action.trusted)
        name = str(action.metadata["name"])
        # A password that somebody else wrote there is not used.
        found = await self._stored(name, str(action.seen["uid"])) if action.seen is not None else {}
        kept = found.get("password", b"")
        if not _is_text(kept):
            raise RuntimeError(
                f"the password in Secret {name} is not UTF-8, and Kafka takes no other; to replace it: spindle user password {action.user} --new"
            )
        password = kept or secrets.token_urlsafe(32).encode()
        login = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{action.user}" password="{_quoted(password.decode())}";'
        )
        data = {
            "username": action.user.encode(),
            "password": password,
            "sasl.jaas.config": login.encode(),
            _CERT: b"".join([stored[_CERT], *also]),
        }
        await self._writer.put(self._secret(_dated(action), data), action.seen)

    async def password(self, secret: str, uid: str) -> bytes:
        """The password in a user's Secret.

        Raises:
            RuntimeError: the Secret was replaced meanwhile.
        """
        return (await self._stored(secret, uid))["password"]

    async def _trusted(self, expected: tuple[str, ...]) -> tuple[dict[str, bytes], list[bytes]]:
        """The CA's Secret, and the further certificates to trust."""
        stored = await self._stored(names.ca_secret(self._name))
        also = [stored[key] for key in _TRUSTED if key in stored]
        now = tuple(mark for pem in (stored[_CERT], *also) for mark in ca.fingerprints(pem))
        if expected and now != expected:
            raise RuntimeError("the CA has changed since it was read")
        return stored, also

    async def _new(self, days: int, source: tuple[str, str] | None) -> ca.Pem:
        if source is not None:
            name, expected = source
            pem = authority_in(await self._kube.get(SECRET, self._namespace, name))
            if ca.fingerprints(pem.cert)[0] != expected:
                raise RuntimeError(f"Secret {name} has changed since it was read")
            return pem
        return await asyncio.to_thread(ca.make_ca, f"{self._namespace}/{self._name} CA", days=days)

    async def _stored(self, secret: str, uid: str | None = None) -> dict[str, bytes]:
        found = await self._kube.get(SECRET, self._namespace, secret)
        if uid is not None and found["metadata"].get("uid") != uid:
            raise RuntimeError(f"Secret {secret} was replaced meanwhile")
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}

    def _secret(self, metadata: Mapping[str, Any], data: Mapping[str, bytes]) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"namespace": self._namespace, **metadata},
            "type": "Opaque",
            "data": {key: _encoded(value) for key, value in data.items()},
        }


def _dated(action: IssueCertificate | KeepPassword | CertifyAgents) -> dict[str, Any]:
    """The object's metadata with the time since which it lists these CAs: from the action, else now."""
    return _written(action.metadata, action.since)


def _written(metadata: Mapping[str, Any], since: str) -> dict[str, Any]:
    annotations = metadata.get("annotations") or {}
    return {**metadata, "annotations": {**annotations, names.ANN_WRITTEN: since or stamp(time.time())}}


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _is_text(password: bytes) -> bool:
    try:
        password.decode()
    except UnicodeDecodeError:
        return False
    return True


def _quoted(password: str) -> str:
    """A password escaped for quotes in Kafka's JAAS configuration."""
    return password.replace("\\", "\\\\").replace('"', '\\"')
