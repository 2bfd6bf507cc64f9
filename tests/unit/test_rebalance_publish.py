import base64
import gzip
from typing import Any

import pytest

from spindle.api import names
from spindle.api.rebalance import KafkaRebalance
from spindle.balance.history import ReplicaHistory
from spindle.balance.propose import NewProposal, propose
from spindle.balance.reading import read
from spindle_cli import rebalance_report
from spindle_cli.kube import KubeError, NotFoundError
from spindle_rebalance import publish
from tests.unit.balance_samples import skewed


class Kubernetes:
    """What would be in Kubernetes."""

    namespace = "ns"

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes = 0

    def cluster(self, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace, "uid": "u"}}

    def rebalance(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get(("KafkaRebalance", name))

    def apply_rebalance(self, namespace: str, body: dict[str, Any]) -> None:
        self.writes += 1
        self.objects["KafkaRebalance", body["metadata"]["name"]] = body

    def create_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        assert ("ConfigMap", body["metadata"]["name"]) not in self.objects
        self._put(body)

    def apply_config_map(self, namespace: str, body: dict[str, Any]) -> None:
        there = self.objects["ConfigMap", body["metadata"]["name"]]
        self._put({**there, **body, "metadata": {**there["metadata"], **body["metadata"]}})

    def _put(self, body: dict[str, Any]) -> None:
        meta = {"uid": "m", **body["metadata"], "resourceVersion": "7"}
        self.objects["ConfigMap", meta["name"]] = {**body, "metadata": meta}

    def config_map(self, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get(("ConfigMap", name))


class Shelf:
    """The same, as the command line asks it."""

    namespace = "ns"

    def __init__(self, kube: Kubernetes) -> None:
        self.kube = kube

    def config_map(self, name: str) -> dict[str, Any]:
        found = self.kube.config_map("ns", name)
        if found is None:
            raise NotFoundError(name)
        return found


@pytest.fixture
def proposal() -> NewProposal:
    look = skewed()
    found = propose(look, read(look), ReplicaHistory()).proposal
    assert found is not None
    return found


def test_a_proposal_is_written_once(proposal: NewProposal) -> None:
    kube = Kubernetes()
    assert publish.publish(kube, "ns", proposal, "demo-rebalance-report").endswith("was created")
    assert publish.publish(kube, "ns", proposal, "").endswith("is Proposed")
    assert kube.writes == 1
    body = kube.objects["KafkaRebalance", proposal.name]
    assert not {"approved", "stop"} & body["spec"].keys()  # these are a person's
    assert body["metadata"]["annotations"] == {publish.ANN_REPORT: "demo-rebalance-report"}
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": names.API_VERSION, "kind": "KafkaCluster", "name": "demo", "uid": "u"}
    ]
    assert KafkaRebalance.parse(body).spec == proposal.spec


def test_one_that_is_over_is_not_made_again(proposal: NewProposal) -> None:
    kube = Kubernetes()
    publish.publish(kube, "ns", proposal, "")
    kube.objects["KafkaRebalance", proposal.name]["status"] = {"phase": "Expired"}
    assert "is Expired; delete it" in publish.publish(kube, "ns", proposal, "")
    assert kube.writes == 1


def test_a_report_goes_into_a_config_map_and_comes_out_of_it() -> None:
    kube = Kubernetes()
    cache: Any = Shelf(kube)
    name = names.rebalance_report("demo")
    with pytest.raises(KubeError, match="no run has ended yet"):
        rebalance_report.fetch(cache, "demo")
    for page in ("<p>é</p>", "<p>later</p>"):
        assert publish.publish_report(kube, "ns", "demo", name, page)
        assert rebalance_report.fetch(cache, "demo") == page


@pytest.mark.parametrize("owners", [[], [{"kind": "KafkaCluster", "name": "demo", "uid": "former"}]])
def test_a_config_map_of_somebody_else_is_left_alone(owners: list[dict[str, str]]) -> None:
    kube = Kubernetes()
    meta = {"name": "r", "uid": "m", "resourceVersion": "1", "ownerReferences": owners}
    theirs = kube.objects["ConfigMap", "r"] = {"metadata": meta, "data": {"theirs": "yes"}}
    assert not publish.publish_report(kube, "ns", "demo", "r", "<p>report</p>")
    assert kube.objects == {("ConfigMap", "r"): theirs}


def test_a_report_that_is_too_large_is_left_out() -> None:
    kube = Kubernetes()
    noise = "".join(chr(0x4E00 + (k * 7919) % 20000) for k in range(600_000))
    assert not publish.publish_report(kube, "ns", "demo", "r", noise)
    assert not kube.objects


@pytest.mark.parametrize(
    "broken",
    ["%%%", base64.b64encode(b"no gzip").decode(), base64.b64encode(gzip.compress(b"x" * 99)[:-9]).decode()],
    ids=["no base64", "no gzip", "cut off"],
)
def test_a_broken_report(broken: str) -> None:
    kube = Kubernetes()
    cache: Any = Shelf(kube)
    kube.objects["ConfigMap", names.rebalance_report("demo")] = {"binaryData": {names.REPORT_KEY: broken}}
    with pytest.raises(KubeError, match="cannot be unpacked"):
        rebalance_report.fetch(cache, "demo")
