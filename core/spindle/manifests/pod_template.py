"""Adds a pod template to a pod that Spindle made: what is Spindle's stays as it is, whatever the template says."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from spindle.api.pod_template import TemplateMetadata
from spindle.manifests import template_rules as rules

_NODES: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_ONES: Final = ("priorityClassName", "runtimeClassName", "schedulerName")
_CONTAINERS: Final = ("containers", "initContainers")
_NEVER: Final = frozenset({"volumeDevices"})


def merged(pod: Mapping[str, Any], template: Mapping[str, Any], own: str) -> dict[str, Any]:
    """The pod with the template.

    Args:
        pod: ``metadata`` and ``spec`` of Spindle's pod, and what else the object has.
        template: `PodTemplate.parts`.
        own: name of the container to which the template may add.
    """
    if not template:
        return dict(pod)
    metadata, spec = dict(pod.get("metadata") or {}), dict(pod["spec"])
    for part, refused in (("labels", rules.label), ("annotations", rules.annotation)):
        asked = _mapped(template.get(part)).items()
        added = {key: value for key, value in asked if refused(key) is None or rules.scrapes(key)}
        if added:
            metadata[part] = {**added, **(metadata.get(part) or {})}
    theirs = _mapped(template.get("spec"))
    spec |= _scheduling(spec, theirs)
    if security := _allowed(theirs.get("securityContext"), rules.pod_security):
        spec["securityContext"] = {**(spec.get("securityContext") or {}), **security}
    _files(spec, theirs, own)
    return {**pod, "metadata": metadata, "spec": spec}


def described(obj: Mapping[str, Any], metadata: TemplateMetadata | None) -> dict[str, Any]:
    """An object with the labels and annotations that users add to objects of its kind; its own stay."""
    if metadata is None:
        return dict(obj)
    made = dict(obj["metadata"])
    for part, asked, refused in (
        ("labels", metadata.labels, rules.label),
        ("annotations", metadata.annotations, rules.annotation),
    ):
        added = {key: value for key, value in asked.items() if refused(key) is None or rules.scrapes(key)}
        if added:
            made[part] = {**added, **(made.get(part) or {})}
    return {**obj, "metadata": made}


def _scheduling(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a pod's spec about its node and its end that the template changes."""
    made: dict[str, Any] = {key: theirs[key] for key in _ONES if theirs.get(key)}
    if spread := theirs.get("topologySpreadConstraints"):
        made["topologySpreadConstraints"] = list(spread)
    if selector := theirs.get("nodeSelector"):
        made["nodeSelector"] = {**(ours.get("nodeSelector") or {}), **selector}
    if tolerations := theirs.get("tolerations"):
        made["tolerations"] = _with(ours.get("tolerations") or (), tolerations)
    if affinity := _mapped(theirs.get("affinity")):
        made["affinity"] = _affinity(_mapped(ours.get("affinity")), affinity)
    if grace := theirs.get("terminationGracePeriodSeconds"):
        made["terminationGracePeriodSeconds"] = max(ours.get("terminationGracePeriodSeconds", 0), int(grace))
    return made


