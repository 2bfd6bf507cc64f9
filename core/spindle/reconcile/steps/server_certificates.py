"""Users' certificates of earlier versions that are good for servers as well: on record, and named until they end.

Their common name is the user's. Whoever calls a broker by a host of that name and gets such a certificate takes its holder for the
broker. New ones are good for clients alone; those that are out already stay good until they end or their authority is retired.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from spindle.cluster import names
from spindle.cluster.waiting import Waiting, some
from spindle.reconcile import objects
from spindle.reconcile.certificates import authority_of, node_holder
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import SnapshotObject
from spindle.reconcile.state import ClusterState
from spindle.reconcile.times import seconds, stamp

Out = Mapping[str, str]  # ``until`` and ``authority``, as in the status


def server_certificate(state: ClusterState, user: SnapshotObject) -> Out | None:
    """Which of a user's certificates is good for servers and lasts longest: the one in its Secret, or one on record; None for none."""
    secret = state.secrets.get(names.user_secret(state.name, objects.name(user)))
    found = secret.certificate if secret is not None else None
    noted: Out | None = (user.get("status") or {}).get("serverCertificate")
    outs = [noted] if noted else []
    if found is not None and found.servers and found.issuer:
        outs.append({"until": stamp(found.not_after), "authority": found.issuer})
    return max((out for out in outs if _counts(state, out)), key=_end, default=None)


def _counts(state: ClusterState, out: Out) -> bool:
    """Whether anybody takes it still. An authority that cannot be read is not one that nobody trusts (rule 8)."""
    authority = authority_of(state)
    return _end(out) > state.now and (authority is None or out["authority"] in authority.trusted)


def _end(out: Out) -> float:
    return seconds(out["until"]) or 0.0


def like_a_host(name: str, hosts: Iterable[str]) -> bool:
    """Whether a user's name may be that of a host: it has a dot, or is one under which clients reach a broker."""
    return "." in name or name == "localhost" or name in hosts


def tell_server_certificates(
    state: ClusterState, builder: PlanBuilder, statuses: Mapping[str, Mapping[str, Any]]
) -> None:
    """Name the users whose certificates could pass for a host's, until the last of these has ended."""
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
            f"KafkaUsers that are named like hosts have certificates of an earlier version that are good for servers ({some(sorted(outs))}): "
            "who has one of these can pass for the host of that name to Kafka's clients. New ones are good for clients alone.",
            f"The last of them ends on {last[:10]}. Sooner, where a user is not to be trusted with that: replace the authority "
            "(spec.security.rotate, or a new one in the Secret of caSecret); they are worth nothing from its third step on.",
        )
    )
