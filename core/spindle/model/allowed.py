"""What a KafkaCluster may contain that reaches beyond Kafka: images, JVM options, classes, annotations of load balancers.

A user who may write a KafkaCluster does not necessarily have the right to run programs in its namespace, or to read its Secrets. The
administrator who installs Spindle decides what else is allowed (chart values below ``allow``).
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from spindle.api import names
from spindle.api.cluster import MAX_CLUSTER_DISKS
from spindle.model import allowed_hadoop
from spindle.model.allowed_hadoop import EVERYTHING

# Characters that a value may have where an entry leaves it open: none that could form a path, a list or a second option.
_OPEN: Final = "[A-Za-z0-9._%+-]*"

KAFKA_REPOSITORY: Final = "apache/kafka"  # of the official image
IMAGES: Final = (KAFKA_REPOSITORY, f"docker.io/{KAFKA_REPOSITORY}")

# Memory, collectors and compilers. Excluded: options that open a port or a file, load code or run a command (jdwp, javaagent,
# OnOutOfMemoryError, Flags, HeapDumpPath), and system properties, which affect any class.
JVM_OPTIONS: Final = (
    *(f"-XX:+Use{name}" for name in ("G1GC", "ParallelGC", "SerialGC", "ShenandoahGC", "ZGC")),
    *(f"-XX:{sign}{name}" for sign in "+-" for name in (
        "AlwaysPreTouch", "CrashOnOutOfMemoryError", "DisableExplicitGC", "ExitOnOutOfMemoryError", "ExplicitGCInvokesConcurrent",
        "ParallelRefProcEnabled", "PerfDisableSharedMem", "TieredCompilation", "UnlockExperimentalVMOptions", "UseCompactObjectHeaders",
        "UseCompressedOops", "UseContainerSupport", "UseLargePages", "UseNUMA", "UseStringDeduplication", "UseTransparentHugePages", "ZGenerational",
    )),
    *(f"-XX:{name}=*" for name in (
        "ActiveProcessorCount", "CICompilerCount", "ConcGCThreads", "G1HeapRegionSize", "G1HeapWastePercent", "G1MaxNewSizePercent",
        "G1MixedGCCountTarget", "G1MixedGCLiveThresholdPercent", "G1NewSizePercent", "G1ReservePercent", "GCTimeRatio",
        "InitiatingHeapOccupancyPercent", "MaxDirectMemorySize", "MaxGCPauseMillis", "MaxMetaspaceFreeRatio", "MaxMetaspaceSize",
        "MaxNewSize", "MaxTenuringThreshold", "MetaspaceSize", "MinMetaspaceFreeRatio", "NativeMemoryTracking", "NewRatio", "NewSize",
        "ParallelGCThreads", "ReservedCodeCacheSize", "SoftRefLRUPolicyMSPerMB", "SurvivorRatio", "ThreadStackSize",
        "TieredStopAtLevel", "ZAllocationSpikeTolerance", "ZCollectionInterval", "ZFragmentationLimit", "ZUncommitDelay",
    )),
    "-Xlog:gc",
    "-Xmn*",
    "-Xss*",
    "-server",
    "-Djava.awt.headless=*",
    "-Djava.net.preferIPv4Stack=*",
    "-Djava.net.preferIPv6Addresses=*",
    "-Dsun.net.inetaddr.ttl=*",
    "-Duser.timezone=*",
)  # fmt: skip

# The kind of load balancer, and whether it is reachable from the Internet; nothing that names other resources of the cloud account.
ANNOTATIONS: Final = (
    "cloud.google.com/load-balancer-type",
    "networking.gke.io/load-balancer-type",
    "service.beta.kubernetes.io/aws-load-balancer-cross-zone-load-balancing-enabled",
    "service.beta.kubernetes.io/aws-load-balancer-internal",
    "service.beta.kubernetes.io/aws-load-balancer-nlb-target-type",
    "service.beta.kubernetes.io/aws-load-balancer-scheme",
    "service.beta.kubernetes.io/aws-load-balancer-type",
    "service.beta.kubernetes.io/azure-load-balancer-internal",
)

# Classes that are part of Kafka and read or write nothing of their own.
CLASSES: Final = (
    "org.apache.kafka.common.metrics.JmxReporter",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
    "org.apache.kafka.coordinator.group.assignor.SimpleAssignor",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
    "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
    "org.apache.kafka.server.share.persister.DefaultStatePersister",
    "range",
    "simple",
    "uniform",
)
# Settings whose value is one or several class names, or the path of a class.
_LOADERS: Final = frozenset({
    "alter.config.policy.class.name", "client.quota.callback.class", "create.topic.policy.class.name", "group.consumer.assignors",
    "group.share.assignors", "group.share.persister.class.name", "kafka.metrics.reporters", "metric.reporters",
    "remote.log.metadata.manager.class.name", "remote.log.metadata.manager.class.path", "remote.log.storage.manager.class.name",
    "remote.log.storage.manager.class.path", "replica.selector.class",
})  # fmt: skip

PROVIDERS: Final = "config.providers"
_SIDECARS: Final = "sidecars"  # the parts of the configuration that are no lists
_DISKS: Final = "disksPerCluster"

DISKS: Final = 5000  # of one KafkaCluster, unless the administrator allows more

# Settings with which a broker rejects the operator and the agents, or tells them too little: the minimum that leaves room for those.
_LEAST: Final[Mapping[str, int]] = {
    "max.connection.creation.rate": 10,
    "max.connections": 64,
    "max.connections.per.ip": 16,
    "max.request.partition.size.limit": 500,  # partitions of a response; the operator reads a limited number of responses
    "socket.request.max.bytes": 1048576,
}
_IDLE: Final = "connections.max.idle.ms"
_LEAST_IDLE: Final = 10000
_OVERRIDES: Final = "max.connections.per.ip.overrides"
_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
# What may follow the name of an image: a tag, a digest, or both. No slash: before a slash, a colon precedes a registry's port.
_TAG: Final = re.compile(r"(:\w[\w.-]*)?(@[\w.+-]+:[0-9a-fA-F]+)?", re.ASCII)


@dataclass(frozen=True)
class Allowed:
    """What the administrator allows.

    Attributes:
        images: prefixes of images that end where a name ends: ``registry.example/kafka`` allows ``registry.example/kafka:4.3.1``, but not
            ``registry.example/kafka-other``; with a slash at its end, everything below it. ``*`` for every image.
        jvm_options: JVM options in addition to `JVM_OPTIONS`; ``*`` at the end of an entry stands for a value without
            slashes, commas and colons; alone it allows every option.
        classes: classes (or paths of classes) that Kafka may load in addition to `CLASSES`; an entry that ends with a dot or a slash allows
            all below it; ``*`` for every class.
        annotations: keys of annotations of load balancers; ``*`` for all.
        sidecars: whether pod templates may have containers of their own, with an image that is allowed.
        csi_drivers: drivers of CSI volumes that pod templates may have inline; ``*`` for every driver.
        disks: the largest number of disks of all brokers of one KafkaCluster together.
        hadoop_settings: Hadoop settings for the rebalance job in addition to `allowed_hadoop.SETTINGS`; an entry that ends with a dot allows all
            below it; ``*`` for every setting.
    """

    images: tuple[str, ...] = IMAGES
    jvm_options: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ANNOTATIONS
    hadoop_settings: tuple[str, ...] = ()
    csi_drivers: tuple[str, ...] = ()
    sidecars: bool = False
    disks: int = DISKS

    def image(self, image: str) -> bool:
        """Whether pods may use an image."""
        return any(_image_fits(image, entry) for entry in self.images)

    def csi_driver(self, driver: str) -> bool:
        """Whether pod templates may have inline volumes of a CSI driver."""
        return driver in self.csi_drivers or EVERYTHING in self.csi_drivers

    def jvm_option(self, option: str) -> bool:
        """Whether the JVM may get an option."""
        return any(_option_fits(option, entry) for entry in (*JVM_OPTIONS, *self.jvm_options))

    def loads(self, value: str) -> bool:
        """Whether Kafka may load everything that a setting names: class names separated by commas, or the path of a class."""
        return _classes_fit(value, (*CLASSES, *self.classes))

    def annotation(self, key: str) -> bool:
        """Whether a load balancer's Service may carry an annotation."""
        return EVERYTHING in self.annotations or key in self.annotations

    def hadoop_setting(self, key: str, value: str) -> bool:
        """Whether the rebalance job may get a Hadoop setting; one that names classes by its value."""
        if allowed_hadoop.fits(key, self.hadoop_settings):
            return True
        if allowed_hadoop.loads(key):
            return _classes_fit(value, (*allowed_hadoop.CLASSES, *self.classes))
        return allowed_hadoop.harmless(key)


