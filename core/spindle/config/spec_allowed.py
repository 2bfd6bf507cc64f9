"""Fields of a KafkaCluster's spec that affect more than Kafka, and whether the installation or the owner of the object allows their values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.api.owned import owner_of
from spindle.config.server_properties import overrides
from spindle.config.template_check import (
    added_containers,
    lent_objects,
    templates,
    volume_drivers,
    volume_images,
)
from spindle.model import allowed as rules
from spindle.model.allowed import Allowed
from spindle.model.allowed_hadoop import loads as loads_class
from spindle.model.spec_findings import RejectedSettings, SharedObject

REASON: Final = "SpecNotAllowed"
_SHOWN: Final = 200  # characters of a value in a message
# The spec in effect is recorded in a ConfigMap, once as a whole and once by pool, together with removed pools; a ConfigMap takes 1 MiB.
_LARGEST: Final = 384 * 1024


@dataclass(frozen=True)
class Ask:
    """One value of a spec that is not allowed.

    Attributes:
        value: the value, to recognise it in a later spec.
        unsure: whether the permission is unknown or the object does not exist.
    """

    refused: RejectedSettings
    value: str
    unsure: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """Identifies the same value in another spec."""
        return (self.refused.field, self.refused.key, self.value)


def named(spec: KafkaClusterSpec) -> tuple[tuple[str, str, str], ...]:
    """The Secrets and claims of other owners that a spec refers to: kind, name, field."""
    rollup, source = spec.rebalance.rollup, spec.security.ca_secret
    found = [] if source is None else [("Secret", source, "spec.security.caSecret")]
    found += [
        ("Secret", each.certificate.secret_name, f"spec.listeners[{each.name}].certificate.secretName")
        for each in spec.listeners
        if each.certificate is not None
    ]
    if rollup is not None and rollup.secret_name is not None:
        found.append(("Secret", rollup.secret_name, "spec.rebalance.rollup.secretName"))
    if rollup is not None and rollup.claim_name is not None:
        found.append(("PersistentVolumeClaim", rollup.claim_name, "spec.rebalance.rollup.claimName"))
    for field, template, _ in templates(spec):
        found += [(kind, name, f"{field}.{place}") for kind, name, place in lent_objects(template)]
    return tuple(found)


def not_allowed(
    cluster: str,
    spec: KafkaClusterSpec,
    allowed: Allowed,
    lent: Mapping[str, SharedObject],
    job_image: str = "",
) -> tuple[Ask, ...]:
    """The values of a spec that are not allowed, sorted by field and key.

    Args:
        cluster: name of the KafkaCluster.
        spec: its spec.
        allowed: what the installation of Spindle allows.
        lent: ``Secret/name`` and ``PersistentVolumeClaim/name`` of the objects that the spec refers to; missing ones are unknown.
        job_image: the installation's image of the rebalance job; always allowed.
    """
    found = [*_images(spec, allowed, job_image), *_options(spec, allowed), *_annotations(spec, allowed)]
    found += [
        *_settings(spec, allowed),
        *_sidecars(spec, allowed),
        *_rollup(spec, allowed),
        *_lent(cluster, spec, lent),
        *_disks(spec, allowed),
        *_size(spec),
    ]
    return tuple(sorted(found, key=lambda ask: ask.key))


def owned_settings(spec: KafkaClusterSpec) -> tuple[RejectedSettings, ...]:
    """The settings of a spec that Spindle owns, by field and key."""
    return tuple(ask.refused for field, settings in _configs(spec) for ask in _owned(field, settings))


def _disks(spec: KafkaClusterSpec, allowed: Allowed) -> Iterator[Ask]:
    count = sum(pool.replicas * pool.disks.most for pool in spec.broker_pools)
    if count > allowed.disks:
        yield _ask(
            "spec.brokerPools",
            "disks",
            str(count),
            f"its brokers have {count} disks in total, and this installation allows a KafkaCluster {allowed.disks}: more take time and memory of the operator from other clusters",
            "lower replicas, disks.count or disks.maxCount, create a second KafkaCluster, or ask the administrator to raise the chart values allow.disksPerCluster and resources.limits.memory",
        )


def _size(spec: KafkaClusterSpec) -> Iterator[Ask]:
    size = len(spec.to_text())
    if size > _LARGEST:
        yield _ask(
            "spec",
            "size",
            "",
            f"it has {size} characters, and Spindle records at most {_LARGEST}",
            "shorten it, above all the configuration of the pools",
        )


def _strange(image: str, allowed: Allowed) -> str:
    return f"image {image[:_SHOWN]} is not among the images that the installation allows ({', '.join(allowed.images) or 'none'})"


def _images(spec: KafkaClusterSpec, allowed: Allowed, job_image: str) -> Iterator[Ask]:
    engine = spec.rebalance.engine.image
    for field, image in (("spec.image", spec.image), ("spec.rebalance.engine.image", engine)):
        if image and image != job_image and not allowed.image(image):
            yield _ask(
                field,
                "image",
                image,
                _strange(image, allowed),
                "remove it, or ask the administrator to add its repository to the chart's value allow.images",
            )


def _options(spec: KafkaClusterSpec, allowed: Allowed) -> Iterator[Ask]:
    machines = [("spec.controllers", spec.controllers.jvm.options)]
    machines += [(f"spec.brokerPools[{pool.name}]", pool.jvm.options) for pool in spec.broker_pools]
    for place, options in machines:
        for option in options:
            if not allowed.jvm_option(option):
                yield _ask(
                    f"{place}.jvm.options",
                    option[:64],
                    option,
                    f"JVM option {option[:_SHOWN]} is not allowed: some options open ports or files, load code or run commands "
                    "in the process that holds the broker's private key",
                    "remove it, or ask the administrator to add it to the chart's value allow.jvmOptions",
                )


def _sidecars(spec: KafkaClusterSpec, allowed: Allowed) -> Iterator[Ask]:
    for field, template, own in templates(spec):
        for place, name, image in volume_images(template):
            if not allowed.image(image):
                yield _foreign_image(f"{field}.{place}", name, image, allowed)
        for place, name, driver in volume_drivers(template):
            if not allowed.csi_driver(driver):
                yield _ask(
                    f"{field}.{place}.csi",
                    name,
                    driver,
                    f"CSI driver {driver[:_SHOWN]} of volume {name[:63]} is not allowed: what a driver gives to a pod, for example Secrets, certificates or "
                    "folders of the node, is a matter of that driver",
                    "use another kind of volume, or ask the administrator to add the driver to the chart's value allow.csiDrivers",
                )
        for place, container in added_containers(template, own):
            name, image = str(container.get("name")), str(container.get("image") or "")
            if not allowed.sidecars:
                yield _ask(
                    f"{field}.{place}",
                    name,
                    image,
                    f"container {name[:63]} is not allowed: who may write a KafkaCluster could run any program with it",
                    "remove it, or ask the administrator to set the chart's value allow.sidecars to true",
                )
            elif not allowed.image(image):
                yield _foreign_image(f"{field}.{place}", name, image, allowed)


def _foreign_image(place: str, name: str, image: str, allowed: Allowed) -> Ask:
    """An image of a pod template from a repository that the administrator did not allow."""
    return _ask(
        f"{place}.image",
        name,
        image,
        _strange(image, allowed),
        "use another image, or ask the administrator to add its repository to the chart's value allow.images",
    )


def _annotations(spec: KafkaClusterSpec, allowed: Allowed) -> Iterator[Ask]:
    """Those of Services: all of them may reach load balancers."""
    metadata = spec.service_metadata
    places = [(f"spec.listeners[{each.name}].annotations", each.annotations or {}) for each in spec.listeners]
    places += [
        (f"spec.listeners[{each.name}].bootstrap.annotations", each.bootstrap.annotations or {})
        for each in spec.listeners
        if each.bootstrap is not None
    ]
    places.append(("spec.serviceMetadata.annotations", metadata.annotations if metadata is not None else {}))
    for field, annotations in places:
        for key, value in annotations.items():
            if not allowed.annotation(key):
                yield _ask(
                    field,
                    key[:128],
                    value,
                    f"annotation {key[:_SHOWN]} is not among those that the installation allows: load balancers are created with the permissions of the cloud account",
                    "remove it, or ask the administrator to add it to the chart's value allow.annotations",
                )


def _settings(spec: KafkaClusterSpec, allowed: Allowed) -> Iterator[Ask]:
    for field, settings in _configs(spec):
        for each in rules.forbidden_settings(settings, allowed):
            yield _ask(field, each.key, each.value, each.message, each.way_out)
        yield from _owned(field, settings)


def _configs(spec: KafkaClusterSpec) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Field and settings of each configuration of a spec."""
    yield "spec.config", spec.config
    for pool in spec.broker_pools:
        yield f"spec.brokerPools[{pool.name}].config", pool.config


