"""Users' certificates of earlier versions that are valid for servers, too (extended key usage): recorded, and reported until they expire.

Their common name is the user's name. If a broker has a host of that name, a client accepts the certificate's holder as that broker. New
certificates are valid for clients only; issued ones stay valid until they expire or their CA is retired.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from spindle.api import names
from spindle.model import objects
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SnapshotObject
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.model.waiting import Waiting, counted, some
from spindle.security.certificates import authority_of, node_holder

Out = Mapping[str, str]  # ``until`` and ``authority``, as in the status


def server_certificate(state: ClusterState, user: SnapshotObject) -> Out | None:
    """The user's certificate that is valid for servers and expires last, of its Secret and its status; None if there is none."""
    secret = state.secrets.get(names.user_secret(state.name, objects.name(user)))
    found = secret.certificate if secret is not None else None
    noted: Out | None = (user.get("status") or {}).get("serverCertificate")
    outs = [noted] if noted else []
    if found is not None and found.servers and found.issuer:
        outs.append({"until": stamp(found.not_after), "authority": found.issuer})
    return max((out for out in outs if _counts(state, out)), key=_expiry, default=None)


def _counts(state: ClusterState, out: Out) -> bool:
    """Whether the certificate is still accepted; an unreadable CA counts as trusted (safety rule "unknown is not absent", ``docs/safety.md``)."""
    authority = authority_of(state)
    return _expiry(out) > state.now and (authority is None or out["authority"] in authority.trusted)


def _expiry(out: Out) -> float:
    return seconds(out["until"]) or 0.0


def like_a_host(name: str, hosts: Iterable[str]) -> bool:
    """Whether a user's name could be a host's: it has a dot, is ``localhost``, or is a name under which clients reach a broker."""
    return "." in name or name == "localhost" or name in hosts


def tell_server_certificates(
    state: ClusterState, builder: PlanBuilder, statuses: Mapping[str, Mapping[str, Any]]
) -> None:
    """Report users whose certificates could pass for a host's, until the last of these has expired."""
    noted = {name: out for name, status in statuses.items() if (out := status.get("serverCertificate"))}
    if not noted:
        return
    hosts = {host for node_id in state.brokers for host in node_holder(state, node_id).hosts}
    outs = {name: out for name, out in noted.items() if like_a_host(name, hosts)}
    if not outs:
        return
    last = max(out["until"] for out in outs.values())
    builder.wait(
        Waiting(
            "RevokeCertificates",
            f"KafkaCluster/{state.name}",
            "UserCertificatesValidForServers",
            f"{counted(len(outs), 'KafkaUser')} named like a host {'has a certificate' if len(outs) == 1 else 'have certificates'} of an earlier version that "
            f"{'is' if len(outs) == 1 else 'are'} also valid for servers ({some(sorted(outs))}): its holder can pass for the host of that name to Kafka clients. "
            "New certificates are valid for clients only.",
            f"Nothing to do if you trust these users: the last such certificate expires on {last[:10]}. Otherwise replace the CA "
            "(spec.security.rotate, or a new CA in the Secret of caSecret); the certificates are invalid once the old CA is retired.",
        )
    )
