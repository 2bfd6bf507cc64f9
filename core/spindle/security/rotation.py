"""Replacing a cluster's certificate authority without a moment in which anybody shows what another one does not trust.

Three writes of one Secret, each of which only follows when the world has caught up with the one before:

    STABLE ──announce──► SPREADING ──switch──► CHANGING ──retire──► STABLE
    one authority        two are trusted,      two are trusted,      one authority,
                         the old one signs     the new one signs     the new one

A process of Kafka may read its mounted Secret anew at any moment (every change of a broker's dynamic configuration makes it
do so for its listeners), and its client for the quorum does so never (Kafka's ``KafkaRaftManager`` does not register it for
reconfiguration). So nothing is said here about which of the two it has: before the authorities are switched every process was
started with both trusted, and before the old one is retired every process was started with a certificate of the new one.
"""

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from spindle.cluster.waiting import some


class RotationPhase(enum.Enum):
    """Where a replacement stands, by what the authority's Secret holds."""

    STABLE = "Stable"
    SPREADING = "Spreading"
    CHANGING = "Changing"


class RotationStep(enum.Enum):
    """A write of the authority's Secret."""

    ANNOUNCE = "announce"
    SWITCH = "switch"
    RETIRE = "retire"


@dataclass(frozen=True)
class Authority:
    """Who signs, and who is trusted.

    Attributes:
        signer: fingerprint of the one that signs new certificates.
        trusted: fingerprints of all that are to be trusted, the signer first.
        due: why it is to be replaced, as a clause; None if it is not.
    """

    phase: RotationPhase
    signer: str
    trusted: tuple[str, ...]
    due: str | None = None


@dataclass(frozen=True)
class Holder:
    """Somebody with a certificate: a node of Kafka, or a client.

    Attributes:
        name: of its Secret.
        issuer: who signed the certificate in the Secret, by fingerprint; None for somebody who shows none.
        trust: whom the Secret says to trust, by fingerprint.
        age: seconds for which the Secret has named these authorities, whether or not it was renewed since; infinite if nobody
            can have read anything older in it.
        started: for a node: whether its process, if one is there, was started with what is in the Secret; None for a client,
            which is given time instead.
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
        nodes: Secrets of nodes that have to be written, or whose process has to restart.
        clients: Secrets of clients that have to be written.
        seconds: until the clients' time is over, if that is all.
    """

    nodes: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.nodes:
            return f"restarts that make use of {some(list(self.nodes))}"
        if self.clients:
            return f"new contents of {some(list(self.clients))}"
        return f"clients to read their Secrets anew, for {max(1, round(self.seconds))} s more"


def next_step(
    authority: Authority, holders: Iterable[Holder], grace: float
) -> tuple[RotationStep | None, Pending | None]:
    """What to do with the authority now: a step, or what it waits for, or neither.

    Args:
        authority: as its Secret has it.
        holders: everybody with a certificate of it. One that is missing here is asked nothing, so all must be known.
        grace: seconds that clients are given after their Secret named the authorities of this phase.
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
    """Whether a Secret says all that it has to say in this phase."""
    return holder.issuer in (None, authority.signer) and holder.trust >= set(authority.trusted)
