"""A cluster as Strimzi leaves it in Kubernetes: its resources, claims and folders, with Kafka on them.

Strimzi's operator does not run: its actions, creating pods and reporting that it is paused, are done here by hand.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from e2e.scenarios.lab import CLUSTER, Lab, LabError, client_pod, run_client

GROUP: Final = "kafka.strimzi.io"
SETS: Final = "core.strimzi.io"
CLUSTER_ID: Final = "3Db5QLSqSZieL3rJBUUegA"
BROKERS: Final = (0, 1, 2)
CONTROLLERS: Final = (3, 4, 5)  # ids continue from one pool to the next
RECORDS: Final = 2000
_SERVICE: Final = f"{CLUSTER}-kafka-brokers"
_CONFIG: Final = {
    "offsets.topic.replication.factor": 3,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
}
# Like its kafka_run.sh: formats blank disks at each start, then runs Kafka.
_RUN: Final = """
echo "$CONFIG" > /tmp/strimzi.properties
java -cp '/opt/kafka/libs/*' kafka.tools.StorageTool format -g -t "$ID" -r 4.3 -c /tmp/strimzi.properties
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' kafka.Kafka /tmp/strimzi.properties
"""
_WRITE: Final = """
import os
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
S = dict(bootstrap_servers=os.environ["THEIRS"])
KafkaAdminClient(**S).create_topics([NewTopic("orders", num_partitions=6, replication_factor=3)])
p = KafkaProducer(**S, acks="all")
for each in [p.send("orders", b"%d" % n, partition=n % 6) for n in range(RECORDS)]:
    each.get(60)
p.close(10)
print("RESULT", RECORDS)
""".replace("RECORDS", str(RECORDS))
_READ: Final = """
import os
from kafka import KafkaConsumer, TopicPartition
c = KafkaConsumer(bootstrap_servers=os.environ["THEIRS"], consumer_timeout_ms=15000)
c.assign([TopicPartition("orders", n) for n in range(6)])
c.seek_to_beginning()
print("RESULT", len({int(record.value) for record in c}))
"""
# Writes numbers from FIRST on with acks=all, one after the other, and prints each that was acknowledged with its time; a new connection after each error.
WRITE_ON: Final = """
import itertools, time
from kafka import KafkaProducer
from kafka.errors import KafkaError
p = None
for n in itertools.count(FIRST):
    while True:
        try:
            p = p or KafkaProducer(**S, acks="all", request_timeout_ms=5000, max_block_ms=5000, delivery_timeout_ms=6000, linger_ms=0)
            p.send("orders", b"%d" % n, partition=n % 6).get(7)
            break
        except (KafkaError, OSError, AssertionError, ValueError):
            if p:
                p.close(timeout=0)
            p = None
            time.sleep(0.2)
    print("ACK", n, time.time(), flush=True)
    time.sleep(0.02)
