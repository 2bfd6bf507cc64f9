"""NetworkPolicies on a network that enforces them: what each allows, what it denies, and that the policy causes that.

On the testbed kube-router enforces them while these scenarios run; they are skipped if it is not installed. Another cluster's network must
enforce them by itself.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

import pytest

from e2e.cluster import policies
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import AGENTS
from e2e.scenarios.lab import CLUSTER, SYSTEM, Lab, names_of
from e2e.scenarios.machine import Machine
from e2e.scenarios.reach import doors, through, waiting_pod
from e2e.scenarios.stand import until_well
from e2e.scenarios.test_rebalance import PODS, begin_run, end_of_run

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("enforced")]

_ACTS: Final = 90.0  # seconds until the network has applied a policy, on a small machine
_SAMPLES: Final = (
    "find / -path /proc -prune -o -path '*/__spindle_samples-*/*.log' -size +0 -print 2>/dev/null"
)


@pytest.fixture(scope="module")
def enforced(installed: Target) -> Iterator[None]:
    """A network that enforces NetworkPolicies, while the scenarios of this file run."""
    if not isinstance(installed, Testbed):
        yield
        return
    if not policies.is_installed():
        pytest.skip("needs kube-router on the PATH")
    installed.enforce_policies(on=True)
    try:
        yield
    finally:
        installed.enforce_policies(on=False)


@pytest.fixture(scope="module")
def strangers(running: Lab, spindle_image: str) -> Iterator[Lab]:
    """Pods of another namespace, one on each node that has pods of Kafka: on the same nodes as their targets, and on others."""
    made = Lab(running.kubectl_command, running.kubeconfig, f"{running.namespace}-reach")
    made.kubectl("create", "namespace", made.namespace)
    try:
        nodes = sorted({pod["spec"]["nodeName"] for pod in running.list("pods", "spindle.dev/role")})
        made.until("there is a service account", lambda: made.get("serviceaccount", "default"), 30)
        made.apply(*(waiting_pod(f"on-{node}", spindle_image, node) for node in nodes))
        made.kubectl("wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s", timeout=130)
        yield made
    finally:
        # Other scenarios run between those of this file: it is created again for the last of them.
        made.kubectl("delete", "namespace", made.namespace, "--timeout=120s", timeout=130)


def brokers(lab: Lab) -> list[dict[str, Any]]:
    return lab.list("pods", "spindle.dev/role=broker")


def controllers(lab: Lab) -> list[dict[str, Any]]:
    return lab.list("pods", "spindle.dev/role=controller")


def between_nodes(lab: Lab) -> set[str]:
    """The ports that are for the cluster's own pods, and for Spindle's."""
    return doors(brokers(lab), 9091) | doors(controllers(lab), 9090)


def for_everybody(lab: Lab) -> set[str]:
    """The ports for clients and for scraping metrics."""
    return doors(brokers(lab), 9092, 9404) | doors(controllers(lab), 9404)


def each_gets(strangers: Lab, all_doors: set[str], through_to: set[str]) -> bool:
    """Whether every pod of the other namespace can connect to exactly these ports."""
    found = {name: through(strangers, name, all_doors) for name in names_of(strangers.list("pods"))}
    return all(reached == through_to for reached in found.values())


def assert_strangers_get(strangers: Lab, all_doors: set[str], through_to: set[str], why: str) -> None:
    """As soon as the network has applied it, and once more."""
    strangers.until(why, lambda: each_gets(strangers, all_doors, through_to), _ACTS)
    assert each_gets(strangers, all_doors, through_to), why


def a_pod(lab: Lab, namespace: str) -> tuple[Lab, str]:
    """A pod of a namespace, with the lab to run commands in it."""
    there = Lab(lab.kubectl_command, lab.kubeconfig, namespace)
    return there, min(names_of(there.list("pods")))


def is_another(lab: Lab, name: str, uid: str) -> bool:
    """Whether there is a pod of that name with another UID."""
    return bool(lab.the("pod", name)["metadata"]["uid"] != uid)


def test_ports_between_nodes_are_for_the_cluster_and_spindle_while_there_are_policies(
    running: Lab, strangers: Lab
) -> None:
    lab = running
    closed, everybody = between_nodes(lab), for_everybody(lab)
    assert (len(closed), len(everybody)) == (6, 9)
    assert_strangers_get(strangers, closed | everybody, closed | everybody, "nothing is denied")

    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"networkPolicies": True}}})
    assert_strangers_get(strangers, closed | everybody, everybody, "other namespaces are denied")
    for pod in sorted(names_of([*brokers(lab), *controllers(lab)])):
        assert through(lab, pod, closed) == closed, f"{pod} is denied by its own cluster"
    replication = doors(brokers(lab), 9091)
    for namespace in (SYSTEM, AGENTS):
        assert through(*a_pod(lab, namespace), closed) == replication, namespace

    # Existing connections continue in any case; a process that starts now must open all of its own.
    for name in (f"{CLUSTER}-broker-0", f"{CLUSTER}-controller-0"):
        uid = lab.the("pod", name)["metadata"]["uid"]
        lab.kubectl("delete", "pod", name, "--wait=false")
        lab.until(f"{name} is recreated", partial(is_another, lab, name, uid), 200)
        lab.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=300s", timeout=310)
        until_well(lab)
    lab.spindle("verify", "-n", lab.namespace, "-c", CLUSTER, "--messages", "500")
    closed, everybody = between_nodes(lab), for_everybody(lab)
    assert_strangers_get(strangers, closed | everybody, everybody, "denied at their new addresses, too")

    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"networkPolicies": False}}})
    lab.until("the policies are gone", lambda: not lab.list("networkpolicies"))
    assert_strangers_get(strangers, closed | everybody, closed | everybody, "nothing is denied again")


def test_a_policy_of_ones_own_closes_the_metrics_unless_ours_opens_them(running: Lab, strangers: Lab) -> None:
    lab = running
    metrics, clients = doors(brokers(lab), 9404), doors(brokers(lab), 9092)
    mine: dict[str, Any] = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "no-metrics"},
        "spec": {
            "podSelector": {"matchLabels": {"spindle.dev/cluster": CLUSTER, "spindle.dev/role": "broker"}},
            "policyTypes": ["Ingress"],
            "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in (9091, 9092)]}],
        },
    }
    assert_strangers_get(strangers, metrics | clients, metrics | clients, "nothing is denied")
    lab.apply(mine)
    assert_strangers_get(strangers, metrics | clients, clients, "metrics are denied to other namespaces")
    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"networkPolicies": True}}})
    assert_strangers_get(
        strangers,
        metrics | clients,
        metrics | clients,
        "a port that one policy allows is not denied by another",
    )
    lab.patch("kafkacluster", CLUSTER, {"spec": {"security": {"networkPolicies": False}}})
    assert_strangers_get(strangers, metrics | clients, clients, "Spindle's policy is gone, the user's is not")
    lab.kubectl("delete", "networkpolicy", "no-metrics")
    assert_strangers_get(strangers, metrics | clients, metrics | clients, "nothing is denied again")


def has_samples(lab: Lab) -> bool:
    """Whether agents have published any."""
    return any(
        lab.kubectl("exec", pod, "-c", "kafka", "--", "sh", "-c", f"{_SAMPLES}; true").strip()
        for pod in names_of(brokers(lab))
    )


def stands_by(lab: Lab, driver: str) -> list[dict[str, Any]]:
    """The run's executors, as soon as both reach each other and their driver, not before."""
    found = lab.list("pods", "spark-role=executor")
    if len(found) != 2 or any(pod["status"].get("phase") != "Running" for pod in found):
        return []
    wanted = doors(found, 7079) | doors([lab.the("pod", driver)], 7078, 7079)
    return found if all(through(lab, name, wanted) == wanted for name in names_of(found)) else []


