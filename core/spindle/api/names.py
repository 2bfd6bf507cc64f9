"""Every name, label, annotation, port and path that more than one part of Spindle must agree on."""

import re
from hashlib import sha256
from typing import Final

GROUP: Final = "spindle.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

FIELD_MANAGER: Final = "spindle-operator"
FIELD_MANAGER_AGENT: Final = "spindle-agent"
FIELD_MANAGER_REBALANCE: Final = "spindle-rebalance"
FINALIZER: Final = f"{GROUP}/identity"
FINALIZER_JOURNAL: Final = f"{GROUP}/journal"
FINALIZER_USER: Final = f"{GROUP}/user"
FINALIZER_TOPIC: Final = f"{GROUP}/topic"

# Labels on everything that belongs to a KafkaCluster.
LABEL_CLUSTER: Final = f"{GROUP}/cluster"
LABEL_NAMESPACE: Final = f"{GROUP}/namespace"  # of the KafkaCluster, on objects in another namespace
LABEL_ROLE: Final = f"{GROUP}/role"  # "controller", "broker" or "rebalance"
LABEL_NODE_ID: Final = f"{GROUP}/node-id"
LABEL_POOL: Final = f"{GROUP}/pool"
LABEL_BUDGET: Final = f"{GROUP}/budget"  # the PodDisruptionBudget that counts this pod
LABEL_LISTENER: Final = f"{GROUP}/listener"  # of the spec, on the listener's Services
LABEL_ROUTED: Final = f"{GROUP}/tls-route"  # on a listener's Services that have a TLSRoute of the same name
LABEL_USER: Final = f"{GROUP}/user"  # on the Secret of a KafkaUser
# On a Secret or claim of another owner: the KafkaCluster that may use it in its spec.
LABEL_USABLE: Final = f"{GROUP}/usable-by"
ANYONE: Final = "All"  # not the name of a KafkaCluster: those have no capital letters
LABEL_PRIVILEGED: Final = f"{GROUP}/privileged"  # on a KafkaUser that may have privileged ACLs; an admission policy limits who may set it
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "spindle"

