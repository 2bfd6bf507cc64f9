"""The user's Secrets with certificates for listeners, in the format of cert-manager."""

import base64
import binascii
import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.model.allowed import lender_label, lent_to
from spindle.model.snapshot import Certificate, ListenerSource
from spindle_operator import ca
from spindle_operator.kinds import SECRET
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError, Json

_LARGEST: Final = 64 * 1024  # bytes of key and chain


@dataclass(frozen=True)
class OwnCertificate:
    """What a Secret holds.

    Attributes:
        certificate: public facts of the certificate; None if it cannot be used.
        keystore: key and chain in one PEM text, as Kafka reads it; kept out of the repr.
        problem: why it cannot be used, as a sentence; empty if it can.
    """

    certificate: Certificate | None = None
    keystore: bytes = field(default=b"", repr=False)
    problem: str = ""


async def look(
    kube: Kube, namespace: str, cluster: str, specs: Sequence[KafkaClusterSpec]
) -> dict[str, ListenerSource]:
    """Secret → the facts about its certificate, for each that a listener of these specs of a cluster names. Keys are not passed on."""
    wanted = {
        each.certificate.secret_name
        for spec in specs
        for each in spec.listeners
        if each.certificate is not None
    }
    return {name: await _look(kube, namespace, name, cluster) for name in sorted(wanted)}


async def _look(kube: Kube, namespace: str, name: str, cluster: str) -> ListenerSource:
    try:
        secret = await kube.find(SECRET, namespace, name)
    except ApiError as error:
        return ListenerSource(problem=f"It could not be read: {error}.")
    if secret is None:
        return ListenerSource(problem="The Secret does not exist.")
    found = read(secret, cluster)
    return ListenerSource(found.certificate, found.problem)


def read(secret: Json, cluster: str, now: dt.datetime | None = None) -> OwnCertificate:
    """The certificate in a Secret, or why a cluster cannot use it.

    The label is asked for each time: a Secret can be replaced by somebody else's of the same name after the spec was accepted.
    """
    if not lent_to((secret["metadata"].get("labels") or {}).get(names.LABEL_USABLE), cluster):
        return OwnCertificate(problem=f"Its owner has not labelled it {lender_label(cluster)}.")
    data = secret.get("data") or {}
    try:
        chain, key = (base64.b64decode(data.get(name) or "") for name in ("tls.crt", "tls.key"))
    except binascii.Error:
        return OwnCertificate(problem="It is not base64.")
    missing = [name for name, pem in (("tls.crt", chain), ("tls.key", key)) if not pem.strip()]
    if missing:
        return OwnCertificate(problem=f"It has no {' and no '.join(missing)} (yet).")
    if len(chain) + len(key) > _LARGEST:
        return OwnCertificate(problem=f"It is larger than {_LARGEST} bytes.")
    try:
        keystore = ca.server_keystore(chain, key, now)
    except ValueError as error:
        return OwnCertificate(problem=str(error))
    return OwnCertificate(ca.describe_chain(chain), keystore)
