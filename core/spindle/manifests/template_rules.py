"""What a pod template may add to a pod, and why not the rest.

Spindle owns its containers, their variables and mounts, its volumes, ports, labels and annotations, and the user and the privileges of the pod.
`spindle.manifests.pod_template` adds nothing that a rule here refuses, whoever asks for it.
"""

from collections.abc import Mapping
from typing import Any, Final

from spindle.api import names

MOUNTS: Final = "/mnt/"  # below it, no container of Spindle has a file
OWN_CONTAINERS: Final = frozenset(
    {
        names.CONTAINER_INSPECT,
        names.CONTAINER_PREFLIGHT,
        names.CONTAINER_KAFKA,
        names.CONTAINER_REBALANCE,
        "executor",
    }
)
_VOLUMES: Final = frozenset(
    {
        "config",
        "disks",
        "handover",
        "listeners",
        "loggers",
        "metadata",
        "podinfo",
        "rollup",
        "scratch",
        "tls",
        "tmp",
        "topics",
    }
)
_VOLUME_PREFIXES: Final = ("disk-", "spark-", "hadoop-", "pod-template", "kube-api-access")
_LABELS: Final = frozenset({"app.kubernetes.io/name", "app.kubernetes.io/instance", names.LABEL_MANAGED_BY})
_SCRAPE: Final = frozenset({"prometheus.io/scrape", "prometheus.io/port", "prometheus.io/path"})
# Read by the shell, by Kafka's start scripts, by Java, Python or Spark: with them a variable is a program or an option of the JVM.
_VARIABLES: Final = frozenset(
    {
        "CLASSPATH", "CONSOLE_OUTPUT_FILE", "DEBUG_SUSPEND_FLAG", "ENV", "EXTRA_ARGS", "GC_FILE_SUFFIX", "GC_LOG_FILE_NAME",
        "HADOOP_CLASSPATH", "HOME", "IFS", "INCLUDE_TEST_JARS", "JMX_PORT", "LOG_DIR", "PATH", "PS4", "SHELLOPTS", "SCALA_BINARY_VERSION",
        "SCALA_VERSION", "UPGRADE_KAFKA_STREAMS_TEST_VERSION", "base_dir",
    }
)  # fmt: skip
_VARIABLE_PREFIXES: Final = (
    *("KAFKA_", "SPINDLE_", "JAVA_", "_JAVA_", "JDK_", "LD_", "BASH_", "GLIBC_", "PYTHON", "SPARK_", "POD_"),
)
PORTS: Final = frozenset(
    {names.PORT_CONTROLLER, names.PORT_REPLICATION, names.PORT_CLIENT, names.PORT_METRICS}
    | {names.PORT_SPARK_DRIVER, names.PORT_SPARK_BLOCKS}
)
# The kinds of volumes of the pod security level Restricted.
_KINDS: Final = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_FILLED: Final = frozenset({"dataSource", "dataSourceRef", "volumeName"})
_SOURCES: Final = frozenset({"configMap", "downwardAPI", "secret"})
_SECURITY: Final = frozenset(
    {
        "appArmorProfile", "fsGroupChangePolicy", "seLinuxChangePolicy", "seLinuxOptions", "seccompProfile", "supplementalGroups",
        "supplementalGroupsPolicy", "sysctls",
    }
)  # fmt: skip
# The sysctls of the pod security level Baseline.
_SYSCTLS: Final = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem",
    }
)  # fmt: skip
_SELINUX: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"})
_CONTAINED: Final = ("RuntimeDefault", "Localhost")
_CAPABILITY: Final = "NET_BIND_SERVICE"  # the only one that Restricted permits
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_MERGED: Final = frozenset({"name", "env", "envFrom", "volumeMounts"})

Why = tuple[str, str]  # what is wrong, a clause; what to do instead, a clause in the imperative


def label(key: str) -> Why | None:
    """Why a template may not set a label; None if it may."""
    if key in _LABELS or _of_spindle(key):
        return (
            f"label {key} is Spindle's, which finds its pods by it",
            "remove it; labels with a prefix of your own are free",
        )
    return None


def annotation(key: str) -> Why | None:
    """The same for an annotation."""
    if _of_spindle(key):
        return (
            f"annotation {key} is Spindle's record about the pod",
            "remove it; annotations with a prefix of your own are free",
        )
    if key in _SCRAPE:
        return (
            f"annotation {key} is Spindle's, for the metrics of Kafka",
            "remove it; spec.metrics.enabled turns these annotations on and off",
        )
    return None