# Annotations. On claims: the owner of the disk, from creation on ("no second bootstrap", docs/safety.md).
ANN_CLUSTER_ID: Final = f"{GROUP}/cluster-id"
ANN_NODE_ID: Final = f"{GROUP}/node-id"
ANN_POOL: Final = f"{GROUP}/pool"
ANN_DISK: Final = f"{GROUP}/disk"
ANN_DIRECTORY_ID: Final = f"{GROUP}/directory-id"
ANN_FS_UUID: Final = f"{GROUP}/fs-uuid"
ANN_RACK: Final = f"{GROUP}/rack"
ANN_BORN: Final = f"{GROUP}/born"  # of the identity record, once Kafka was running
ANN_JOURNAL: Final = f"{GROUP}/journal"  # of the identity record: "kept" once there was a journal of moves
ANN_LEFT: Final = f"{GROUP}/left"  # of a claim: "true" once its broker was stopped permanently
ANN_REFUSED: Final = f"{GROUP}/refused"  # why preflight rejected the disk that was to be added
ANN_VOLUME: Final = f"{GROUP}/volume"  # that is reserved for the recreated claim of an evacuated disk
# The `fieldPath` in the claimRef of a volume that Spindle has reserved; Kubernetes removes it when it binds the volume.
RESERVED: Final = f"metadata.annotations['{ANN_VOLUME}']"
ANN_RETIRED: Final = f"{GROUP}/retired"  # directory ids of this broker's evacuated disks, with commas
ANN_SLOT: Final = f"{GROUP}/slot"  # "out" while the slot waits for a new disk
ANN_VOTERS: Final = f"{GROUP}/voters"  # the controllers at bootstrap, as in the identity ConfigMap
ANN_LOST: Final = f"{GROUP}/lost"  # of a journal that replaces a lost one
ANN_AVOIDED: Final = (
    f"{GROUP}/avoided-nodes"  # marks of the host names that a pod must not be scheduled to, with commas
)
ANN_LOG_DIRS: Final = f"{GROUP}/log-dirs"  # the broker's list of its log dirs; also on brokers' pods
ANN_LEAVING: Final = (
    f"{GROUP}/leaving"  # of a pod: disks to inspect, which are only used if they contain a replica
)
ANN_QUORUM: Final = f"{GROUP}/quorum"  # "static" on claims of controllers that were taken over
# On pods: what preflight expects, what it may format, and what the pod was created from.
ANN_DISKS: Final = f"{GROUP}/disks"
ANN_CLEARANCE: Final = f"{GROUP}/clearance"
ENV_METRICS_BIND: Final = (
    "SPINDLE_METRICS_BIND"  # of preflight's containers: the address on which metrics are served
)
ENV_PROVIDERS: Final = "SPINDLE_CONFIG_PROVIDERS"  # of Kafka's container
ENV_POD_UID: Final = "SPINDLE_POD_UID"  # of preflight's containers
ANN_SPEC_HASH: Final = f"{GROUP}/spec-hash"
ANN_VERSION: Final = f"{GROUP}/kafka-version"
ANN_CONFIG: Final = f"{GROUP}/config-hash"  # of the whole server.properties that the pod was created with
ANN_SPEC_PARTS: Final = f"{GROUP}/spec-parts"  # a hash of each part, to determine which one changed
ANN_CERTIFICATE: Final = f"{GROUP}/certificate"  # fingerprint of the certificate that Kafka was started with
# On the Secret of the CA: the spec.security.rotate that was carried out last, and the time of the latest step of the rotation.
ANN_ROTATED: Final = f"{GROUP}/rotated"
ANN_TURNED: Final = f"{GROUP}/turned"
# On a KafkaCluster: UIDs of its own Secrets that were restored from a backup, separated by commas.
ANN_RESTORED: Final = f"{GROUP}/restored-secrets"
# On the Secret of a KafkaUser: a hash of the password that Kafka has.
ANN_PASSWORD: Final = f"{GROUP}/password"
# On a KafkaTopic: a hash of the replicas with which Spindle is about to create its topic.
ANN_CREATING: Final = f"{GROUP}/creating"
# On the Lease of an agent: a signing request (PEM) for the private key that never leaves the agent.
ANN_REQUEST: Final = f"{GROUP}/signing-request"
ANN_PARTS: Final = (
    f"{GROUP}/certificate-parts"  # on a Lease: the agent reads its certificate from one of so many ConfigMaps
)
# On objects with certificates: the time since which they contain their present CAs. A renewal does not change it.
ANN_WRITTEN: Final = f"{GROUP}/written"
# Marks of the listeners' own certificates: that a pod was created with, and that its process has loaded since.
ANN_OWN_CERTIFICATES: Final = f"{GROUP}/listener-certificates"
# On KafkaBrokers: the listeners whose certificate is being loaded, so that an operator that is interrupted removes what it has set.
ANN_LOADING: Final = f"{GROUP}/loading-listener-certificates"
# On pods of brokers: the type of each listener at the pod's creation, as name=type separated by spaces.
ANN_LISTENERS: Final = f"{GROUP}/listeners"
# On other objects: a hash of what the operator applied last, so that drift is detected with one comparison.
ANN_APPLIED: Final = f"{GROUP}/applied"

# On the Service of one broker's listener: the last advertised host:port, kept while the current one cannot be determined.
ANN_ADVERTISED: Final = f"{GROUP}/advertised"

READINESS_GATE: Final = f"{GROUP}/in-sync"

ROLE_CONTROLLER: Final = "controller"
ROLE_BROKER: Final = "broker"
ROLE_REBALANCE: Final = "rebalance"

