"""Sizes of the objects that Spindle writes for a large cluster: those of a converged world, and the worst cases of those that grow with load.

.venv/bin/python -m bench.fleet.sizes [BROKERS] [--limit BYTES]

The worst cases have the longest names of topics that Kafka accepts: 2,000 moves, 2,000 changes of leaders and their progress, 1,000 waits, every
proposed move dropped, a node's report with 200 moves. It ends with an error if an object is larger than the limit.
"""

import argparse
import datetime as dt
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from bench.fleet.passes import Fleet, converged
from bench.fleet.shape import DISKS
from spindle.api import names
from spindle.balance.propose import MOST_BYTES as MOST_PROPOSED
from spindle.config import spec_allowed
from spindle.model.plan_builder import MOST_LISTED, PlanBuilder
from spindle.model.waiting import Waiting, some
from spindle.moves.copy_progress import CopyProgress
from spindle.moves.journal import Journal, JournalError, LeadershipOverride, Move, render
from spindle.proposals.proposal_status import listed_drops
from spindle.reconcile.plan import plan
from spindle_operator import ca

LIMIT = 1_000_000  # bytes
_MOVES = 2000
_QUEUED = 200  # moves of one agent
_SHOWN = 25
_LONGEST = "t" * 243


def topic(number: int) -> str:
    """One of the longest names of topics."""
    return f"{number:06}{_LONGEST}"


def of_world(world: Fleet) -> Iterator[tuple[str, int]]:
    """The objects of a world, and what a pass that changes every broker writes."""
    for (kind, name), obj in world.objects.items():
        yield f"{kind}/{name}", size(obj)
    yield "KafkaCluster/demo", size(world.cluster)
    spec = world.cluster["spec"]
    with mock.patch.dict(spec, {"config": {"broker.heartbeat.interval.ms": "2100"}}):
        made = plan(world.snapshot(), world.now)
    for action in made.actions:
        written: Mapping[str, Any] | None = getattr(action, "object", None)
        if written is not None:
            yield f"written {written['kind']}/{written['metadata']['name']}", size(written)
    yield "status of KafkaCluster/demo, a change of all brokers", size(made.status)
    for name, status in made.broker_statuses.items():
        yield f"status of KafkaBroker/{name}", size(status)


def of_load(brokers: int) -> Iterator[tuple[str, int]]:
    """Worst cases of what grows with load."""
    yield "ConfigMap/demo-moves, as many moves as it has room for", _journal(brokers)
    yield f"status.waiting of KafkaCluster/demo, {MOST_LISTED} entries", _waiting()
    yield "KafkaRebalance, every move dropped", _proposal()
    yield "status.observed of a KafkaBroker and its spec.moves", _observed()
    for kind, authority in (
        ("", ca.make_ca("kafka/demo CA")),
        (", an external authority of RSA 4096", _rsa()),
    ):
        yield f"ConfigMap of a part of the agents' certificates{kind}", _certificates(brokers, authority)


def size(obj: Any) -> int:
    """Bytes as JSON, as the API server stores a custom resource."""
    return len(json.dumps(obj, separators=(",", ":"), ensure_ascii=False, default=str).encode())


def _journal(brokers: int) -> int:
    count = _MOVES
    while True:
        moves = tuple(
            Move(
                topic(n), n, n % brokers, names.log_dir("disk0"), (n + 1) % brokers, names.log_dir("disk1"),
                10**12, "evacuate", (1001, 1002, 1003),
            )
            for n in range(count)
        )  # fmt: skip
        orders = tuple(
            LeadershipOverride(topic(n), n, (1001, 1002, 1003), (1002, 1001, 1003)) for n in range(count)
        )
        pace = tuple(CopyProgress(topic(n), n, 1000, 10**12, 1.7e9) for n in range(count))
        try:
            return len(render(Journal(moves, leadership=orders, pace=pace)))
        except JournalError:
            count //= 2


def _waiting() -> int:
    partitions = [f"{topic(n)}-{n}" for n in range(40)]
    builder = PlanBuilder()
    for number in range(2 * MOST_LISTED):
        why = (
            f"Without broker {number}, 40 partitions would have too few in-sync replicas: {some(partitions)}."
        )
        builder.wait(Waiting("RestartPod", f"Pod/demo-broker-{number}", "WouldBeUnderMinIsr", why, why))
    return size(builder.waiting_status([], 0.0))