def _volumes(spec: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The template's volumes."""
    taken, found = {str(each["name"]) for each in spec.get("volumes") or ()}, []
    for each in _listed(theirs.get("volumes")):
        if rules.volume(each) is None and str(each.get("name")) not in taken:
            taken.add(str(each.get("name")))
            found.append(dict(each))
    return found


def _files(spec: dict[str, Any], theirs: Mapping[str, Any], own: str) -> None:
    """Volumes and containers."""
    volumes = _volumes(spec, theirs)
    if volumes:
        spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    there = frozenset(str(each.get("name")) for each in volumes)
    used = {str(each["name"]) for kind in _CONTAINERS for each in spec.get(kind) or ()} | rules.OWN_CONTAINERS
    ports = {
        str(port.get("name")): int(port["containerPort"])
        for each in spec.get("containers") or ()
        for port in each.get("ports") or ()
    }
    for kind in _CONTAINERS:
        asked = _listed(theirs.get(kind))
        fresh = []
        for each in asked:
            if str(each.get("name")) not in used:
                used.add(str(each.get("name")))
                fresh.append(_sidecar(each, there, ports))
        mine = [dict(each) for each in spec.get(kind) or ()]
        if kind == "containers":
            for each in asked:
                if each.get("name") == own:
                    mine = [_extended(c, each, there) if c["name"] == own else c for c in mine]
        if mine or fresh:
            spec[kind] = [*mine, *fresh]


def _extended(container: dict[str, Any], extra: Mapping[str, Any], volumes: frozenset[str]) -> dict[str, Any]:
    """Spindle's container with more variables and mounts."""
    made = dict(container)
    named = {each["name"] for each in made.get("env") or ()}
    env = [
        dict(each)
        for each in _listed(extra.get("env"))
        if rules.variable(str(each.get("name"))) is None and each.get("name") not in named
    ]
    sources = [dict(each) for each in _listed(extra.get("envFrom")) if rules.source(each) is None]
    mounts = [
        dict(each)
        for each in _listed(extra.get("volumeMounts"))
        if rules.mount(each, volumes, own=True) is None
    ]
    for key, added in (("env", env), ("envFrom", sources), ("volumeMounts", mounts)):
        if added:
            made[key] = [*(made.get(key) or ()), *added]
    return made


def _sidecar(asked: Mapping[str, Any], volumes: frozenset[str], taken: Mapping[str, int]) -> dict[str, Any]:
    """A user's container with no more privileges than Spindle's; ``taken``: name and number of the ports of Spindle's containers."""
    made = {key: value for key, value in asked.items() if key not in _NEVER}
    security = _allowed(asked.get("securityContext"), rules.container_security)
    added = _mapped(security.get("capabilities")).get("add")
    made["securityContext"] = {
        **security,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"], **({"add": added} if added else {})},
    }
    mounts = [
        each for each in _listed(asked.get("volumeMounts")) if rules.mount(each, volumes, own=False) is None
    ]
    ports = [each for each in _listed(asked.get("ports")) if rules.port(each, taken) is None]
    for key, kept in (("volumeMounts", mounts), ("ports", ports)):
        made.pop(key, None)
        if kept:
            made[key] = kept
    return made


def _affinity(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Both: terms of a required node affinity are alternatives, so each of theirs has to include Spindle's."""
    made = dict(ours)
    if nodes := _mapped(theirs.get("nodeAffinity")):
        asked, needed = _terms(nodes), _terms(_mapped(ours.get("nodeAffinity")))
        both = [_joined(a, b) for a in needed for b in asked] if needed and asked else needed or asked
        rest = {key: value for key, value in nodes.items() if key != _NODES}
        made["nodeAffinity"] = {**rest, **({_NODES: {"nodeSelectorTerms": both}} if both else {})}
    for kind in ("podAffinity", "podAntiAffinity"):
        if asked_pods := _mapped(theirs.get(kind)):
            own = _mapped(ours.get(kind))
            keys = dict.fromkeys([*own, *asked_pods])
            made[kind] = {key: [*_listed(own.get(key)), *_listed(asked_pods.get(key))] for key in keys}
    return made


def _terms(affinity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The alternatives; an empty one matches no node."""
    return [each for each in _listed(_mapped(affinity.get(_NODES)).get("nodeSelectorTerms")) if each]


def _joined(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    found = {
        key: [*_listed(ours.get(key)), *_listed(theirs.get(key))]
        for key in ("matchExpressions", "matchFields")
    }
    return {key: value for key, value in found.items() if value}


def _with(ours: Iterable[Mapping[str, Any]], theirs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    made = [dict(each) for each in ours]
    return made + [dict(each) for each in theirs if each not in made]


def _allowed(asked: object, refused: Any) -> dict[str, Any]:
    return {key: value for key, value in _mapped(asked).items() if refused(key, value) is None}


def _mapped(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
