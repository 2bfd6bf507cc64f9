"""Gives agents access to Kafka: a certificate for each node with a broker of this cluster, and ACLs for its principal.

A certificate permits nothing but what the ACLs of its principal allow. So when the last broker leaves a node, Spindle revokes
the ACLs; the certificate expires by itself, after a week at most.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names
from spindle.manifests.secrets import agent_metadata
from spindle.model import objects
from spindle.model.actions import AlterUser, CertifyAgents, Delete
from spindle.model.agent_access import RIGHTS, Request
from spindle.model.agents import NO_AGENT
from spindle.model.plan_builder import PlanBuilder
from spindle.model.rights import Right
from spindle.model.snapshot import AgentCertificates, Certificate
from spindle.model.state import ClusterState
from spindle.model.times import seconds, stamp
from spindle.model.unavailable import nodes_with_brokers
from spindle.model.waiting import Waiting
from spindle.security.certificates import in_last_third
from spindle.security.rotation import Authority, Holder

UNKNOWN: Final = "agentcertificates"
DAYS: Final = 7
_NOBODY: Final[frozenset[Right]] = frozenset()


def reconcile_agents(state: ClusterState, builder: PlanBuilder) -> None:
    """Grant ACLs to the agents of nodes with brokers, and revoke those of all other agents and of agents of earlier versions."""
    nodes = nodes_with_brokers(state) if state.snap.agent_namespace else set()
    due = dict.fromkeys(map(names.agent_principal, nodes), RIGHTS)
    former = state.snap.former_agents
    if former is not None and _all_have_keys(state, nodes):
        builder.do(_delete(state, "Secret", former.metadata))
    elif former is not None or UNKNOWN in state.snap.unknown:
        # Brokers that have restarted no longer list this principal as a super user, so it needs ACLs.
        due[names.PRINCIPAL_AGENT] = RIGHTS
    have = state.kafka.agents
    if have is None:
        return
    for user in sorted(due.keys() | have.keys()):
        give, take = (
            one.get(user, _NOBODY) - other.get(user, _NOBODY) for one, other in ((due, have), (have, due))
        )
        if give or take:
            builder.do(_alter(user, give, take))


def _all_have_keys(state: ClusterState, nodes: set[str]) -> bool:
    """Whether every agent that may be alive requests a certificate for its own key."""
    if "leases" in state.snap.unknown:
        return False
    agents = (state.snap.agents.get(node, NO_AGENT) for node in nodes)
    return all(agent.request is not None or agent.silent for agent in agents)


def _alter(user: str, give: frozenset[Right], take: frozenset[Right]) -> AlterUser:
    text = "has been granted the ACLs of an agent" if give else "no longer has the ACLs of an agent"
    return AlterUser(
        user=user,
        give=tuple(sorted(give)),
        take=tuple(sorted(take)),
        quotas={},
        reason="AgentGranted" if give else "AgentAccessRevoked",
        message=f"User:{user} {text}.",
    )


def certify_agents(state: ClusterState, builder: PlanBuilder, authority: Authority) -> list[Holder]:
    """Sign the certificate requests of agents on nodes with brokers; renew in the last third of the lifetime.

    An agent of an earlier version reads the ConfigMap of all nodes. A certificate leaves it when the agent has one where it reads it now.

    Returns:
        the ConfigMaps as holders of certificates, for the rotation of the CA; empty if there is no agent.
    """
    if not state.snap.agent_namespace or UNKNOWN in state.snap.unknown:
        return []
    asked: dict[str, dict[str, Request]] = {}
    for node in nodes_with_brokers(state):
        if (request := state.snap.agents.get(node, NO_AGENT).request) is not None:
            asked.setdefault(_read_by(state, node), {})[node] = request
    holders: list[Holder] = []
    for name in sorted(asked.keys() | state.snap.agent_certificates.keys()):
        holders += _certify(state, builder, authority, name, asked.get(name, {}))
    return holders


def _certify(
    state: ClusterState, builder: PlanBuilder, authority: Authority, name: str, asked: Mapping[str, Request]
) -> list[Holder]:
    """Write one ConfigMap, or delete it if no certificate in it is needed.

    Args:
        name: of the ConfigMap.
        asked: node → request of its agent, of those that read this ConfigMap.
    """
    there = state.snap.agent_certificates.get(name)
    held = there.held if there is not None else {}
    sign = {
        node: request.pem
        for node, request in asked.items()
        if _due(held.get(node), request, authority, state.now)
    }
    keep = tuple(
        sorted(
            node
            for node in held.keys() - sign.keys()
            if _stays(state, node, held[node], authority) and not _has_another(state, node, name, authority)
        )
    )
    if there is not None and not sign and not keep:
        builder.do(_delete(state, "ConfigMap", there.metadata))
        return []
    written = _since(there, authority)
    trusting = there is not None and set(there.trust) == set(authority.trusted)
    if sign or len(keep) < len(held) or (there is not None and not trusting):
        builder.do(
            CertifyAgents(
                metadata=agent_metadata(state.cluster, state.snap.agent_namespace, name),
                requests=sign,
                keep=keep,
                days=DAYS,
                trusted=authority.trusted,
                since=stamp(written) if written is not None else "",
                seen=there.metadata if there is not None else None,
                reason="AgentsCertified" if sign else "",
                message=f"Issued certificates for the agents on {', '.join(sorted(sign))}.",
            )
        )
    if there is None:
        return [Holder(name, "", frozenset(), 0.0)] if sign else []
    other = next((each.issuer for each in held.values() if each.issuer != authority.signer), None)
    age = state.now - written if written is not None else 0.0
    return [Holder(name, other or authority.signer, frozenset(there.trust), age)]


def _read_by(state: ClusterState, node: str) -> str:
    """The ConfigMap that a node's agent reads."""
    where = state.namespace, state.name
    if state.snap.agents.get(node, NO_AGENT).reads_parts:
        return names.agent_part(*where, node)
    return names.agent_certificates(*where)


