"""Checks pod templates: what Spindle owns in a pod, and what would lower its security level, is refused before anything is done."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.pod_template import PodTemplate, TemplateMetadata
from spindle.manifests import template_rules as rules
from spindle.model.spec_findings import RejectedSettings

REASON: Final = "InvalidPodTemplate"
CLAIMS: Final = "claimMetadata"
_SHOWN: Final = 63  # characters of a name in a field


def templates(spec: KafkaClusterSpec) -> tuple[tuple[str, PodTemplate, str], ...]:
    """The templates of a spec: field, template, name of the container of Spindle's that it may add to."""
    found = [
        ("spec.controllers.podTemplate", spec.controllers.pod_template, names.CONTAINER_KAFKA),
        *(
            (f"spec.brokerPools[{pool.name}].podTemplate", pool.pod_template, names.CONTAINER_KAFKA)
            for pool in spec.broker_pools
        ),
        ("spec.rebalance.engine.podTemplate", spec.rebalance.engine.pod_template, names.CONTAINER_REBALANCE),
    ]
    return tuple((field, template, own) for field, template, own in found if template is not None)


def refused_templates(spec: KafkaClusterSpec) -> tuple[RejectedSettings, ...]:
    """What is refused in the templates of a spec, by field."""
    scrape = spec.metrics.enabled
    listeners = {each.name: each.port for each in spec.listeners}
    found: list[RejectedSettings] = []
    for field, template, own in templates(spec):
        found += _labels_and_annotations(f"{field}.metadata", template.metadata, scrape=scrape)
        found += _of_spec(f"{field}.spec", template.spec.to_dict(), own, listeners)
    for field, metadata in _of_objects(spec):
        found += _labels_and_annotations(field, metadata, scrape=False)
        if field.endswith(CLAIMS):
            for key in sorted(metadata.annotations):
                found += _refusal(f"{field}.annotations", key, rules.kubernetes_own(key))
    return tuple(sorted(set(found)))


def _of_objects(spec: KafkaClusterSpec) -> Iterator[tuple[str, TemplateMetadata]]:
    """The metadata of claims and Services, with their fields."""
    found = [
        ("spec.serviceMetadata", spec.service_metadata),
        (f"spec.controllers.{CLAIMS}", spec.controllers.claim_metadata),
        *((f"spec.brokerPools[{pool.name}].{CLAIMS}", pool.claim_metadata) for pool in spec.broker_pools),
    ]
    yield from ((field, metadata) for field, metadata in found if metadata is not None)