# Node ids: brokers count from 0, controllers from here, so that the two never overlap.
FIRST_CONTROLLER_ID: Final = 9000

PORT_CONTROLLER: Final = 9090
PORT_REPLICATION: Final = 9091  # brokers, operator, agent
PORT_CLIENT: Final = 9092
PORT_METRICS: Final = 9404
PORT_SPARK_DRIVER: Final = 7078  # of the rebalance job's pod, for its executors
PORT_SPARK_BLOCKS: Final = 7079

LISTENER_CONTROLLER: Final = "CONTROLLER"
LISTENER_REPLICATION: Final = "REPLICATION"
LISTENER_CLIENT: Final = "CLIENT"

# Principals, as the certificates' common names (ssl.principal.mapping.rules keeps only the CN).
PRINCIPAL_NODE: Final = "spindle-node"  # every broker and controller of a cluster
PRINCIPAL_OPERATOR: Final = "spindle-operator"
PRINCIPAL_AGENT: Final = (
    "spindle-agent"  # of all agents of versions without a key per agent: see `agent_principal`
)
PRINCIPAL_REBALANCE: Final = "spindle-rebalance"
PRINCIPAL_ADMIN: Final = "admin"
_LONGEST_COMMON_NAME: Final = 64

# The key of the CAs in the ConfigMap of the agents' certificates; the other keys are node names, which are lower case.
AGENT_AUTHORITIES: Final = "CA.crt"
AGENT_PARTS: Final = "0123456789abcdef"

# Spindle's topics in each cluster.
TOPIC_SAMPLES: Final = "__spindle_samples"  # the agents' observations, the input of the rebalance job

# Paths inside a Kafka pod.
DISKS_ROOT: Final = "/var/lib/kafka/disks"  # an emptyDir; each disk is mounted below it
METADATA_DIR: Final = "/var/lib/kafka/metadata"  # brokers: an emptyDir; controllers: their claim
HANDOVER_DIR: Final = "/var/lib/kafka/spindle"  # an emptyDir: what preflight passes to Kafka's container
CONFIG_DIR: Final = "/etc/spindle/config"  # the ConfigMap
TLS_DIR: Final = "/etc/spindle/tls"  # the Secret
TOPICS_DIR: Final = "/etc/spindle/topics"  # the ConfigMap with the topics of spec.metrics.topics
LISTENERS_DIR: Final = (
    "/etc/spindle/listeners"  # the Secret with the certificates of listeners that have their own
)
LOGGERS_DIR: Final = "/etc/spindle/loggers"  # the ConfigMap with the levels of spec.logging
PODINFO_DIR: Final = "/etc/spindle/podinfo"  # downward API
IDENTITY_FILE: Final = "spindle.json"  # at the root of each volume, next to log/
BALLAST_FILE: Final = ".spindle-ballast"  # likewise, if enabled
HISTORY_FILE: Final = ".spindle-history"  # likewise: the history of the disk's usage
SCRUB_FILE: Final = ".spindle-scrub"  # likewise: when each segment was checked, and the findings
SCRUB_FILE_NEW: Final = f"{SCRUB_FILE}.new"  # its next version while that is being written
LOG_SUBDIR: Final = "log"
PLACEHOLDER_DIR: Final = "placeholder"  # next to the disks of a broker that was readopted

# Names of init containers and of Kafka's container.
CONTAINER_INSPECT: Final = "inspect"
CONTAINER_PREFLIGHT: Final = "preflight"
CONTAINER_KAFKA: Final = "kafka"
# The containers of a broker or controller, in the order in which they run.
NODE_CONTAINERS: Final = (CONTAINER_INSPECT, CONTAINER_PREFLIGHT, CONTAINER_KAFKA)
CONTAINER_REBALANCE: Final = "rebalance"

