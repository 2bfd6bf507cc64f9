"""What is made of a cluster of Strimzi's: which node becomes which, what stands against it, and what may be done to a volume."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from spindle.api import names
from spindle.api.cluster import KafkaCluster
from spindle.model.actions import Evict, RaiseFeatures
from spindle.model.cluster_identity import DYNAMIC, STATIC
from spindle.model.view import KafkaView
from spindle.takeover import manifests, strimzi, volumes
from spindle.takeover.downtime import downtime
from spindle.takeover.plan import TakeoverPlan, parse_record, record_name, steps
from spindle.takeover.strimzi import StrimziCluster
from spindle.takeover.volumes import VolumeObservation, VolumeOrder, VolumePlace
from tests.model.world import World

ID = "3Db5QLSqSZieL3rJBUUegA"
DIRECTORY = "wBVR3XvTT5OFw4iBGZ2g1A"


def claim(name: str, size: str = "100Gi") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"strimzi.io/cluster": "demo"}},
        "spec": {
            "volumeName": f"pv-{name}",
            "storageClassName": "fast",
            "resources": {"requests": {"storage": size}},
        },
        "status": {"phase": "Bound"},
    }


def pool(name: str, roles: list[str], ids: list[int], *volume_ids: int) -> dict[str, Any]:
    each = [{"id": n, "type": "persistent-claim", "size": "100Gi"} for n in volume_ids]
    return {
        "metadata": {"name": name},
        "spec": {"roles": roles, "storage": {"type": "jbod", "volumes": each}},
        "status": {"nodeIds": ids},
    }


def theirs(**spec: Any) -> StrimziCluster:
    """Two brokers with two volumes each, and three controllers whose ids follow theirs."""
    kafka = {
        "metadata": {"name": "demo", "namespace": "kafka"},
        "spec": {"kafka": {"version": "4.3.1", "rack": {"topologyKey": "zone"}, **spec}},
        "status": {"clusterId": ID, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    pools = [pool("brokers", ["broker"], [0, 1], 0, 3), pool("quorum", ["controller"], [4, 2, 3], 0)]
    found = [claim(f"data-{v}-demo-brokers-{n}") for n in (0, 1) for v in (0, 3)]
    found += [claim(f"data-0-demo-quorum-{n}", "20Gi") for n in (2, 3, 4)]
    pods = {f"demo-brokers-{n}": {"spec": {"nodeName": f"node{n}"}} for n in (0, 1)}
    return StrimziCluster(
        kafka,
        pools,
        claims={each["metadata"]["name"]: each for each in found},
        volumes={
            each["spec"]["volumeName"]: {
                "spec": {
                    "capacity": {"storage": "120Gi"},
                    "persistentVolumeReclaimPolicy": "Delete",
                    "local": {"path": "/mnt"},
                }
            }
            for each in found
        },
        nodes={f"node{n}": {"metadata": {"labels": {"zone": f"zone-{n}"}}} for n in (0, 1)},
        pods=pods,
    )


def planned(**spec: Any) -> TakeoverPlan:
    made = strimzi.plan(theirs(**spec))
    assert made.problems == ()
    return made


def test_brokers_keep_their_ids_and_controllers_get_those_of_spindles_in_order() -> None:
    made = planned()
    assert [(node.node_id, node.as_node) for node in made.controllers] == [(2, 9000), (3, 9001), (4, 9002)]
    assert [(node.node_id, node.as_node, node.rack) for node in made.brokers] == [
        (0, 0, "zone-0"),
        (1, 1, "zone-1"),
    ]
    assert [(disk.claim, disk.becomes, disk.folder) for disk in made.brokers[1].disks] == [
        ("data-0-demo-brokers-1", "data-disk0-demo-1", "kafka-log1"),
        ("data-3-demo-brokers-1", "data-disk1-demo-1", "kafka-log1"),
    ]
    assert made.controllers[0].disks[0].becomes == "data-metadata-demo-9000"
    assert any("2 becomes 9000" in step for step in steps(made))


def test_what_is_applied_is_a_kafkacluster_that_is_understood() -> None:
    listeners = [
        {"name": "tls", "port": 9093, "type": "internal", "tls": True, "authentication": {"type": "tls"}},
        {"name": "plain", "port": 9095, "type": "internal", "tls": False},
        {"name": "9094", "port": 9094, "type": "nodeport", "tls": True},
        {"name": "web", "port": 443, "type": "route", "tls": True},
    ]
    config = {"min.insync.replicas": 2, "auto.create.topics.enable": False, "log.dirs": "/x"}
    made = planned(listeners=listeners, config=config, jvmOptions={"-Xmx": "4g"}, metricsConfig={"type": "x"})
    cluster = KafkaCluster.model_validate(made.manifest)
    assert cluster.spec.config == {"min.insync.replicas": "2", "auto.create.topics.enable": "false"}
    assert [(each.name, each.port, each.type, each.auth, each.tls) for each in cluster.spec.listeners] == [
        ("tls", 9093, "internal", "mtls", True),
        ("plain", 9095, "internal", "none", False),
        ("l9094", 9094, "nodeport", "none", True),
    ]
    (its,) = cluster.spec.broker_pools
    assert (its.name, its.replicas, its.disks.count, its.disks.size) == ("brokers", 2, 2, "100Gi")
    told = " ".join(made.differences)
    for words in ("plain (port 9095) is not encrypted and stays so", "type route", "log.dirs", "port 9404"):
        assert words in told


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param(
            {"kafka.spec.kafka.version": "3.9.0"}, "Kafka 3.9.0 is not supported by Spindle", id="version"
        ),
        pytest.param({"kafka.status.clusterId": ""}, "status.clusterId", id="no id"),
        pytest.param({"kafka.status.conditions": []}, "is not Ready", id="not well"),
        pytest.param({"kafka.spec.kafka.tieredStorage": {"type": "custom"}}, "tieredStorage", id="tiers"),
        pytest.param(
            {"pools.1.spec.roles": ["controller", "broker"]}, "controller and broker at once", id="both roles"
        ),
        pytest.param({"pools.1.status.nodeIds": [2, 3]}, "2 controllers", id="an even quorum"),
        pytest.param({"pools.0.status.nodeIds": [0, 9500]}, "ids below 9000", id="a high id"),
        pytest.param({"pools.0.spec.storage": {"type": "ephemeral"}}, "only persistent-claim", id="no claim"),
        pytest.param({"claims.data-0-demo-quorum-3.status.phase": "Pending"}, "is not bound", id="not bound"),
    ],
)
def test_what_stands_against_it_is_told(change: dict[str, Any], says: str) -> None:
    found = theirs()
    parts: dict[str, Any] = {
        "kafka": copy.deepcopy(found.kafka),
        "pools": copy.deepcopy(found.pools),
        "claims": copy.deepcopy(found.claims),
    }
    for path, value in change.items():
        *way, last = path.split(".")
        place: Any = parts
        for step in way:
            place = place[int(step) if isinstance(place, list) else step]
        place[last] = value
    made = strimzi.plan(replace(found, **parts))
    assert any(says in problem for problem in made.problems), made.problems


def test_a_namesake_stands_against_it() -> None:
    assert "already" in strimzi.plan(replace(theirs(), taken=frozenset({"demo"}))).problems[0]
    taken = {**theirs().claims, "data-disk0-demo-0": claim("data-disk0-demo-0")}
    assert any("exists already" in text for text in strimzi.plan(replace(theirs(), claims=taken)).problems)


def test_what_was_is_written_down_and_read_again() -> None:
    made = planned()
    found = theirs()
    kept = manifests.takeover_record(made, found.claims, dict.fromkeys(found.volumes, "Delete"))
    written = manifests.record_map(kept)
    assert written["metadata"]["name"] == record_name("demo")
    assert manifests.recorded(written) == kept
    assert manifests.recorded({"data": {"memory": kept.text()}}) == kept, "as earlier versions wrote it"
    assert set(kept.claims) == {disk.claim for node in made.nodes for disk in node.disks}
    with pytest.raises(ValueError, match="cannot be parsed"):
        parse_record("{}")


def test_claims_without_a_class_get_that_of_their_volume_and_not_the_default_one() -> None:
    found = theirs()
    claims = copy.deepcopy(found.claims)
    for each in claims.values():
        del each["spec"]["storageClassName"]
    volumes = copy.deepcopy(found.volumes)
    volumes["pv-data-3-demo-brokers-0"]["spec"]["storageClassName"] = "slow"
    made = strimzi.plan(replace(found, claims=claims, volumes=volumes))
    node = made.brokers[0]
    new = [manifests.new_claim(made, node, disk)["spec"] for disk in node.disks]
    assert [spec["storageClassName"] for spec in new] == ["", "slow"]
    kept = manifests.takeover_record(made, claims, dict.fromkeys(volumes, "Delete")).claims
    back = [kept[disk.claim]["spec"]["storageClassName"] for disk in node.disks]
    assert back == ["", "slow"]


def test_claims_say_nothing_before_their_disks_were_read_and_then_all_of_it() -> None:
    made = planned()
    node = made.brokers[0]
    early = manifests.new_claim(made, node, node.disks[0])
    assert "annotations" not in early["metadata"]
    assert early["spec"]["volumeName"] == "pv-data-0-demo-brokers-0"
    found = {
        node.node_id: [f"{DIRECTORY[:-2]}{node.node_id}{n}" for n in range(len(node.disks))]
        for node in made.nodes
    }
    told = {
        each["metadata"]["name"]: each["metadata"]["annotations"]
        for each in manifests.identified_claims(made, found)
    }
    assert len(told) == 7
    assert told["data-disk1-demo-1"][names.ANN_DIRECTORY_ID] == found[1][1]
    assert told["data-metadata-demo-9002"][names.ANN_QUORUM] == STATIC
    assert names.ANN_QUORUM not in told["data-disk0-demo-0"]


def test_pods_may_do_nothing_but_what_they_are_for() -> None:
    made = planned()
    spec = manifests.pod(made, made.brokers[0], "spindle")["spec"]
    (container,) = spec["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not spec["automountServiceAccountToken"]
    assert {volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]} == {
        "data-disk0-demo-0",
        "data-disk1-demo-0",
    }
    order = volumes.parse_order(container["env"][0]["value"])
    assert [place.folder for place in order.places] == ["kafka-log0", "kafka-log0"]


def test_the_outage_is_bounded_by_the_grace_periods_and_the_number_of_volumes() -> None:
    made, pods, volumes = planned(), theirs().pods, theirs().volumes
    found = downtime(made, pods, volumes)
    of_brokers, of_controllers = 30 + 5, 5  # the pods of the controllers have stopped
    assert (found.stop, found.grace, found.disks) == (of_brokers + of_controllers, 30, 7)
    assert "at most 3 minutes" in found.text()
    slow = {
        name: {"spec": {**pod["spec"], "terminationGracePeriodSeconds": 600}} for name, pod in pods.items()
    }
    assert downtime(made, slow, volumes).stop == found.stop + 570
    assert downtime(made, slow, volumes).minutes == 13
    nodes = tuple(replace(node, disks=node.disks * 100) for node in made.nodes)
    assert downtime(replace(made, nodes=nodes), pods, volumes).minutes == 6
    assert downtime(made, {}, volumes).stop < found.stop, "nothing is left to stop"


def test_volumes_that_are_not_local_have_to_be_attached_again_which_nothing_limits() -> None:
    made, pods, local = planned(), theirs().pods, theirs().volumes
    csi = {"spec": {"csi": {"driver": "ebs.csi.aws.com"}}}
    pinned = {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "kubernetes.io/hostname", "values": ["node0"]}]}]
    }
    near = {"spec": {"csi": {"driver": "local.csi"}, "nodeAffinity": {"required": pinned}}}
    name = made.brokers[0].disks[0].volume
    assert "not local" not in downtime(made, pods, {**local, name: near}).text()
    found = downtime(made, pods, {**local, name: csi})
    assert found.remote == 1
    assert found.minutes == downtime(made, pods, local).minutes + 4
    assert (
        "Kafka is down for about 7 minutes, if the storage detaches and attaches volumes within 120 s:"
        in found.text()
    )
    assert "1 volume that is not local" in found.text()
    assert downtime(made, pods, dict.fromkeys(local, csi)).remote == 7


# -- volumes ---------------------------------------------------------------------------------------------------------

PLACE = VolumePlace("/disks/disk0", "kafka-log4", 4, 9002, controller=True)
ORDER = VolumeOrder(ID, (PLACE,))


def meta(node: int = 4, cluster: str = ID, directory: str = f"directory.id={DIRECTORY}\n") -> str:
    return f"version=1\ncluster.id={cluster}\nnode.id={node}\n{directory}"


def test_a_volume_that_is_as_expected_may_be_taken() -> None:
    found = volumes.may_take(ORDER, PLACE, VolumeObservation(meta=meta()))
    assert (found.refusal, found.done, found.directory_id) == ("", False, DIRECTORY)


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        pytest.param(VolumeObservation(), "no kafka-log4/meta.properties", id="blank"),
        pytest.param(
            VolumeObservation(meta=meta(cluster="other_other_other_othe")), "another cluster", id="cluster"
        ),
        pytest.param(VolumeObservation(meta=meta(node=5)), "another node", id="node"),
        pytest.param(VolumeObservation(meta=meta(directory="")), "no directory.id", id="old"),
        pytest.param(
            VolumeObservation(meta=meta(), entries=frozenset({"log"})), "folder log already", id="in the way"
        ),
        pytest.param(VolumeObservation(meta=meta(), locked=True), "in use", id="in use"),
        pytest.param(VolumeObservation(meta=meta(), writable=False), "fsGroup", id="not ours to write"),
        pytest.param(VolumeObservation(meta=meta(), ours=meta()), "both", id="both"),
        pytest.param(VolumeObservation(ours=meta()), "does not come from this take-over", id="somebody's"),
        pytest.param(VolumeObservation(meta="version=7\n"), "cannot be parsed", id="unreadable"),
    ],
)
def test_any_other_volume_is_left_alone(seen: VolumeObservation, says: str) -> None:
    assert says in volumes.may_take(ORDER, PLACE, seen).refusal


def test_an_order_that_was_cut_off_is_taken_up_where_it_was() -> None:
    record = volumes.note(PLACE, meta())
    half = volumes.may_take(ORDER, PLACE, VolumeObservation(ours=meta(), record=record))
    assert (half.refusal, half.done) == ("", False)
    whole = volumes.may_take(ORDER, PLACE, VolumeObservation(ours=meta(node=9002), record=record))
    assert (whole.refusal, whole.done) == ("", True)


def test_what_spindle_has_started_on_does_not_go_back() -> None:
    record = volumes.note(PLACE, meta())
    ours = VolumeObservation(ours=meta(node=9002), record=record)
    assert volumes.may_put_back(ORDER, PLACE, ours).refusal == ""
    assert "has started" in volumes.may_put_back(ORDER, PLACE, replace(ours, identity=True)).refusal
    assert "in use" in volumes.may_put_back(ORDER, PLACE, replace(ours, locked=True)).refusal
    assert "no record" in volumes.may_put_back(ORDER, PLACE, replace(ours, record=None)).refusal
    assert volumes.may_put_back(ORDER, PLACE, VolumeObservation(meta=meta())).done


def test_a_number_is_changed_and_nothing_else() -> None:
    assert volumes.renumbered(meta(), 9002) == meta(node=9002)


# -- the operator ----------------------------------------------------------------------------------------------------


def test_the_voters_stand_in_the_configuration_until_kafka_has_them_on_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    features = {"metadata.version": 30}
    seen = World.kafka

    def kafka(world: World) -> KafkaView:
        view = seen(world)
        return view if view.error else replace(view, features=dict(features))

    monkeypatch.setattr(World, "kafka", kafka)
    world = World.of()
    world.settle()
    for each in world.all("PersistentVolumeClaim"):  # as the command leaves them; nothing else is there
        each["metadata"]["annotations"][names.ANN_QUORUM] = STATIC
        world.put(each)
    for kind, name in list(world.objects):
        if kind in ("Pod", "KafkaBroker") or (kind, name) == ("ConfigMap", "demo-identity"):
            del world.objects[kind, name]
    world.cluster["status"] = {}
    formats = len(world.formats)

    def configured() -> set[bool]:
        """Whether the nodes' configurations name the voters."""
        maps = [each for each in world.all("ConfigMap") if each["metadata"]["name"].endswith("-config")]
        assert len(maps) == 6
        return {"controller.quorum.voters=" in str(each["data"]) for each in maps}

    raised: list[dict[str, int]] = []
    evicted: list[str] = []
    for _ in range(200):
        made = world.reconcile()
        for action in made.actions:
            if isinstance(action, RaiseFeatures):
                assert configured() == {True}
                assert len(world.running("controller")) == 3
                raised.append(dict(action.levels))
                features |= action.levels
            elif isinstance(action, Evict):
                evicted.append(action.pod)
        world.breathe()
    assert raised == [{"kraft.version": 1}]
    assert configured() == {False}
    assert sorted(evicted) == sorted(
        f"demo-{role}-{n}" for role in ("broker", "controller") for n in range(3)
    )
    assert world.get("ConfigMap", "demo-identity")["data"]["quorum"] == DYNAMIC
    assert world.formats[formats:] == []
