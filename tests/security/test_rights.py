"""What every ServiceAccount of Spindle's may do, by the API server's own word, against a list that is checked in: a new right shows in a diff."""

import difflib
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer, KubectlError
from e2e.cluster.build import ensure_helm
from spindle.api.cluster import KafkaClusterSpec
from spindle.manifests.cronjob import rebalance_objects
from tests.kube.conftest import ROOT
from tests.kube.samples import broker as sample_broker

pytestmark = pytest.mark.kube

LIST = Path(__file__).with_name("rights.txt")
SYSTEM, KAFKA, ELSEWHERE, AGENTS = "rights-system", "rights-kafka", "rights-elsewhere", "rights-agents"
OPERATOR = f"system:serviceaccount:{SYSTEM}:spindle"
PLACES = (SYSTEM, KAFKA, ELSEWHERE, AGENTS)

Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def helm(api_server: ApiServer) -> Helm:
    """Spindle's chart on that server, which has the definitions already."""
    program = str(ensure_helm())
    values = ("--set", f"crds.install=false,agent.namespace={AGENTS}")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        chart = () if arguments[0] == "uninstall" else (str(ROOT / "charts/spindle"), *values)
        command = [program, arguments[0], "spindle", *chart, "--namespace", SYSTEM, *arguments[1:]]
        env = {**os.environ, "KUBECONFIG": str(api_server.kubeconfig)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def installed(api_server: ApiServer, helm: Helm) -> Iterator[ApiServer]:
    """Spindle by its defaults, with a rebalance job and one with executors in its own namespace."""
    for place in (SYSTEM, KAFKA, ELSEWHERE):
        api_server.kubectl("create", "namespace", place)
    done = helm("install")
    assert done.returncode == 0, done.stderr
    spec = yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text())["spec"]
    for name, engine in (("demo", {}), ("large", {"executors": {"count": 2}})):
        wanted = KafkaClusterSpec.model_validate({**spec, "rebalance": {"engine": engine}})
        of = {"metadata": {"name": name, "namespace": SYSTEM, "uid": "5c9f7d0e-1111-4222-8333-444455556666"}}
        for made in rebalance_objects(of, wanted, "example.org/rebalance:1"):
            text = json.dumps(made)
            api_server.kubectl("apply", "--filename=-", f"--namespace={SYSTEM}", stdin=text)
    yield api_server
    # Its admission policies are not to meet the tests that come after.
    helm("uninstall")


def rights(server: ApiServer, account: str, place: str) -> set[str]:
    """One line for each rule, as ``kubectl auth can-i --list`` has it."""
    text = server.kubectl("auth", "can-i", "--list", "--no-headers", "--as", account, "--namespace", place)
    return {re.sub(r"\s{2,}", "  ", line.strip()) for line in text.splitlines() if line.strip()}


def table(server: ApiServer, title: str, places: tuple[str, ...]) -> str:
    """All accounts that Spindle brings, namespace by namespace, without what any account may."""
    found = json.loads(server.kubectl("get", "serviceaccounts", "--all-namespaces", "--output=json"))["items"]
    accounts = sorted(
        (each["metadata"]["namespace"], each["metadata"]["name"])
        for each in found
        if each["metadata"]["namespace"] in PLACES and each["metadata"]["name"] != "default"
    )
    lines = [f"# {title}"]
    nobody = {place: rights(server, "system:serviceaccount:default:nobody", place) for place in places}
    for namespace, name in accounts:
        for place, anybody in nobody.items():
            mine = rights(server, f"system:serviceaccount:{namespace}:{name}", place) - anybody
            lines += [
                "",
                f"{namespace}/{name} in {place}:",
                *(f"  {line}" for line in sorted(mine) or ["nothing"]),
            ]
    return "\n".join(lines) + "\n"