def kubernetes_own(key: str) -> Why | None:
    """The same for an annotation of a claim that Kubernetes itself reads: where its volume is, and who provisions it."""
    domain = key.partition("/")[0]
    if "/" in key and (domain == "kubernetes.io" or domain.endswith((".kubernetes.io", ".k8s.io"))):
        return (
            f"annotation {key} is Kubernetes' own record about the claim",
            "remove it; annotations with a prefix of your own are free",
        )
    return None


def scrapes(key: str) -> bool:
    """Whether an annotation is Spindle's only with ``spec.metrics.enabled``."""
    return key in _SCRAPE


def volume(entry: Mapping[str, Any]) -> Why | None:
    """The same for a volume."""
    name = str(entry.get("name") or "")
    if name in _VOLUMES or name.startswith(_VOLUME_PREFIXES):
        return (
            f"volume name {name} is reserved for Spindle's own volumes",
            "give the volume another name, for example extra",
        )
    strange = sorted(entry.keys() - _KINDS - {"name"})
    if strange:
        return (
            f"volume {name} is of the kind {strange[0]}, which would give the pod files or devices of its node",
            f"use one of {', '.join(sorted(_KINDS))}",
        )
    for source in _listed(_mapped(entry.get("projected")).get("sources")):
        if other := sorted(source.keys() - _SOURCES):
            return (
                f"volume {name} projects a {other[0]}: the pods have no account in Kubernetes on purpose",
                "project a Secret, a ConfigMap or the downward API",
            )
    return _claim(name, _mapped(_mapped(entry.get("ephemeral")).get("volumeClaimTemplate")))


def _claim(name: str, template: Mapping[str, Any]) -> Why | None:
    """The same for the claim of an ephemeral volume: with content it would be a copy of a claim that nobody lent, and Spindle's claims have its labels."""
    if filled := sorted(_mapped(template.get("spec")).keys() & _FILLED):
        return (
            f"volume {name} has {filled[0]}, which could give the pod what is on another claim or volume",
            "remove it; a claim that its owner lends is used with persistentVolumeClaim",
        )
    metadata = _mapped(template.get("metadata"))
    for part, refused in (("labels", label), ("annotations", annotation)):
        for key in sorted(_mapped(metadata.get(part))):
            if (wrong := refused(str(key))) is not None and not scrapes(str(key)):
                return f"volume {name}: {wrong[0]}", wrong[1]
    return None


def variable(name: str) -> Why | None:
    """The same for an environment variable of a container of Spindle's."""
    if name in _VARIABLES or name.startswith(_VARIABLE_PREFIXES):
        return (
            f"variable {name} is reserved: the shell, Java or Kafka's start script read it, and Spindle sets what they need",
            "remove it; options of the JVM are in jvm.options, the heap in jvm.heap, and settings of Kafka in config",
        )
    return None


def source(entry: Mapping[str, Any]) -> Why | None:
    """The same for an entry of ``envFrom`` of a container of Spindle's: its names are unknown, so its prefix must keep them apart."""
    prefix = str(entry.get("prefix") or "")
    reserved = (*_VARIABLES, *_VARIABLE_PREFIXES)
    if not prefix or any(each.startswith(prefix) or prefix.startswith(each) for each in reserved):
        return (
            "an entry of envFrom could bring variables that the shell, Java or Kafka's start script read",
            "give it a prefix of its own, for example prefix: APP_",
        )
    return None


def mount(entry: Mapping[str, Any], volumes: frozenset[str], *, own: bool) -> Why | None:
    """The same for a volume mount.

    Args:
        entry: the mount.
        volumes: names of the template's volumes.
        own: whether the container is Spindle's.
    """
    name, path = str(entry.get("name") or ""), str(entry.get("mountPath") or "")
    if name not in volumes:
        return (
            f"it mounts {name}, which is no volume of this template: Spindle's volumes hold Kafka's data and private keys",
            "mount a volume of podTemplate.spec.volumes",
        )
    parts = path.split("/")
    if own and (
        not path.startswith(MOUNTS) or ".." in parts or "." in parts or "" in parts[1:-1] or path == MOUNTS
    ):
        return (
            f"it mounts a volume at {path}, where Spindle's or Kafka's files may be",
            f"mount it below {MOUNTS}, for example {MOUNTS}extra",
        )
    return None


def port(entry: Mapping[str, Any], listeners: Mapping[str, int]) -> Why | None:
    """The same for a port of a sidecar.

    Args:
        entry: the port.
        listeners: name and port of each listener of the spec. Their Services find the port by its name.
    """
    number, name = str(entry.get("containerPort")), str(entry.get("name"))
    if entry.get("hostPort"):
        return (
            f"port {number} is opened on the node (hostPort)",
            "remove hostPort; for access from outside add a listener or a Service",
        )
    if number in {str(each) for each in (*PORTS, *listeners.values())}:
        return (
            f"port {number} is Spindle's, and all containers of a pod share their ports",
            "use another port",
        )
    if name in listeners:
        return (
            f"port {number} has the name of listener {name}, whose Service would take it for Kafka's",
            "give the port another name",
        )
    return None