@pytest.mark.usefixtures("job_image")
def test_sparks_ports_are_for_the_pods_of_the_run(running: Lab, strangers: Lab, machine: Machine) -> None:
    """Stop the driver as soon as its executors have reached it, until the connections were tried, so that the run does not end meanwhile."""
    lab = running
    lab.patch("kafkacluster", CLUSTER, {"spec": {"rebalance": dict(PODS.rebalance)}})
    policy = f"{CLUSTER}-rebalance"
    lab.until("there is a policy for Spark", lambda: lab.get("networkpolicy", policy))
    lab.until_ready()
    lab.until("there are samples", lambda: has_samples(lab), 180)
    run = begin_run(lab)
    lab.until("the driver is there", lambda: driver_of(lab, run)["status"]["podIP"], 120)
    driver = driver_of(lab, run)
    name = driver["metadata"]["name"]
    lab.until("its executors reach it and each other", lambda: stands_by(lab, name), 240)
    with machine.held_still(driver, "rebalance"):
        executors = stands_by(lab, name)
        sparks = doors(executors, 7079) | doors([driver], 7078, 7079)
        assert len(sparks) == 4
        assert_strangers_get(strangers, sparks, set(), "other namespaces are denied on Spark's ports")
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": True}})
        lab.kubectl("delete", "networkpolicy", policy)
        assert_strangers_get(strangers, sparks, sparks, "without the policy nothing is denied")
        lab.patch("kafkacluster", CLUSTER, {"spec": {"paused": None}})
        lab.until("the policy is there again", lambda: lab.get("networkpolicy", policy))
        assert_strangers_get(strangers, sparks, set(), "and with it they are denied again")
    told = end_of_run(lab, run, 2, replaced=True)
    assert told["status"] == "True", told
    lab.patch("kafkacluster", CLUSTER, {"spec": {"rebalance": None}})
    lab.until("the policy is gone with the executors", lambda: lab.get("networkpolicy", policy) is None)


def driver_of(lab: Lab, run: str) -> Mapping[str, Any]:
    """The pod of a run."""
    (found,) = lab.list("pods", f"job-name={run}")
    return found