def _has_another(state: ClusterState, node: str, name: str, authority: Authority) -> bool:
    """Whether a node's agent reads another ConfigMap than this one, and has a current certificate there."""
    request, reads = state.snap.agents.get(node, NO_AGENT).request, _read_by(state, node)
    there = state.snap.agent_certificates.get(reads)
    if request is None or reads == name or there is None:
        return False
    return not _due(there.held.get(node), request, authority, state.now)


def _due(held: Certificate | None, request: Request, authority: Authority, now: float) -> bool:
    return (
        held is None or held.key != request.key or held.issuer != authority.signer or in_last_third(held, now)
    )


def _stays(state: ClusterState, node: str, held: Certificate, authority: Authority) -> bool:
    """Whether to keep a certificate that is not renewed now.

    A certificate of another authority that no agent requests any more is dropped: it would block the rotation of that authority forever.
    """
    if node not in nodes_with_brokers(state) or held.not_after <= state.now:
        return False
    return held.issuer == authority.signer or "leases" in state.snap.unknown


def _since(there: AgentCertificates | None, authority: Authority) -> float | None:
    """Since when a ConfigMap has listed the current trusted authorities; `certificates.since` does the same for Secrets."""
    if there is None or set(there.trust) != set(authority.trusted):
        return None
    if any(each.issuer != authority.signer for each in there.held.values()):
        return None
    return seconds((there.metadata.get("annotations") or {}).get(names.ANN_WRITTEN))


def withdraw_agents(state: ClusterState, builder: PlanBuilder) -> bool:
    """Delete the agents' certificates from their namespace, which garbage collection does not reach. True when none are left."""
    if UNKNOWN in state.snap.unknown:
        builder.wait(certificates_unknown(state))
        return False
    certificates, former = state.snap.agent_certificates, state.snap.former_agents
    for name in sorted(certificates):
        builder.do(_delete(state, "ConfigMap", certificates[name].metadata))
    if former is not None:
        builder.do(_delete(state, "Secret", former.metadata))
    return not certificates and former is None


def certificates_unknown(state: ClusterState) -> Waiting:
    """The wait for certificates that cannot be read: "unknown is not absent" (`docs/safety.md`, rule 8)."""
    namespace = state.snap.agent_namespace
    return Waiting(
        "Withdraw" if objects.deleting(state.cluster) else "IssueCertificate",
        f"ConfigMap/{_name(state)}",
        "AgentCertificatesUnknown",
        f"The agents' certificates for this cluster's Kafka cannot be read in namespace {namespace}. "
        "The agents keep using the certificates that they have.",
        f"Check that the operator's Role in namespace {namespace} allows it to read ConfigMaps and Secrets and that the API server answers.",
    )


def _name(state: ClusterState) -> str:
    return names.agent_certificates(state.namespace, state.name)


def _delete(state: ClusterState, kind: str, metadata: Mapping[str, Any]) -> Delete:
    uid = str(metadata.get("uid", ""))
    return Delete(kind=kind, name=str(metadata["name"]), uid=uid, namespace=state.snap.agent_namespace)
