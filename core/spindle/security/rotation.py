"""Replaces a cluster's CA so that no process ever presents a certificate that another one does not trust.

It writes one Secret three times. Each write waits until all nodes and clients use the result of the previous one:

    STABLE ──announce──► SPREADING ──switch──► CHANGING ──retire──► STABLE
    one CA               two are trusted,      two are trusted,      one CA,
                         the old one signs     the new one signs     the new one

A Kafka process may reload its mounted Secret at any time (every change of a broker's dynamic configuration reloads it
for its listeners), and its quorum client never reloads it (Kafka's ``KafkaRaftManager`` does not register it for
reconfiguration). So the phases do not depend on which version a process uses: before the switch, every process was started
with both CAs trusted, and before the old one is retired, every process was started with a certificate of the new one.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from spindle.model.waiting import some


class RotationPhase(enum.Enum):
    """The phase of a replacement, from the content of the CA's Secret."""

    STABLE = "Stable"
    SPREADING = "Spreading"
    CHANGING = "Changing"


class RotationStep(enum.Enum):
    """A write of the CA's Secret."""

    ANNOUNCE = "announce"
    SWITCH = "switch"
    RETIRE = "retire"


@dataclass(frozen=True)
class Authority:
    """The signing CA and the trusted CAs.

    Attributes:
        signer: fingerprint of the CA that signs new certificates.
        trusted: fingerprints of all trusted CAs, the signer first.
        due: why the CA must be replaced, as a clause; None if it need not be.
    """

    phase: RotationPhase
    signer: str
    trusted: tuple[str, ...]
    due: str | None = None


@dataclass(frozen=True)
class Holder:
    """A Kafka node or a client with a certificate.

    Attributes:
        name: of its Secret.
        issuer: fingerprint of the CA that signed the certificate in the Secret; None if it has no certificate.
        trust: fingerprints of the trusted CAs in the Secret.
        age: seconds for which the Secret has listed these CAs, regardless of renewals; infinite if no process
            can have read an older version.
        started: for a node, whether its process, if it runs, was started with the content of the Secret; None for a client,
            which gets a grace period instead.
    """

    name: str
    issuer: str | None
    trust: frozenset[str]
    age: float
    started: bool | None = None


@dataclass(frozen=True)
class Pending:
    """What a replacement waits for.

    Attributes:
        nodes: Secrets of nodes that must be written, or whose process must restart.
        clients: Secrets of clients that must be written.
        seconds: until the clients' grace period ends, if nothing else is pending.
    """

    nodes: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.nodes:
            return f"restarts of pods that use {some(list(self.nodes))}"
        if self.clients:
            return f"the update of {some(list(self.clients))}"
        return f"clients to reload their Secrets, for another {max(1, round(self.seconds))} s"


def next_step(
    authority: Authority, holders: Iterable[Holder], grace: float
) -> tuple[RotationStep | None, Pending | None]:
    """The next step of a replacement, or what it waits for, or neither.

    Args:
        authority: from the CA's Secret.
        holders: all nodes and clients with a certificate; the result is wrong if one is missing.
        grace: seconds that clients get after their Secret lists the CAs of this phase.
    """
    if authority.phase is RotationPhase.STABLE:
        return (RotationStep.ANNOUNCE, None) if authority.due else (None, None)
    pending = _pending(authority, tuple(holders), grace)
    if pending is not None:
        return None, pending
    return (RotationStep.SWITCH if authority.phase is RotationPhase.SPREADING else RotationStep.RETIRE), None


def _pending(authority: Authority, holders: tuple[Holder, ...], grace: float) -> Pending | None:
    behind = [holder for holder in holders if not _written(authority, holder)]
    nodes = [h.name for h in holders if h.started is False or (h.started is not None and h in behind)]
    clients = [h.name for h in behind if h.started is None]
    if nodes or clients:
        return Pending(tuple(sorted(nodes)), tuple(sorted(clients)))
    left = max((grace - h.age for h in holders if h.started is None), default=0.0)
    return Pending(seconds=left) if left > 0 else None


def _written(authority: Authority, holder: Holder) -> bool:
    """Whether a Secret has the content that this phase requires."""
    return holder.issuer in (None, authority.signer) and holder.trust >= set(authority.trusted)