def _owned(field: str, settings: Mapping[str, str]) -> Iterator[Ask]:
    """Keys that Spindle owns. The CRD rejects them, but not in an older spec, or if the CRD was not updated."""
    for key, value in sorted(settings.items()):
        group = owner_of(key)
        if group is not None:
            message = f"{key[:_SHOWN]} is owned by Spindle ({group.subject})"
            finding = RejectedSettings(field, key, message, group.way_out, REASON, overrides(key))
            yield Ask(finding, value)


def _rollup(spec: KafkaClusterSpec, allowed: Allowed) -> Iterator[Ask]:
    rollup = spec.rebalance.rollup
    for key, value in sorted(rollup.settings.items() if rollup is not None else ()):
        if allowed.hadoop_setting(key, value):
            continue
        if loads_class(key):
            what = f"loads a class that the installation does not allow ({value[:_SHOWN]})"
            widened = "the class to the chart's value allow.classes"
        else:
            what = (
                "is not allowed: some settings load classes, run programs or read files in the rebalance job, which has a certificate for "
                "Kafka and an account in this namespace"
            )
            widened = "it to the chart's value allow.hadoopSettings"
        yield _ask(
            "spec.rebalance.rollup.settings",
            key[:128],
            f"{key}={value}",
            f"Hadoop setting {key[:_SHOWN]} {what}",
            f"remove it, or ask the administrator to add {widened}",
        )


def _lent(cluster: str, spec: KafkaClusterSpec, lent: Mapping[str, SharedObject]) -> Iterator[Ask]:
    for kind, name, field in named(spec):
        found = lent.get(f"{kind}/{name}", SharedObject(problem="it has not been read"))
        if not found.problem and rules.lent_to(found.label, cluster):
            continue
        wanted = rules.lender_label(cluster)
        why = (
            f"it is unknown whether it may be used: {found.problem[:_SHOWN]}"
            if found.problem
            else f"this KafkaCluster may not use it, because its owner has not labelled it {wanted}"
            if found.there
            else f"it does not exist yet (it needs the label {wanted})"
        )
        yield _ask(
            field,
            name,
            name,
            f"{kind} {name}: {why}",
            f"ask its owner to label it: kubectl label {kind.lower()} {name} {wanted} ({names.LABEL_USABLE}={names.ANYONE} for all of the "
            "namespace's KafkaClusters); or remove it from the spec",
            unsure=bool(found.problem) or not found.there,
        )


def _ask(field: str, key: str, value: str, message: str, way_out: str, *, unsure: bool = False) -> Ask:
    return Ask(RejectedSettings(field, key, message, way_out, REASON), value, unsure)