def added_containers(template: PodTemplate, own: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """The sidecars and init containers of a template, each with its field below the template."""
    return tuple(
        (f"spec.{kind}[{str(each.get('name'))[:_SHOWN]}]", each)
        for kind, entries in (
            ("containers", template.spec.containers),
            ("initContainers", template.spec.init_containers),
        )
        for each in entries
        if not (kind == "containers" and each.get("name") == own)
    )


def volume_images(template: PodTemplate) -> tuple[tuple[str, str, str], ...]:
    """The images that a template mounts as volumes: field below the template, name of the volume, image."""
    return tuple(
        (f"spec.volumes[{name[:_SHOWN]}]", name, str(_mapped(volume["image"]).get("reference") or ""))
        for volume in template.spec.volumes
        if volume.get("image") is not None
        for name in (str(volume.get("name")),)
    )


def volume_drivers(template: PodTemplate) -> tuple[tuple[str, str, str], ...]:
    """The CSI drivers of the inline volumes of a template: field below the template, name of the volume, driver."""
    return tuple(
        (f"spec.volumes[{name[:_SHOWN]}]", name, str(_mapped(volume["csi"]).get("driver") or ""))
        for volume in template.spec.volumes
        if volume.get("csi") is not None
        for name in (str(volume.get("name")),)
    )


def lent_objects(template: PodTemplate) -> tuple[tuple[str, str, str], ...]:
    """The Secrets and claims that a template refers to: kind, name, field below the template."""
    found: list[tuple[str, str, str]] = []
    for volume in template.spec.volumes:
        place = f"spec.volumes[{str(volume.get('name'))[:_SHOWN]}]"
        sources = [volume, *_listed(_mapped(volume.get("projected")).get("sources"))]
        for source in sources:
            secret = _mapped(source.get("secret"))
            found += _named("Secret", secret.get("secretName") or secret.get("name"), place)
        found += _named(
            "PersistentVolumeClaim", _mapped(volume.get("persistentVolumeClaim")).get("claimName"), place
        )
        published = _mapped(_mapped(volume.get("csi")).get("nodePublishSecretRef"))
        found += _named("Secret", published.get("name"), place)
    for kind, entries in (
        ("containers", template.spec.containers),
        ("initContainers", template.spec.init_containers),
    ):
        for each in entries:
            place = f"spec.{kind}[{str(each.get('name'))[:_SHOWN]}]"
            for entry in _listed(each.get("env")):
                key = _mapped(_mapped(entry.get("valueFrom")).get("secretKeyRef"))
                found += _named("Secret", key.get("name"), f"{place}.env")
            for entry in _listed(each.get("envFrom")):
                found += _named("Secret", _mapped(entry.get("secretRef")).get("name"), f"{place}.envFrom")
    return tuple(dict.fromkeys(found))


def _named(kind: str, name: object, place: str) -> list[tuple[str, str, str]]:
    return [(kind, str(name), place)] if name else []


def _labels_and_annotations(
    field: str, metadata: TemplateMetadata, *, scrape: bool
) -> Iterator[RejectedSettings]:
    for part, keys, refused in (
        ("labels", metadata.labels, rules.label),
        ("annotations", metadata.annotations, rules.annotation),
    ):
        for key in sorted(keys):
            if scrape or not rules.scrapes(key):
                yield from _refusal(f"{field}.{part}", key, refused(key))


def _of_spec(
    field: str, spec: Mapping[str, Any], own: str, listeners: Mapping[str, int]
) -> Iterator[RejectedSettings]:
    for key, value in sorted(_mapped(spec.get("securityContext")).items()):
        yield from _refusal(f"{field}.securityContext", key, rules.pod_security(key, value))
    yield from _refusal(f"{field}.affinity", "affinity", rules.affinity(_mapped(spec.get("affinity"))))
    volumes = _listed(spec.get("volumes"))
    taken = Counter(str(each.get("name")) for each in volumes)
    for each in volumes:
        name = str(each.get("name"))
        twice = (f"volume name {name} is used twice", "give each volume a name of its own")
        why = rules.volume(each) or (twice if taken[name] > 1 else None)
        yield from _refusal(f"{field}.volumes[{name[:_SHOWN]}]", name, why)
    there = frozenset(str(each.get("name")) for each in volumes)
    seen: set[str] = set()
    for kind in ("initContainers", "containers"):
        for each in _listed(spec.get(kind)):
            name = str(each.get("name"))
            place = f"{field}.{kind}[{name[:_SHOWN]}]"
            if kind == "containers" and name == own:
                yield from _of_own(place, each, there)
                continue
            yield from _refusal(place, name, _of_name(kind, name, own, seen))
            seen.add(name)
            yield from _of_sidecar(place, each, there, listeners)


def _of_name(kind: str, name: str, own: str, seen: set[str]) -> rules.Why | None:
    if name in rules.OWN_CONTAINERS:
        hint = f"; to add variables or mounts to Spindle's container, write containers with the name {own}"
        return f"container name {name} is reserved for Spindle", f"give the container another name{hint}"
    if name in seen:
        return f"container name {name} is used twice", "give each container a name of its own"
    if kind == "containers" and own == names.CONTAINER_REBALANCE:
        return (
            f"container {name} would keep the job from ending: a Job ends when all its containers have",
            "write it under initContainers with restartPolicy: Always, which ends with the job",
        )
    return None


def _of_own(place: str, entry: Mapping[str, Any], volumes: frozenset[str]) -> Iterator[RejectedSettings]:
    for key in sorted(entry):
        yield from _refusal(place, key, rules.merged_field(key))
    yield from _shapes(place, entry)
    for each in _listed(entry.get("env")):
        name = str(each.get("name"))
        yield from _refusal(f"{place}.env", name, rules.variable(name))
    for each in _listed(entry.get("envFrom")):
        yield from _refusal(f"{place}.envFrom", "envFrom", rules.source(each))
    yield from _mounts(place, entry, lambda each: rules.mount(each, volumes, own=True))


def _of_sidecar(
    place: str, entry: Mapping[str, Any], volumes: frozenset[str], listeners: Mapping[str, int]
) -> Iterator[RejectedSettings]:
    yield from _shapes(place, entry)
    security = entry.get("securityContext") or {}
    if not isinstance(security, Mapping):
        wrong = ("securityContext is no object", "write it as in a pod's spec")
        yield from _refusal(f"{place}.securityContext", "securityContext", wrong)
    for key, value in sorted(_mapped(security).items()):
        yield from _refusal(f"{place}.securityContext", key, rules.container_security(key, value))
    for each in _listed(entry.get("ports")):
        yield from _refusal(f"{place}.ports", str(each.get("containerPort")), rules.port(each, listeners))
    if (remote := rules.remote_host(entry)) is not None:
        yield from _refusal(place, "host", remote)
    if entry.get("volumeDevices"):
        why = ("it uses a raw block device", "mount a volume with a file system")
        yield from _refusal(place, "volumeDevices", why)
    yield from _mounts(place, entry, lambda each: rules.mount(each, volumes, own=False))


def _shapes(place: str, entry: Mapping[str, Any]) -> Iterator[RejectedSettings]:
    for key in ("env", "envFrom", "ports", "volumeMounts"):
        if entry.get(key) is not None:
            yield from _refusal(f"{place}.{key}", key, rules.shape(key, entry[key]))


def _mounts(
    place: str, entry: Mapping[str, Any], refused: Callable[[Mapping[str, Any]], rules.Why | None]
) -> Iterator[RejectedSettings]:
    for each in _listed(entry.get("volumeMounts")):
        yield from _refusal(f"{place}.volumeMounts", str(each.get("name")), refused(each))


def _refusal(field: str, key: str, why: rules.Why | None) -> Iterator[RejectedSettings]:
    if why is not None:
        yield RejectedSettings(field, key, why[0], why[1], REASON)


def _mapped(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
