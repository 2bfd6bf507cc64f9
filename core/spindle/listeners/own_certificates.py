"""The Secret from which brokers read the certificates of listeners that have their own: its files, and which of them a broker has loaded.

Each certificate is in it twice, with its key: under the name that the broker's configuration has, and under one with its mark, which is another name
for each certificate. So a request that names the second one can only succeed when the broker's node has received it.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from spindle.api import names
from spindle.model import objects
from spindle.model.snapshot import Certificate, SnapshotObject
from spindle.model.state import ClusterState

_MARK: Final = 16  # characters of a hash
_ENDING: Final = ".pem"


def mark(certificate: Certificate) -> str:
    """What tells a certificate, with the authorities that are sent with it, from others in annotations and file names."""
    if not certificate.chain:
        return certificate.fingerprint[:_MARK]
    return sha256(f"{certificate.fingerprint} {certificate.chain}".encode()).hexdigest()[:_MARK]


def file_names(listener: str, marked: str = "") -> tuple[str, ...]:
    """The keys of a listener in the Secret: the one that configurations name, and the one with the certificate's mark."""
    fixed = f"{listener}{_ENDING}"
    return (fixed, f"{listener}.{marked}{_ENDING}") if marked else (fixed,)


def listener_of(key: str) -> str | None:
    """The listener of a key of that Secret; None for other keys."""
    return key.removesuffix(_ENDING).split(".")[0] if key.endswith(_ENDING) else None


def held(state: ClusterState) -> Mapping[str, Certificate]:
    """Listener → its own certificate, as brokers read it."""
    secret = state.secrets.get(names.listeners_secret(state.name))
    return secret.listeners if secret is not None else {}


def certificate_marks(state: ClusterState, listeners: Iterable[str]) -> dict[str, str]:
    """Listener → mark of its own certificate; without one, as long as the Secret is not known, an empty mark."""
    found = held(state)
    return {name: mark(found[name]) if name in found else "" for name in listeners}


def is_there(state: ClusterState, listener: str, broker_id: int) -> bool:
    """Whether a broker can present a listener's own certificate: there is one, or its pod was created with one. It presents Spindle's otherwise.

    A Secret that is missing, or could not be read, restarts no running broker.
    """
    return listener in held(state) or listener in created_with(state.pods.get(broker_id))


def created_with(pod: SnapshotObject | None) -> dict[str, str]:
    """Listener → mark of the certificate that was in the Secret when a pod was created."""
    return _parsed((objects.annotation(pod, names.ANN_OWN_CERTIFICATES) or "") if pod is not None else "")


def loaded(pod: SnapshotObject, broker: SnapshotObject) -> dict[str, str]:
    """Listener → mark of the certificate that the process in a broker's pod presents."""
    uid, _, later = (objects.annotation(broker, names.ANN_OWN_CERTIFICATES) or "").partition(" ")
    return created_with(pod) | (_parsed(later) if uid == objects.uid(pod) else {})


def interrupted(broker: SnapshotObject) -> tuple[str, ...]:
    """Listeners whose certificate a broker was told to load, without a record that nothing of it is left in Kafka."""
    return tuple((objects.annotation(broker, names.ANN_LOADING) or "").split())


def _parsed(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in text.split() if "=" in each)