def test_no_account_has_a_right_that_is_not_on_the_list(installed: ApiServer, helm: Helm) -> None:
    narrow = table(installed, "By default", (SYSTEM, AGENTS, ELSEWHERE))
    done = helm("upgrade", "--set", f"watch.namespaces={{{KAFKA}}}")
    assert done.returncode == 0, done.stderr
    some = table(installed, f"With watch.namespaces={{{KAFKA}}}", (SYSTEM, KAFKA))
    done = helm("upgrade", "--set", "watch.all=true")
    assert done.returncode == 0, done.stderr
    everywhere = table(installed, "With watch.all=true", (ELSEWHERE,))
    # Narrowed again without a word it would leave clusters elsewhere alone.
    unasked = helm("upgrade")
    assert unasked.returncode != 0
    assert "watch.all=true to keep all" in unasked.stderr
    found = f"{narrow}\n{some}\n{everywhere}"
    if os.environ.get("SPINDLE_WRITE_RIGHTS"):
        LIST.write_text(found)
    known = LIST.read_text() if LIST.exists() else ""
    changed = "\n".join(
        difflib.unified_diff(known.splitlines(), found.splitlines(), "checked in", "found", lineterm="")
    )
    assert found == known, (
        f"if that is meant, run this test with SPINDLE_WRITE_RIGHTS=1 and read the diff:\n{changed}"
    )


def test_whoever_edits_a_namespace_writes_what_is_a_persons_of_a_broker(installed: ApiServer) -> None:
    run = installed.kubectl
    manager = ("--as=manager", f"--namespace={SYSTEM}")
    run(
        "create",
        "rolebinding",
        "managers",
        f"--clusterrole={SYSTEM}-spindle-manage",
        "--user=manager",
        f"--namespace={SYSTEM}",
    )
    text = json.dumps(sample_broker())
    # Managers may create none; one whom somebody lets do so is held back all the same.
    creates = ("--verb=create", "--resource=kafkabrokers.spindle.dev", f"--namespace={SYSTEM}")
    run("create", "role", "maker", *creates)
    run("create", "rolebinding", "maker", "--role=maker", "--user=manager", f"--namespace={SYSTEM}")
    with pytest.raises(KubectlError, match="KafkaBrokers are created by Spindle"):
        run("create", "--filename=-", *manager, stdin=text)
    run("create", "--filename=-", f"--namespace={SYSTEM}", f"--as={OPERATOR}", stdin=text)

    def patch(spec: Mapping[str, Any], *who: str, field: str = "spec") -> str:
        return run(
            "patch",
            "kafkabroker",
            "demo-broker-0",
            "--type=merge",
            f"--patch={json.dumps({field: spec})}",
            *who,
        )

    assert "patched" in patch({"maintenance": {"stopped": True, "removeFirst": True}}, *manager)
    owned: tuple[Mapping[str, Any], ...] = (
        {"node": "theirs"},
        {"disks": []},
        {"returning": False},
        {"retired": ["Jm5Xk0aMTq2sVYbE7pWc1A"]},
    )
    for spec in owned:
        with pytest.raises(KubectlError, match="which only Spindle writes"):
            patch(spec, *manager)
    ours: tuple[Mapping[str, Any], ...] = (
        {"annotations": {"spindle.dev/accepted-loss": "{}"}},
        {"annotations": {"spindle.dev/hangs": None}},
        {"labels": {"spindle.dev/cluster": None}},
        {"labels": {"spindle.dev/cluster": "other"}},
    )
    noted = {"labels": {"spindle.dev/cluster": "demo"}, "annotations": {"spindle.dev/hangs": "{}"}}
    assert "patched" in patch(noted, f"--as={OPERATOR}", f"--namespace={SYSTEM}", field="metadata")
    for notes in ours:
        with pytest.raises(KubectlError, match="which only Spindle writes"):
            patch(notes, *manager, field="metadata")
    theirs = {"labels": {"team": "orders"}, "annotations": {"example.org/note": "x"}}
    assert "patched" in patch(theirs, *manager, field="metadata"), "other keys are theirs"
    assert "patched" in patch({"node": "theirs"}, f"--as={OPERATOR}", f"--namespace={SYSTEM}")
    assert "patched" in patch({"node": "theirs2"}, f"--namespace={SYSTEM}"), "an administrator may"