def remote_host(entry: Mapping[str, Any]) -> Why | None:
    """The same for the probes and hooks of a sidecar: with a host of its own, the kubelet of the node sends them anywhere."""
    hooks = _mapped(entry.get("lifecycle"))
    asked = {key: entry.get(key) for key in _PROBES} | {f"lifecycle.{key}": hooks[key] for key in hooks}
    for key, each in asked.items():
        if any(_mapped(_mapped(each).get(kind)).get("host") for kind in ("httpGet", "tcpSocket")):
            return (
                f"{key} names a host, to which the node would connect",
                f"remove host from {key}: it is sent to the pod itself",
            )
    return None


def pod_security(key: str, value: Any) -> Why | None:
    """The same for a field of the pod's ``securityContext``."""
    if key not in _SECURITY:
        return (
            f"{key} is Spindle's: the disks belong to user {_UID}, and no pod runs as root",
            f"remove it; these are free: {', '.join(sorted(_SECURITY))}",
        )
    return _profile(key, value)


def container_security(key: str, value: Any) -> Why | None:
    """The same for a field of the ``securityContext`` of a sidecar."""
    weak = {
        "privileged": value is not False,
        "allowPrivilegeEscalation": value is not False,
        "runAsNonRoot": value is not True,
        "runAsUser": type(value) is not int or value < 1,
        "procMount": value != "Default",
        "windowsOptions": True,
    }
    if weak.get(key, False):
        return f"{key}: {value} would lower the pod's security level below Restricted", f"remove {key}"
    added = _mapped(value).get("add") if key == "capabilities" else None
    if added not in (None, [], [_CAPABILITY]):
        return (
            "capabilities.add would lower the pod's security level below Restricted",
            f"remove it; only {_CAPABILITY} may be added",
        )
    return _profile(key, value)


def affinity(value: Mapping[str, Any]) -> Why | None:
    """The same for an affinity: Spindle adds its own to it, so its lists must be lists."""
    for kind, part in value.items():
        if kind not in ("nodeAffinity", "podAffinity", "podAntiAffinity") or not isinstance(part, Mapping):
            return (
                f"affinity.{kind} is no affinity",
                "write it as in a pod's spec: nodeAffinity, podAffinity or podAntiAffinity",
            )
        for key, entries in part.items():
            if kind == "nodeAffinity" and key.startswith("required"):
                entries = _mapped(entries).get("nodeSelectorTerms")  # noqa: PLW2901 - the list is one level deeper there
            if (wrong := shape(f"affinity.{kind}.{key}", entries)) is not None:
                return wrong
    return None


def shape(key: str, value: object) -> Why | None:
    """The same for a list of objects that Spindle looks into."""
    if isinstance(value, list | tuple) and all(isinstance(each, Mapping) and each for each in value):
        return None
    return f"{key} is no list of objects", "write it as in a pod's spec"


def merged_field(key: str) -> Why | None:
    """The same for a field of the entry that names a container of Spindle's."""
    if key in _MERGED:
        return None
    return (
        f"{key} of this container is Spindle's",
        "remove it; env, envFrom and volumeMounts can be added, CPU and memory are in resources and the image in spec.image",
    )


_UID: Final = 1000


def _profile(key: str, value: Any) -> Why | None:
    if key in ("seccompProfile", "appArmorProfile") and _mapped(value).get("type") not in _CONTAINED:
        return (
            f"{key} would lower the pod's security level below Restricted",
            f"use the type {' or '.join(_CONTAINED)}",
        )
    if key == "sysctls" and (
        bad := [str(s.get("name")) for s in _listed(value) if str(s.get("name")) not in _SYSCTLS]
    ):
        return f"sysctl {bad[0]} is not among the safe ones", "set it on the nodes, or remove it"
    selinux = _mapped(value) if key == "seLinuxOptions" else {}
    if selinux.get("user") or selinux.get("role") or str(selinux.get("type") or "") not in _SELINUX:
        return (
            "seLinuxOptions would lower the pod's security level below Restricted",
            "set only level, or a container type",
        )
    return None


def _of_spindle(key: str) -> bool:
    domain = key.partition("/")[0]
    return "/" in key and (domain == names.GROUP or domain.endswith(f".{names.GROUP}"))


def _mapped(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