# Environment variables of the rebalance job's pod; all else is in its arguments.
ENV_POD_NAME: Final = "POD_NAME"
ENV_POD_NAMESPACE: Final = "POD_NAMESPACE"
ENV_POD_IP: Final = "POD_IP"
ENV_REBALANCE_IMAGE: Final = "SPINDLE_REBALANCE_IMAGE"  # its executors use it, too
SCRATCH_DIR: Final = (
    "/var/lib/spindle/scratch"  # an emptyDir: Spark's local dir, and the working directory of the run
)
ROLLUP_DIR: Final = "/var/lib/spindle/rollup"  # a claim, if hourly features are stored on one
REPORT_KEY: Final = "report.html.gz"  # in the ConfigMap of the report, under binaryData


def controller_id(index: int) -> int:
    """Node id of the controller with this index (0, 1, …)."""
    return FIRST_CONTROLLER_ID + index


def controller_pod(cluster: str, node_id: int) -> str:
    """Pod name, and host name, of a controller."""
    return f"{cluster}-controller-{node_id - FIRST_CONTROLLER_ID}"


def broker_name(cluster: str, broker_id: int) -> str:
    """Name of a broker's KafkaBroker and pod, and its host name."""
    return f"{cluster}-broker-{broker_id}"


def pod_name(cluster: str, node_id: int) -> str:
    """Pod name of a broker or a controller."""
    return (
        controller_pod(cluster, node_id) if node_id >= FIRST_CONTROLLER_ID else broker_name(cluster, node_id)
    )


def disk_name(index: int) -> str:
    """Name of a disk of a pool: disk0, disk1 and so on."""
    return f"disk{index}"


def claim_name(cluster: str, node_id: int, disk: str) -> str:
    """Name of the PersistentVolumeClaim behind one disk; a controller's only disk is called ``metadata``."""
    return f"data-{disk}-{cluster}-{node_id}"


def is_broker_claim(cluster: str, claim: str) -> bool:
    """Whether a claim has the name of one behind a disk of a cluster's brokers."""
    return re.fullmatch(f"data-disk[0-9]+-{re.escape(cluster)}-[0-9]+", claim) is not None


def controllers_service(cluster: str) -> str:
    """Headless Service of the controllers."""
    return f"{cluster}-controllers"


def brokers_service(cluster: str) -> str:
    """Headless Service of the brokers; each broker's host name is in its domain."""
    return f"{cluster}-brokers"


def bootstrap_service(cluster: str) -> str:
    """The Service that clients bootstrap from."""
    return f"{cluster}-bootstrap"


def listener_service(cluster: str, listener: str) -> str:
    """The Service that clients of an internal listener bootstrap from."""
    return f"{cluster}-bootstrap-{listener}"


def broker_listener_service(cluster: str, broker_id: int, listener: str) -> str:
    """The Service of one broker's external listener."""
    return f"{broker_name(cluster, broker_id)}-{listener}"


def identity_map(cluster: str) -> str:
    """ConfigMap with the identity record: "no second bootstrap" (docs/safety.md). It has no owner, so it outlives the KafkaCluster."""
    return f"{cluster}-identity"


def moves_map(cluster: str) -> str:
    """ConfigMap with the moves in progress and the settings to restore ("every changed setting can be restored", docs/safety.md)."""
    return f"{cluster}-moves"


def pools_map(cluster: str) -> str:
    """ConfigMap with the latest spec of each pool: the brokers of a removed pool use it until they are empty."""
    return f"{cluster}-pools"


def topics_map(cluster: str) -> str:
    """ConfigMap with the topics whose metrics the brokers export."""
    return f"{cluster}-topic-metrics"


def loggers_map(cluster: str) -> str:
    """ConfigMap with the levels of Kafka's loggers."""
    return f"{cluster}-loggers"


def config_map(cluster: str, node_id: int) -> str:
    """ConfigMap with the configuration of one broker or controller."""
    return f"{pod_name(cluster, node_id)}-config"