"""


@dataclass(frozen=True)
class Acknowledged:
    """What a writer has printed: numbers, and the time of each in seconds since the epoch."""

    times: Mapping[int, float]

    @classmethod
    def of(cls, log: str) -> "Acknowledged":
        """From the log of its pod."""
        lines = [line.split() for line in log.splitlines() if line.startswith("ACK ")]
        return cls({int(number): float(at) for _, number, at in lines})

    @property
    def numbers(self) -> range:
        """All of them: a writer goes on only behind one that was acknowledged."""
        return range(min(self.times), max(self.times) + 1)

    @property
    def longest_gap(self) -> float:
        """Seconds between two acknowledgements, at most."""
        times = sorted(self.times.values())
        return max((late - early for early, late in pairwise(times)), default=0.0)


def definitions() -> list[dict[str, Any]]:
    """CRDs of its kinds that accept any content."""
    made = []
    for group, kind, plural in (
        (GROUP, "Kafka", "kafkas"),
        (GROUP, "KafkaNodePool", "kafkanodepools"),
        (GROUP, "KafkaTopic", "kafkatopics"),
        (GROUP, "KafkaUser", "kafkausers"),
        (SETS, "StrimziPodSet", "strimzipodsets"),
    ):
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        }
        made.append(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{plural}.{group}"},
                "spec": {
                    "group": group,
                    "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                    "scope": "Namespaced",
                    "versions": [version],
                },
            }
        )
    return made


@dataclass(frozen=True)
class StrimziCluster:
    """The cluster, in a scenario's namespace."""

    lab: Lab
    image: str
    hosts: Mapping[int, str]  # Kafka's node → Kubernetes' node

    def pool(self, node: int) -> str:
        """The pool of a Kafka node."""
        return "controller" if node in CONTROLLERS else "broker"

    def pod_name(self, node: int) -> str:
        """Its pod."""
        return f"{CLUSTER}-{self.pool(node)}-{node}"

    def volumes(self, node: int) -> list[int]:
        """Ids of its volumes."""
        return [0] if node in CONTROLLERS else [0, 1]

    def claim(self, node: int, volume: int) -> str:
        """The claim of one of its volumes."""
        return f"data-{volume}-{self.pod_name(node)}"

    def make(self) -> None:
        """Create resources and claims, then the pods."""
        lab = self.lab
        lab.apply(*definitions())
        names = ("kafkas", "kafkanodepools", "kafkatopics", "kafkausers")
        for plural in (*(f"{each}.{GROUP}" for each in names), f"strimzipodsets.{SETS}"):
            lab.kubectl("wait", "--for=condition=Established", f"crd/{plural}", "--timeout=30s")
        lab.apply(self._kafka(), *(self._pool(pool) for pool in ("broker", "controller")), self._service())
        lab.apply(*self._topic_and_user())
        for pool, ids in (("broker", BROKERS), ("controller", CONTROLLERS)):
            lab.apply_status("kafkanodepool", pool, {"nodeIds": list(ids)})
        lab.apply(
            *(self._claim(node, volume) for node in (*BROKERS, *CONTROLLERS) for volume in self.volumes(node))
        )
        self.start()

    def start(self) -> None:
        """Create the StrimziPodSets and their pods, like its operator."""
        for pool, ids in (("controller", CONTROLLERS), ("broker", BROKERS)):
            made = {
                "apiVersion": f"{SETS}/v1",
                "kind": "StrimziPodSet",
                "metadata": {"name": f"{CLUSTER}-{pool}", "labels": {"strimzi.io/cluster": CLUSTER}},
            }
            self.lab.apply(made)
            owner = self.lab.the("strimzipodset", f"{CLUSTER}-{pool}")
            self.lab.apply(*(self._pod(node, owner) for node in ids))
        for node in (*CONTROLLERS, *BROKERS):
            self.lab.kubectl(
                "wait", "--for=condition=Ready", f"pod/{self.pod_name(node)}", "--timeout=240s", timeout=260
            )
        self.lab.apply_status("kafka", CLUSTER, self._status())

    @contextmanager
    def reconciled(self) -> Iterator[None]:
        """Report once a second whether reconciliation is paused, like its operator."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(1):
                with suppress(LabError):  # it tries again in a second
                    self.lab.apply_status("kafka", CLUSTER, self._status())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def write(self) -> None:
        """Write numbered records with acks=all."""
        assert self._run("their-writer", _WRITE) == RECORDS

    def read(self) -> int:
        """Number of these records that exist."""
        return self._run("their-reader", _READ)

    def write_on(self, name: str) -> None:
        """Start a pod that goes on writing behind these records, until nothing answers any more."""
        program = f"FIRST = {RECORDS}\nS = dict(bootstrap_servers='{self._address}')\n{WRITE_ON}"
        self.lab.apply(client_pod(self.lab, name, self.image, program, {}, plain=True))

    @property
    def _address(self) -> str:
        return f"{_SERVICE}.{self.lab.namespace}.svc:9092"

    def _run(self, name: str, program: str) -> int:
        env = {"THEIRS": self._address}
        text = "import os\n" + "".join(f"os.environ[{k!r}] = {v!r}\n" for k, v in env.items()) + program
        return int(run_client(self.lab, name, self.image, text, plain=True).split("RESULT ", 1)[1].split()[0])

    def _status(self) -> dict[str, Any]:
        """What its operator writes at the end of a reconciliation."""
        annotations = self.lab.the("kafka", CLUSTER)["metadata"].get("annotations") or {}
        paused = annotations.get("strimzi.io/pause-reconciliation") == "true"
        conditions = [{"type": "ReconciliationPaused" if paused else "Ready", "status": "True"}]
        return {"clusterId": CLUSTER_ID, "kafkaVersion": "4.3.1", "conditions": conditions}

    def _topic_and_user(self) -> list[dict[str, Any]]:
        topic = {"partitions": 6, "replicas": 3, "config": {"retention.ms": 604800000}}
        acl = {"resource": {"type": "topic", "name": "orders"}, "operations": ["Read", "Describe"]}
        user = {"authentication": {"type": "tls"}, "authorization": {"type": "simple", "acls": [acl]}}
        return [
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": kind,
                "metadata": {"name": name, "labels": {"strimzi.io/cluster": CLUSTER}},
                "spec": spec,
            }
            for kind, name, spec in (("KafkaTopic", "orders", topic), ("KafkaUser", "reader", user))
        ]

    def _kafka(self) -> dict[str, Any]:
        listeners = [
            {"name": "plain", "port": 9092, "type": "internal", "tls": False},
            {
                "name": "tls",
                "port": 9093,
                "type": "internal",
                "tls": True,
                "authentication": {"type": "scram-sha-512"},
            },
        ]
        kafka = {
            "version": "4.3.1",
            "listeners": listeners,
            "config": _CONFIG,
            "rack": {"topologyKey": "topology.kubernetes.io/zone"},
        }
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": "Kafka",
            "metadata": {"name": CLUSTER},
            "spec": {"kafka": kafka, "entityOperator": {}},
        }

    def _pool(self, pool: str) -> dict[str, Any]:
        volumes = [
            {"id": n, "type": "persistent-claim", "size": "200Mi", "class": "local-disks"}
            for n in ((0,) if pool == "controller" else (0, 1))
        ]
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": "KafkaNodePool",
            "metadata": {"name": pool, "labels": {"strimzi.io/cluster": CLUSTER}},
            "spec": {
                "replicas": 3,
                "roles": [pool],
                "storage": {"type": "jbod", "volumes": volumes},
                "jvmOptions": {"-Xmx": "320m"},
            },
        }

    def _service(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": _SERVICE},
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": True,
                "selector": {"strimzi.io/cluster": CLUSTER},
            },
        }

    def _claim(self, node: int, volume: int) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": self.claim(node, volume),
                "labels": {"strimzi.io/cluster": CLUSTER, "strimzi.io/pool-name": self.pool(node)},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local-disks",
                "resources": {"requests": {"storage": "200Mi"}},
            },
        }

    def _host(self, node: int) -> str:
        return f"{self.pod_name(node)}.{_SERVICE}.{self.lab.namespace}.svc"

    def _properties(self, node: int) -> str:
        controller = node in CONTROLLERS
        dirs = [f"/var/lib/kafka/data-{n}/kafka-log{node}" for n in self.volumes(node)]
        own: dict[str, Any] = {
            **_CONFIG,
            "node.id": node,
            "process.roles": "controller" if controller else "broker",
            "controller.listener.names": "CONTROLPLANE-9090",
            "controller.quorum.voters": ",".join(f"{c}@{self._host(c)}:9090" for c in CONTROLLERS),
            "listener.security.protocol.map": "CONTROLPLANE-9090:PLAINTEXT,REPLICATION-9091:PLAINTEXT,PLAIN-9092:PLAINTEXT",
            "inter.broker.listener.name": "REPLICATION-9091",
            "log.dirs": ",".join(dirs),
            "metadata.log.dir": dirs[0],
            "log.cleaner.dedupe.buffer.size": 2097152,
        }
        if controller:
            own["listeners"] = "CONTROLPLANE-9090://0.0.0.0:9090"
            own["advertised.listeners"] = f"CONTROLPLANE-9090://{self._host(node)}:9090"
        else:
            own["listeners"] = "REPLICATION-9091://0.0.0.0:9091,PLAIN-9092://0.0.0.0:9092"
            host = self._host(node)
            own["advertised.listeners"] = f"REPLICATION-9091://{host}:9091,PLAIN-9092://{host}:9092"
        return "".join(f"{key}={value}\n" for key, value in own.items())

    def _pod(self, node: int, owner: Mapping[str, Any]) -> dict[str, Any]:
        reference = {
            "apiVersion": f"{SETS}/v1",
            "kind": "StrimziPodSet",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        port = 9090 if node in CONTROLLERS else 9092
        kafka = {
            "name": "kafka",
            "image": "docker.io/apache/kafka:4.3.1",
            "command": ["bash", "-c", _RUN],
            "env": [
                {"name": "CONFIG", "value": self._properties(node)},
                {"name": "ID", "value": CLUSTER_ID},
            ],
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 2},
            "volumeMounts": [
                {"name": f"data-{n}", "mountPath": f"/var/lib/kafka/data-{n}"} for n in self.volumes(node)
            ],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.pod_name(node),
                "labels": {"strimzi.io/cluster": CLUSTER, "strimzi.io/pool-name": self.pool(node)},
                "ownerReferences": [reference],
            },
            "spec": {
                "hostname": self.pod_name(node),
                "subdomain": _SERVICE,
                "nodeSelector": {"kubernetes.io/hostname": self.hosts[node]},
                "securityContext": {"runAsUser": 1001, "runAsGroup": 0, "fsGroup": 0},
                "terminationGracePeriodSeconds": 60,
                "containers": [kafka],
                "volumes": [
                    {"name": f"data-{n}", "persistentVolumeClaim": {"claimName": self.claim(node, n)}}
                    for n in self.volumes(node)
                ],
            },
        }
