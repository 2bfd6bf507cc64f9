"""The operator is killed repeatedly while a cluster is created; the result is the same cluster."""

import random

import pytest

from e2e.scenarios.lab import CLUSTER, Lab, LabError, names_of, pause, sample
from e2e.scenarios.machine import Killer

pytestmark = pytest.mark.e2e
_KILLS = 20


def test_sigkill_at_twenty_moments_of_a_birth(lab: Lab, killer: Killer) -> None:
    dice = random.Random(20)
    lab.apply(sample())
    for _ in range(_KILLS):
        pause(dice.uniform(0.2, 3.0))
        killer.kill()
    lab.until_ready(300)
    pods = names_of(lab.list("pods", "spindle.dev/role"))
    assert pods == {f"{CLUSTER}-broker-{i}" for i in range(3)} | {
        f"{CLUSTER}-controller-{i}" for i in range(3)
    }
    claims = lab.list("pvc")
    assert len(claims) == 9
    assert all(c["status"]["phase"] == "Bound" for c in claims)
    ids = [c["metadata"]["annotations"]["spindle.dev/directory-id"] for c in claims]
    assert len(set(ids)) == 9
    assert {c["metadata"]["annotations"]["spindle.dev/cluster-id"] for c in claims} == {
        lab.status()["clusterId"]
    }
    assert len(lab.list("kafkabrokers")) == 3
    assert len(lab.list("services")) == 3
    assert {pdb["metadata"]["name"] for pdb in lab.list("pdb")} == {
        "demo-brokers",
        "demo-brokers-draining",
        "demo-controllers",
    }
    if lab.waits():
        raise LabError(lab.situation())


def test_one_operator_goes_and_the_other_takes_over(running: Lab, killer: Killer) -> None:
    lab = running
    killer.kill()
    lab.kubectl("delete", "service", f"{CLUSTER}-bootstrap")
    took = lab.until("the other operator restores it", lambda: lab.get("service", f"{CLUSTER}-bootstrap"), 90)
    print(f"fail-over and repair took {took:.1f} s")