def ca_secret(cluster: str) -> str:
    """Secret with the cluster's own CA (certificate and key); only the operator reads it."""
    return f"{cluster}-ca"


def tls_secret(cluster: str, node_id: int) -> str:
    """Secret with one node's key and certificate."""
    return f"{pod_name(cluster, node_id)}-tls"


def listeners_secret(cluster: str) -> str:
    """Secret with the certificates of listeners that have their own, as brokers read them."""
    return f"{cluster}-listeners"


def operator_secret(cluster: str) -> str:
    """Secret with the operator's own client certificate for this cluster."""
    return f"{cluster}-operator"


def admin_secret(cluster: str) -> str:
    """Secret with everything that an administrator's client needs."""
    return f"{cluster}-admin"


def user_secret(cluster: str, user: str) -> str:
    """Secret with the credentials of a KafkaUser; no cluster's name has a dot, so the name is unambiguous."""
    return f"{cluster}.user.{user}"


def agent_certificates(namespace: str, cluster: str) -> str:
    """ConfigMap, in the agents' namespace, with the certificates for a cluster of agents that do not read parts: by node, and `AGENT_AUTHORITIES`.

    Agents of still earlier versions had a Secret with that name.
    """
    return f"{namespace}.{cluster}.spindle-agent"  # no namespace has a dot: the name is unique per cluster


def agent_part(namespace: str, cluster: str, node: str) -> str:
    """ConfigMap with the certificates of a sixteenth of the nodes; each agent reads that of its node only."""
    return f"{agent_certificates(namespace, cluster)}.{sha256(node.encode()).hexdigest()[0]}"


def agent_parts(namespace: str, cluster: str) -> tuple[str, ...]:
    """All names that `agent_part` returns."""
    return tuple(f"{agent_certificates(namespace, cluster)}.{digit}" for digit in AGENT_PARTS)


def agent_principal(node: str) -> str:
    """Common name of the certificates of a node's agent: at most the 64 characters of RFC 5280 (ub-common-name)."""
    plain = f"{PRINCIPAL_AGENT}.{node}"
    if len(plain) <= _LONGEST_COMMON_NAME:
        return plain
    return f"{PRINCIPAL_AGENT}-{sha256(node.encode()).hexdigest()[:48]}"  # no dot: the name is not that of another node


def agent_lease(node: str) -> str:
    """Lease, in the agents' namespace, that a node's agent renews while it is healthy."""
    return f"spindle-agent-{node}"


def broker_budget(cluster: str) -> str:
    """PodDisruptionBudget over the brokers."""
    return f"{cluster}-brokers"


def drain_budget(cluster: str) -> str:
    """PodDisruptionBudget over brokers that a drain of their zone may evict together."""
    return f"{cluster}-brokers-draining"


def controller_budget(cluster: str) -> str:
    """PodDisruptionBudget over the controllers."""
    return f"{cluster}-controllers"


def rebalance_job(cluster: str) -> str:
    """CronJob of the rebalance job; its ServiceAccount, Role and RoleBinding have the same name."""
    return f"{cluster}-rebalance"


def rebalance_secret(cluster: str) -> str:
    """Secret with the rebalance job's client certificate for Kafka."""
    return f"{cluster}-rebalance"


def rebalance_report(cluster: str) -> str:
    """ConfigMap with the report of the latest rebalance run."""
    return f"{cluster}-rebalance-report"


def node_host(cluster: str, namespace: str, node_id: int) -> str:
    """Host name of a broker or controller inside Kubernetes."""
    service = controllers_service(cluster) if node_id >= FIRST_CONTROLLER_ID else brokers_service(cluster)
    return f"{pod_name(cluster, node_id)}.{service}.{namespace}.svc"


def log_dir(disk: str) -> str:
    """The Kafka log dir on a disk, as Kafka's ``log.dirs`` and DescribeLogDirs name it."""
    return f"{DISKS_ROOT}/{disk}/{LOG_SUBDIR}"