def read(text: str) -> Allowed:
    """Parse the operator's configuration.

    It is a JSON object with any of ``images``, ``jvmOptions``, ``classes``, ``annotations``, ``hadoopSettings`` and ``csiDrivers``, each a list of
    strings, ``sidecars``, true or false, and ``disksPerCluster``, a number.

    Raises:
        ValueError: it is not such an object; the message says what is wrong.
    """
    try:
        found: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"is not valid JSON: {error}") from error
    keys = {
        "images": "images",
        "jvmOptions": "jvm_options",
        "classes": "classes",
        "annotations": "annotations",
        "hadoopSettings": "hadoop_settings",
        "csiDrivers": "csi_drivers",
    }
    if not isinstance(found, dict) or (strange := sorted(found.keys() - keys.keys() - {_SIDECARS, _DISKS})):
        raise ValueError(
            f"must be an object with {', '.join(keys)}, {_SIDECARS}, {_DISKS}"
            + (f", not {strange[0]}" if isinstance(found, dict) else "")
        )
    sidecars = found.pop(_SIDECARS, False)
    if sidecars not in (True, False):
        raise ValueError(f"{_SIDECARS} must be true or false")
    disks = found.pop(_DISKS, DISKS)
    if type(disks) is not int or not 1 <= disks <= MAX_CLUSTER_DISKS:
        raise ValueError(f"{_DISKS} must be a number from 1 to {MAX_CLUSTER_DISKS}")
    for key, entries in found.items():
        if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
            raise ValueError(f"{key} must be a list of strings")
    lists: dict[str, Any] = {keys[key]: tuple(entries) for key, entries in found.items()}
    return Allowed(**lists, sidecars=bool(sidecars), disks=disks)


