"""Checks of the installation: versions, CustomResourceDefinitions, operator, agents, rights, clocks. Pure functions."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from spindle.api import names
from spindle.model import nodes, objects
from spindle.model.agents import CLOCKS_AGREE
from spindle.model.waiting import some
from spindle_cli.doctor.facts import Facts, Finding, Level

OLDEST_KUBERNETES: Final = (1, 30)  # kubeVersion of the chart
_RENEWED_EVERY: Final = 40.0  # seconds after which a kubelet has certainly renewed its lease
_VERSION: Final = "app.kubernetes.io/version"
_PRERELEASE: Final = re.compile(r"-?(rc|alpha|beta)\.?(?=\d)")
_SHORT: Final = {"alpha": "a", "beta": "b"}
_INSTALL: Final = "helm upgrade --install spindle charts/spindle --namespace spindle --create-namespace"


def kubernetes(facts: Facts) -> Iterator[Finding]:
    """The version of the API server."""
    found = re.match(r"v?(\d+)\.(\d+)", facts.kubernetes)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_KUBERNETES:
        yield Finding(
            "Kubernetes",
            Level.PROBLEM,
            f"the API server runs {facts.kubernetes or 'an unknown version'}; Spindle needs 1.30 or later",
            "Upgrade Kubernetes.",
        )
    else:
        yield Finding("Kubernetes", Level.OK, f"the API server runs {facts.kubernetes}")


def definitions(facts: Facts) -> Iterator[Finding]:
    """Whether Spindle's kinds are known, with all fields that this version has."""
    if "definitions" in facts.unreadable:
        return
    missing = sorted(facts.schemas.keys() - facts.definitions.keys())
    if missing:
        yield Finding(
            "Definitions",
            Level.PROBLEM,
            f"the API server does not know {some(missing)}",
            f"Install Spindle: {_INSTALL}",
        )
    older = {
        name: absent
        for name, made in sorted(facts.schemas.items())
        if name in facts.definitions and (absent := missing_fields(made, facts.definitions[name]))
    }
    for name, absent in older.items():
        yield Finding(
            "Definitions",
            Level.WARNING,
            f"{name} is of another version: it lacks {some(absent)}, so the API server refuses or drops these fields",
            "Apply the CustomResourceDefinitions of this version: kubectl apply --server-side --force-conflicts -f crds/",
        )
    if not missing and not older:
        yield Finding("Definitions", Level.OK, f"all {len(facts.schemas)} kinds are known, with all fields")


def missing_fields(made: Mapping[str, Any], served: Mapping[str, Any]) -> list[str]:
    """Fields of the spec that the first CustomResourceDefinition has and the second has not."""
    return sorted(_paths(_spec(made)) - _paths(_spec(served)))


