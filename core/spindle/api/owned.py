"""Kafka's configuration keys that Spindle sets itself, and what to do instead of setting them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Owned:
    """Keys that are owned for the same reason.

    Attributes:
        subject: what the keys are about, two or three words.
        way_out: what the user does instead; a clause without a full stop and without single quotes.
        keys: exact names.
        prefixes: prefixes of names.
        free: keys with one of these prefixes that users may set; `spindle.model.free_settings` limits their values.
    """

    subject: str
    way_out: str
    keys: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    free: tuple[str, ...] = ()

    def has(self, key: str) -> bool:
        """Whether a key is among them."""
        return key in self.keys or (key.startswith(self.prefixes) and key not in self.free)


OWNED: Final = (
    Owned(
        "log dirs",
        "remove it and describe the disks in brokerPools[].disks; each becomes a log dir",
        keys=("log.dir", "log.dirs", "metadata.log.dir"),
    ),
    Owned(
        "cordoned disks",
        "remove it and cordon a disk in its KafkaBroker: spec.maintenance.disks[].desiredState",
        keys=("cordoned.log.dirs",),
    ),
    Owned(
        "racks",
        "remove it and set racks.topologyKey to the node label that contains the rack",
        keys=("broker.rack",),
    ),
    Owned(
        "identity and roles",
        "remove it; Spindle assigns ids and records them in each KafkaBroker",
        keys=(
            "node.id",
            "broker.id",
            "broker.id.generation.enable",
            "reserved.broker.max.id",
            "process.roles",
            "cluster.id",
        ),
    ),
    Owned(
        "the controller quorum",
        "remove it and set controllers.replicas",
        keys=("controller.listener.names",),
        prefixes=("controller.quorum.",),
        free=(
            "controller.quorum.append.linger.ms",
            "controller.quorum.election.backoff.max.ms",
            "controller.quorum.election.timeout.ms",
            "controller.quorum.fetch.max.bytes",
            "controller.quorum.fetch.snapshot.max.bytes",
            "controller.quorum.fetch.timeout.ms",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
        ),
    ),
    Owned(
        "listeners",
        "remove it and add listeners under spec.listeners, with maxConnections and maxConnectionCreationRate for their limits; clients use the "
        "address in status.bootstrap",
        keys=(
            "listeners",
            "advertised.listeners",
            "inter.broker.listener.name",
            "control.plane.listener.name",
            "early.start.listeners",
            "host.name",
            "advertised.host.name",
            "port",
            "advertised.port",
        ),
        prefixes=("listener.",),
    ),
    Owned(
        "security",
        "remove it; Spindle configures certificates, authentication and authorization; grant rights by ACLs "
        "with the admin Secret",
        keys=(
            "authorizer.class.name",
            "super.users",
            "allow.everyone.if.no.acl.found",
            "principal.builder.class",
        ),
        prefixes=("ssl.", "sasl.", "security.", "delegation.token.", "password.encoder."),
        free=("ssl.cipher.suites", "ssl.enabled.protocols"),
    ),
    Owned(
        "throttles",
        "remove it; Spindle throttles replication and moves while they run",
        keys=(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            "leader.replication.throttled.rate",
            "follower.replication.throttled.rate",
            "leader.replication.throttled.replicas",
            "follower.replication.throttled.replicas",
        ),
    ),
    Owned(
        "ZooKeeper",
        "remove it; Kafka 4 has no ZooKeeper",
        prefixes=("zookeeper.",),
    ),
    Owned(
        "versions",
        "remove it and set spec.version",
        keys=("inter.broker.protocol.version", "log.message.format.version"),
    ),
)


def owner_of(key: str) -> Owned | None:
    """The group that a key belongs to; None for a key that users may set."""
    return next((group for group in OWNED if group.has(key)), None)


def owned(key: str) -> str | None:
    """Why a key must not be set, and what to do instead; None for a key that users may set."""
    group = owner_of(key)
    return None if group is None else f"{key} is owned by Spindle ({group.subject}): {group.way_out}"