def _image_fits(image: str, entry: str) -> bool:
    if entry == EVERYTHING:
        return True
    if not entry or ".." in image:
        return False
    if not image.startswith(entry):
        return False
    return entry.endswith("/") or _TAG.fullmatch(image, len(entry)) is not None


def _option_fits(option: str, entry: str) -> bool:
    if entry in (EVERYTHING, option):
        return True
    return entry.endswith("*") and re.fullmatch(re.escape(entry[:-1]) + _OPEN, option) is not None


def _classes_fit(value: str, entries: tuple[str, ...]) -> bool:
    named = [each.strip() for each in value.split(",")]
    return all(not each or any(_class_fits(each, entry) for entry in entries) for each in named)


def _class_fits(name: str, entry: str) -> bool:
    return entry in (EVERYTHING, name) or (
        entry.endswith((".", "/")) and name.startswith(entry) and ".." not in name
    )


@dataclass(frozen=True, order=True)
class Forbidden:
    """A Kafka setting that no KafkaCluster may have, even if Kafka accepts it.

    Attributes:
        key: the setting.
        value: the requested value.
        message: what is wrong with it, a clause that begins with the key.
        way_out: what to do instead, a clause in the imperative.
    """

    key: str
    value: str
    message: str
    way_out: str


def forbidden_settings(settings: Mapping[str, str], allowed: Allowed) -> Iterator[Forbidden]:
    """Settings of a configuration that load classes which are not allowed, read files of the node, or lock the operator out; by key."""
    for key, value in sorted(settings.items()):
        if key == PROVIDERS or key.startswith(f"{PROVIDERS}."):
            yield Forbidden(
                key,
                value,
                f"{key} is owned by Spindle: a config provider reads files of the broker's pod, including its private key, into settings that "
                "Kafka writes to its log",
                "remove it and write the value itself; keep secrets in the Secrets that Spindle creates",
            )
        elif key in _LOADERS and not allowed.loads(value):
            yield Forbidden(
                key,
                value,
                f"{key} loads a class into the broker that this installation does not allow ({value[:200]})",
                "remove it, or ask the administrator to add the class to the chart value allow.classes",
            )
        elif (why := _locks_out(key, value)) is not None:
            yield Forbidden(
                key, value, f"{key} ({value[:80]}) would lock the operator and the agents out", why
            )


def _locks_out(key: str, value: str) -> str | None:
    """What to set instead of a value that locks the operator out; None for a value that does not."""
    if key == _OVERRIDES:
        parts = (part.rpartition(":")[2].strip() for part in value.split(",") if part.strip())
        least = _LEAST["max.connections.per.ip"]
        return f"give each address at least {least}" if any(_below(part, least) for part in parts) else None
    if key in _LEAST and _below(value, _LEAST[key]):
        return f"set {key} to {_LEAST[key]} or more, or remove it"
    if key == _IDLE and _below(value, _LEAST_IDLE) and not _below(value, 0):
        return f"set it to {_LEAST_IDLE} or more, or remove it"
    return None


def _below(value: str, least: int) -> bool:
    return _NUMBER.fullmatch(value.strip()) is not None and int(value) < least


def providers_in_use(settings: Mapping[str, str]) -> str:
    """The classes of config providers in a configuration, separated by commas, for the JVM property that limits them; empty for none."""
    named = [each.strip() for each in settings.get(PROVIDERS, "").split(",") if each.strip()]
    classes = (settings.get(f"{PROVIDERS}.{name}.class", "").strip() for name in named)
    return ",".join(dict.fromkeys(each for each in classes if re.fullmatch(r"[\w.$]+", each)))


def lent_to(label: str | None, cluster: str) -> bool:
    """Whether the owner of a Secret or claim permits a KafkaCluster to use it, by the label ``spindle.dev/usable-by``."""
    return label in (names.ANYONE, cluster)


def lender_label(cluster: str) -> str:
    """The label in the notation of kubectl."""
    return f"{names.LABEL_USABLE}={cluster}"