def _spec(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    versions = nodes.items(nodes.section(definition, "spec").get("versions"))
    schema = next((each for each in versions if each.get("name") == names.VERSION), {})
    return nodes.section(schema, "schema", "openAPIV3Schema", "properties", "spec")


def _paths(schema: Mapping[str, Any], prefix: str = "spec") -> set[str]:
    found = set()
    for name, each in nodes.section(schema, "properties").items():
        found |= {f"{prefix}.{name}"} | _paths(each, f"{prefix}.{name}")
    if items := nodes.section(schema, "items"):
        found |= _paths(items, f"{prefix}[]")
    return found


def operator(facts: Facts) -> Iterator[Finding]:
    """Whether an operator runs that manages the namespace."""
    if "operators" in facts.unreadable:
        return
    if not facts.operators:
        yield Finding("Operator", Level.PROBLEM, "no operator is installed", f"Install Spindle: {_INSTALL}")
        return
    mine = [each for each in facts.operators if manages(each, facts.namespace)]
    if not mine:
        there = some([_full_name(each) for each in facts.operators])
        yield Finding(
            "Operator",
            Level.PROBLEM,
            f"no operator manages namespace {facts.namespace} (there is {there}): nothing would happen to a KafkaCluster in it",
            f"Add it to the chart's values: watch.namespaces=[{facts.namespace}], or set watch.all=true.",
        )
    for each in mine:
        yield from _operator(each, facts.program)
    if len(mine) > 1:
        yield Finding(
            "Operator",
            Level.PROBLEM,
            f"{some([_full_name(each) for each in mine])} all manage namespace {facts.namespace}",
            "Let only one of them manage it: watch.namespaces in the values of the others' charts.",
        )


def _operator(deployment: Mapping[str, Any], program: str) -> Iterator[Finding]:
    name, ready = _full_name(deployment), nodes.section(deployment, "status").get("readyReplicas") or 0
    namespace = deployment["metadata"]["namespace"]
    version = nodes.labels(deployment).get(_VERSION)
    if not ready:
        yield Finding(
            "Operator",
            Level.PROBLEM,
            f"operator {name} is not ready",
            f"See why: kubectl -n {namespace} describe pods -l app.kubernetes.io/component=operator",
        )
    elif version is not None and _plain(version) != _plain(program):
        yield Finding(
            "Operator",
            Level.WARNING,
            f"operator {name} has version {version}, this program {program}",
            "Install the same version of both; an operator does not know fields that later versions have.",
        )
    else:
        yield Finding("Operator", Level.OK, f"operator {name} is ready")


def _plain(version: str) -> str:
    """A version as Python packages have it (PEP 440): 1.2.3rc1 for the chart's 1.2.3-rc.1."""
    return _PRERELEASE.sub(lambda found: _SHORT.get(found[1], found[1]), version)


def manages(deployment: Mapping[str, Any], namespace: str) -> bool:
    """Whether an operator manages a namespace; without any ``--namespace`` it manages all."""
    pod = nodes.section(deployment, "spec", "template", "spec")
    arguments = [str(each) for box in nodes.items(pod.get("containers")) for each in box.get("args") or ()]
    listed = {each.removeprefix("--namespace=") for each in arguments if each.startswith("--namespace=")}
    return not listed or namespace in listed


def rights(facts: Facts) -> Iterator[Finding]:
    """Whether this user may do what the commands do."""
    missing = [right for right, allowed in facts.rights.items() if not allowed]
    for right in missing:
        resource = f"{right.resource}.{right.group}" if right.group else right.resource
        yield Finding(
            "Rights",
            Level.PROBLEM if right.vital else Level.WARNING,
            f"you may not {right.verb} {resource} in namespace {facts.namespace}, which is needed {right.needed_for}",
            "Ask for a RoleBinding to the chart's ClusterRole <namespace>-<release>-manage."
            if right.group
            else f"Ask for a Role in {facts.namespace} with the verb {right.verb} on {right.resource}.",
        )
    if facts.rights and not missing:
        yield Finding("Rights", Level.OK, f"you have all rights that the commands need in {facts.namespace}")


def unreadable(facts: Facts) -> Iterator[Finding]:
    """What could not be read, and is not checked."""
    for what, why in sorted(facts.unreadable.items()):
        yield Finding(
            "Rights",
            Level.WARNING,
            f"not checked, because they cannot be read: {what} ({why})",
            "Run the command as somebody who may list them.",
        )


def agents(facts: Facts) -> Iterator[Finding]:
    """Whether every node that may run brokers has an agent."""
    if {"agents", "nodes"} & facts.unreadable.keys():
        return
    if not facts.agents:
        yield Finding(
            "Agents",
            Level.WARNING,
            "no agent runs: Spindle notices a failed disk only when Kafka does, and no disk is monitored for hangs, usage or corruption",
            "Enable them in the chart: agent.enabled=true.",
        )
        return
    watched = {str(pod["spec"].get("nodeName")) for pod in facts.agents if objects.is_true(pod, "Ready")}
    usable = [nodes.name(each) for each in facts.nodes if nodes.admits(each, ())]
    bare = sorted(set(usable) - watched)
    if bare:
        namespace = facts.agents[0]["metadata"]["namespace"]
        yield Finding(
            "Agents",
            Level.WARNING,
            f"no agent is ready on {some(bare)}: disks of brokers there would not be monitored",
            f"See why: kubectl -n {namespace} get pods -o wide -l app.kubernetes.io/component=agent. The chart's agent.nodeSelector and "
            "agent.tolerations decide where agents run.",
        )
    else:
        yield Finding("Agents", Level.OK, f"an agent is ready on each of {len(usable)} nodes")


def clocks(facts: Facts) -> Iterator[Finding]:
    """Whether the clocks of this machine and of the nodes agree with that of the API server."""
    if facts.server_time is None:
        return
    off = facts.own_time - facts.server_time
    if abs(off) > CLOCKS_AGREE:
        yield Finding(
            "Clocks",
            Level.WARNING,
            f"this machine's clock is {_by(off)} that of the API server",
            "Synchronize it with NTP (for example chrony): times that the commands show, and certificates, depend on it.",
        )
    far = {name: skew for name, skew in _skews(facts).items() if skew}
    for name, skew in sorted(far.items()):
        yield Finding(
            "Clocks",
            Level.WARNING,
            f"the clock of node {name} is {_by(skew)} that of the API server",
            f"Synchronize the clock of {name} with NTP (for example chrony).",
        )
    told = [
        (cluster.metadata.name, each.message)
        for cluster in facts.clusters
        for each in (cluster.status.conditions if cluster.status else ())
        if (each.type, each.status) == ("ClocksAgree", "False")
    ]
    for name, message in told:  # agents' reports: more exact than leases, and for the operator's own clock
        what, _, way_out = message.partition(" To resolve: ")
        yield Finding("Clocks", Level.WARNING, f"KafkaCluster {name}: {what}", _capital(way_out))
    if not far and not told and abs(off) <= CLOCKS_AGREE:
        yield Finding(
            "Clocks", Level.OK, f"the clocks of this machine and of {len(_skews(facts))} nodes agree"
        )


def _skews(facts: Facts) -> dict[str, float]:
    """By node: how far its clock is ahead, by the lease that its kubelet renews every ten seconds; 0 if within what that can tell."""
    ready = {nodes.name(each) for each in facts.nodes if objects.is_true(each, "Ready")}
    now, found = facts.server_time or 0.0, {}
    for lease in facts.leases:
        renewed = nodes.section(lease, "spec").get("renewTime")
        if renewed is None or nodes.name(lease) not in ready:
            continue
        ahead = datetime.fromisoformat(str(renewed)).timestamp() - now
        behind = ahead + _RENEWED_EVERY
        found[nodes.name(lease)] = (
            ahead if ahead > CLOCKS_AGREE else behind if behind < -CLOCKS_AGREE else 0.0
        )
    return found


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}" or "Synchronize the clocks with NTP (for example chrony)."


def _by(seconds: float) -> str:
    return f"{abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'}"


def _full_name(obj: Mapping[str, Any]) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