def _proposal() -> int:
    moves, total = [], 0
    for number in range(_MOVES):
        move = {
            "topic": topic(number), "partition": number, "fromBroker": 1000, "fromDir": names.log_dir("disk10"),
            "toBroker": 1001, "toDir": names.log_dir("disk11"), "bytes": 10**12, "wave": 100, "reason": "r" * 256,
        }  # fmt: skip
        total += size(move) + 1
        if total > MOST_PROPOSED:
            break
        moves.append(move)
    drops = [
        {
            "topic": m["topic"],
            "partition": m["partition"],
            "reason": "ReplicaSizeChanged",
            "message": "m" * 600,
        }
        for m in moves
    ]
    return size(
        {"spec": {"moves": moves}, "status": {"dropped": listed_drops(drops), "outcomes": "-" * _MOVES}}
    )


def _observed() -> int:
    segments = [
        {
            "topic": topic(n),
            "partition": n,
            "baseOffset": 10**12,
            "file": f"{n:020}.log",
            "message": "m" * 300,
        }
        for n in range(20)
    ]
    when = {"at": "2026-01-01T00:00:00Z", "low": "2026-01-01T00:00:00Z", "high": "2026-01-01T00:00:00Z"}
    disks = [
        {
            "name": f"disk{n}", "verdict": "Suspect", "reason": "ProbeError", "message": "m" * 300,
            "fsUuid": "u" * 36, "device": "/dev/disk", "capacityBytes": 10**13, "usedBytes": 10**13,
            "forecast": {"bytesPerSecond": 10**8, "warnAt": when, "moveAt": when, "cordonAt": when},
            "corrupt": segments,
        }
        for n in range(DISKS)
    ]  # fmt: skip
    spec = [
        {
            "topic": topic(n),
            "partition": n,
            "fromDir": names.log_dir("disk0"),
            "toDir": names.log_dir("disk1"),
        }
        for n in range(_QUEUED)
    ]
    moves = [
        {
            **each,
            "state": "Failed",
            "bytes": 10**12,
            "copied": 10**12,
            "lagOffsets": 10**9,
            "message": "m" * 300,
        }
        for each in spec
    ]
    return size({"spec": {"moves": spec}, "status": {"observed": {"disks": disks, "moves": moves}}})


def _rsa() -> ca.Pem:
    """A self-signed authority of somebody else, whose signatures are longer."""
    key, now = rsa.generate_private_key(65537, 4096), dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of your own")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return ca.Pem(made.public_bytes(serialization.Encoding.PEM), private)


def _certificates(brokers: int, authority: ca.Pem) -> int:
    """The largest part, with the bundle of two authorities while one replaces the other."""
    key = ec.generate_private_key(ec.SECP256R1())
    node = "ip-10-42-100-200.eu-central-1.compute.internal"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names.agent_principal(node))])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    pem = request.public_bytes(serialization.Encoding.PEM)
    made = ca.grant(authority, pem, names.agent_principal(node), 7, dt.datetime.now(dt.UTC)).decode()
    parts: dict[str, dict[str, str]] = {}
    for each in (f"{node}-{n}" for n in range(brokers)):
        part = parts.setdefault(names.agent_part("kafka", "demo", each), {})
        part |= {each: made, names.AGENT_AUTHORITIES: 2 * authority.cert.decode()}
    data = max(parts.values(), key=len)
    fields: dict[str, Any] = {f"f:{key}": {} for key in data}
    return size({"data": data, "metadata": {"managedFields": [{"fieldsV1": {"f:data": fields}}]}})


def main() -> None:
    """Print the largest objects."""
    parser = argparse.ArgumentParser()
    parser.add_argument("brokers", type=int, nargs="?", default=100)
    parser.add_argument("--limit", type=int, default=LIMIT)
    options = parser.parse_args()
    # More disks than the CRDs permit in one KafkaCluster.
    most = mock.patch.object(spec_allowed, "MAX_CLUSTER_DISKS", options.brokers * DISKS)
    with most:
        found = [*of_load(options.brokers), *of_world(converged(options.brokers))]
    found.sort(key=lambda each: -each[1])
    kinds: dict[str, int] = {}
    shown = 0
    for name, count in found:
        kind = name.split("/")[0]
        kinds[kind] = kinds.get(kind, 0) + 1
        if kinds[kind] <= 2 and shown < _SHOWN:  # the largest of each kind
            shown += 1
            sys.stdout.write(f"{count:>10} {name}\n")
    if found[0][1] > options.limit:
        raise SystemExit(f"{found[0][0]} has {found[0][1]} bytes, more than {options.limit}")


if __name__ == "__main__":
    main()
