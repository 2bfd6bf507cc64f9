"""Paths in a Kafka pod, optionally below another root (tests run the same programs outside a pod)."""

from dataclasses import dataclass
from typing import Final

from spindle.api import names

METADATA_DISK: Final = "metadata"  # a controller's only disk


@dataclass(frozen=True)
class Layout:
    """Paths in a Kafka pod.

    Attributes:
        root: prefix of every path; empty in a pod.
    """

    root: str = ""

    @property
    def disks_root(self) -> str:
        """The emptyDir in which a broker's disks are mounted."""
        return self.root + names.DISKS_ROOT

    @property
    def metadata_dir(self) -> str:
        """The dir of the metadata log's volume: an emptyDir of a broker, the claim of a controller."""
        return self.root + names.METADATA_DIR

    @property
    def metadata_log_dir(self) -> str:
        """Kafka's ``metadata.log.dir``."""
        return f"{self.metadata_dir}/{names.LOG_SUBDIR}"

    @property
    def handover_dir(self) -> str:
        """What preflight passes to Kafka's container."""
        return self.root + names.HANDOVER_DIR

    @property
    def config_dir(self) -> str:
        """The mounted ConfigMap of the node."""
        return self.root + names.CONFIG_DIR

    @property
    def tls_dir(self) -> str:
        """The mounted Secret of the node."""
        return self.root + names.TLS_DIR

    @property
    def topics_dir(self) -> str:
        """The mounted ConfigMap with the topics of ``spec.metrics.topics``; empty without any."""
        return self.root + names.TOPICS_DIR

    @property
    def loggers_dir(self) -> str:
        """The mounted ConfigMap with the levels of ``spec.logging``; empty without any."""
        return self.root + names.LOGGERS_DIR

    @property
    def listeners_dir(self) -> str:
        """The mounted Secret with the certificates of listeners that have their own."""
        return self.root + names.LISTENERS_DIR

    @property
    def podinfo_dir(self) -> str:
        """The pod's annotations, from the downward API."""
        return self.root + names.PODINFO_DIR

    def mount(self, disk: str) -> str:
        """The mount point of a disk."""
        return self.metadata_dir if disk == METADATA_DISK else f"{self.disks_root}/{disk}"

    def log_dir(self, disk: str) -> str:
        """The log dir on a disk."""
        return f"{self.mount(disk)}/{names.LOG_SUBDIR}"
