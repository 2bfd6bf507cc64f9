"""What the agents have in Kafka: a certificate for the key of each node with a broker of this cluster, and rights in its name.

An agent's certificate is worth what its principal may do, so it is the rights that are taken back when a node's last broker has
left: the certificate ends by itself, a week later at most.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.cluster import names
from spindle.cluster.agent_access import RIGHTS, Request
from spindle.cluster.rights import Right
from spindle.cluster.waiting import Waiting
from spindle.disks.agents import NO_AGENT
from spindle.manifests.secrets import agent_metadata
from spindle.reconcile import objects
from spindle.reconcile.actions import AlterUser, CertifyAgents, Delete
from spindle.reconcile.certificates import in_last_third
from spindle.reconcile.plan_builder import PlanBuilder
from spindle.reconcile.snapshot import Certificate
from spindle.reconcile.state import ClusterState
from spindle.reconcile.steps.agent_health import nodes_with_brokers
from spindle.reconcile.times import seconds, stamp
from spindle.security.rotation import Authority, Holder

UNKNOWN: Final = "agentcertificates"
DAYS: Final = 7
_NOBODY: Final[frozenset[Right]] = frozenset()


def reconcile_agents(state: ClusterState, builder: PlanBuilder) -> None:
    """Give the agents of nodes with brokers their rights, and take those of others away; so, too, of agents of earlier versions."""
    nodes = nodes_with_brokers(state) if state.snap.agent_namespace else set()
    due = dict.fromkeys(map(names.agent_principal, nodes), RIGHTS)
    former = state.snap.former_agents
    if former is not None and _all_have_keys(state, nodes):
        builder.do(_delete(state, "Secret", former.metadata))
    elif former is not None or UNKNOWN in state.snap.unknown:
        # Their brokers may have restarted, and it is a super user no more.
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
    """Whether every agent that may be alive asks for certificates for a key of its own."""
    if "leases" in state.snap.unknown:
        return False
    agents = (state.snap.agents.get(node, NO_AGENT) for node in nodes)
    return all(agent.request is not None or agent.silent for agent in agents)


def _alter(user: str, give: frozenset[Right], take: frozenset[Right]) -> AlterUser:
    said = "has what an agent needs" if give else "has nothing any more that agents have"
    return AlterUser(
        user=user,
        give=tuple(sorted(give)),
        take=tuple(sorted(take)),
        quotas={},
        reason="AgentGranted" if give else "AgentAccessRevoked",
        message=f"User:{user} {said}.",
    )


def certify_agents(state: ClusterState, builder: PlanBuilder, authority: Authority) -> list[Holder]:
    """Sign what the agents of nodes with brokers ask for, anew in the last third of its time.

    Returns:
        the agents as the replacement of the authority looks at them; nothing where there is none.
    """
    if not state.snap.agent_namespace or UNKNOWN in state.snap.unknown:
        return []
    there = state.snap.agent_certificates
    held = there.held if there is not None else {}
    asked = {
        node: request
        for node in nodes_with_brokers(state)
        if (request := state.snap.agents.get(node, NO_AGENT).request) is not None
    }
    sign = {
        node: asked[node].pem for node in asked if _due(held.get(node), asked[node], authority, state.now)
    }
    keep = tuple(
        sorted(node for node in held.keys() - sign.keys() if _stays(state, node, held[node], authority))
    )
    told = _since(state, authority)
    trusting = there is not None and set(there.trust) == set(authority.trusted)
    if sign or len(keep) < len(held) or (there is not None and not trusting):
        builder.do(
            CertifyAgents(
                metadata=agent_metadata(state.cluster, state.snap.agent_namespace),
                requests=sign,
                keep=keep,
                days=DAYS,
                trusted=authority.trusted,
                since=stamp(told) if told is not None else "",
                seen=there.metadata if there is not None else None,
                reason="AgentsCertified" if sign else "",
                message=f"Certificates of the agents on {', '.join(sorted(sign))} were issued.",
            )
        )
    if there is None:
        return [Holder(_name(state), "", frozenset(), 0.0)] if sign else []
    strange = next((each.issuer for each in held.values() if each.issuer != authority.signer), None)
    age = state.now - told if told is not None else 0.0
    return [Holder(_name(state), strange or authority.signer, frozenset(there.trust), age)]


def _due(held: Certificate | None, request: Request, authority: Authority, now: float) -> bool:
    return (
        held is None or held.key != request.key or held.issuer != authority.signer or in_last_third(held, now)
    )


def _stays(state: ClusterState, node: str, held: Certificate, authority: Authority) -> bool:
    """Whether a certificate that is not to be signed anew is still of use to somebody.

    One that nobody asks for any more, and that another authority has signed, would hold up the replacement of that one for ever.
    """
    if node not in nodes_with_brokers(state) or held.not_after <= state.now:
        return False
    return held.issuer == authority.signer or "leases" in state.snap.unknown


def _since(state: ClusterState, authority: Authority) -> float | None:
    """Since when the ConfigMap has named the authorities that it is to name now, as `certificates.since` has it for Secrets."""
    there = state.snap.agent_certificates
    if there is None or set(there.trust) != set(authority.trusted):
        return None
    if any(each.issuer != authority.signer for each in there.held.values()):
        return None
    return seconds((there.metadata.get("annotations") or {}).get(names.ANN_WRITTEN))


def withdraw_agents(state: ClusterState, builder: PlanBuilder) -> bool:
    """Take away what the agents have in their namespace, which no garbage collector would. True when there is nothing."""
    if UNKNOWN in state.snap.unknown:
        builder.wait(certificates_unknown(state))
        return False
    there, former = state.snap.agent_certificates, state.snap.former_agents
    if there is not None:
        builder.do(_delete(state, "ConfigMap", there.metadata))
    if former is not None:
        builder.do(_delete(state, "Secret", former.metadata))
    return there is None and former is None


def certificates_unknown(state: ClusterState) -> Waiting:
    """Certificates that cannot be read are not taken for none (rule 8)."""
    namespace = state.snap.agent_namespace
    return Waiting(
        "Withdraw" if objects.deleting(state.cluster) else "IssueCertificate",
        f"ConfigMap/{_name(state)}",
        "AgentCertificatesUnknown",
        f"What the agents reach this cluster's Kafka by could not be read in namespace {namespace}. They go on with what they have.",
        f"The operator's role in namespace {namespace} allows to read its ConfigMaps and Secrets, and the API server answers.",
    )


def _name(state: ClusterState) -> str:
    return names.agent_certificates(state.namespace, state.name)


def _delete(state: ClusterState, kind: str, metadata: Mapping[str, Any]) -> Delete:
    uid = str(metadata.get("uid", ""))
    return Delete(kind=kind, name=_name(state), uid=uid, namespace=state.snap.agent_namespace)
