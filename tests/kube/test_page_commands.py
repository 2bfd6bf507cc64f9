"""What pages ask a reader to apply and to type is what a real API server and the real kubectl take.

Command lines that read are run. Those that change something are run as a dry run at the server. Some need what is not there, such as a
container that has a log: kubectl only reads their options.
"""

from typing import Any, Final

import pytest
import yaml
from kubernetes import client

from e2e.cluster.apiserver import ApiServer, KubectlError
from tests import map_samples
from tests.kube.api import Resources
from tests.kube.test_examples import OTHERS, is_other
from tests.map_server import put
from tests.pages import ROOT, Command, commands, manifests, whole_cluster

pytestmark = pytest.mark.kube

READING: Final = {"get", "describe"}
CHANGING: Final = {"apply", "create", "delete", "drain", "cordon", "uncordon", "label", "patch", "taint"}
# What the lines of the pages name, for each line that is run.
NODES: Final = ("node1", "node4")
CLAIMS: Final = ("data-disk0-demo-4", "data-disk1-demo-4", "data-disk2-demo-1", "data-disk1-demo-2")
JOB: Final[Any] = {
    "metadata": {"name": "demo-rebalance"},
    "spec": {
        "schedule": "0 3 * * *",
        "jobTemplate": {
            "spec": {
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "job", "image": "job"}]}
                }
            }
        },
    },
}
AGENTS: Final = "spindle-agents"
# Names that stand for others, and what has no API here.
ELSEWHERE: Final = {"POD", "kafka", "AGENTS", "NAMESPACE", "jsonpath", "argocd", "podmonitors"}


def lines() -> list[Command]:
    """Each command line once; those of the plugin are Spindle's own."""
    found = commands("kubectl")
    unique = {each.words: each for each in found if verb(each.words) not in {"", "spindle"}}
    return list(unique.values())


def verb(words: tuple[str, ...]) -> str:
    """The subcommand: the first word that is no option and no namespace."""
    rest = list(words[1:])
    while rest and rest[0] in {"-n", "-o"}:
        del rest[:2]
    return rest[0] if rest else ""


def runnable(command: Command) -> bool:
    """Whether it is complete, and all that it needs is here."""
    if not command.whole and verb(command.words) not in READING:
        return False
    return verb(command.words) in READING | CHANGING | {"wait"} and not ELSEWHERE & set(command.words[2:])


@pytest.fixture
def stored(namespace: str, api_client: client.ApiClient) -> str:
    """A namespace with what the pages name."""
    resources = Resources(api_client, namespace)
    conditions = [map_samples.condition("Ready", "True"), map_samples.condition("Reconciling", "False")]
    cluster = yaml.safe_load((ROOT / "examples/quickstart.yaml").read_text())
    reported = map_samples.cluster("demo", 3, 2, conditions=conditions, observedGeneration=1)
    put(resources, cluster | {"status": reported["status"]})
    for each in map_samples.brokers("demo", 3, 2):
        put(resources, each)
    proposal = map_samples.proposal("demo")
    put(resources, proposal | {"metadata": {"name": "demo-3f9c1d20ab"}})
    core: Any = client.CoreV1Api(api_client)  # it takes raw objects, too
    core.create_namespaced_secret(namespace, {"metadata": {"name": "kafka-ca"}})
    core.create_namespaced_config_map(namespace, {"metadata": {"name": "argocd-cm"}})
    client.BatchV1Api(api_client).create_namespaced_cron_job(namespace, JOB)
    for name in CLAIMS:
        core.create_namespaced_persistent_volume_claim(
            namespace,
            {
                "metadata": {"name": name},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        )
    spaces = {space.metadata.name for space in core.list_namespace().items}
    if AGENTS not in spaces:
        core.create_namespace({"metadata": {"name": AGENTS}})
    there = {node.metadata.name for node in core.list_node().items}
    for name in set(NODES) - there:
        core.create_node({"metadata": {"name": name}})
    return namespace


def refusal(command: Command, namespace: str, server: ApiServer) -> str | None:
    """What kubectl says against a command line; its namespace is replaced."""
    words = list(command.words[1:])
    if "-n" in words:
        words[words.index("-n") + 1] = namespace
    elif runnable(command):
        words = ["-n", namespace, *words]
    if not runnable(command):
        words.append("--help")
    elif verb(command.words) in CHANGING:
        words.append("--dry-run=server")
    try:
        server.kubectl(*(word.replace("--timeout=30m", "--timeout=5s") for word in words))
    except KubectlError as error:
        return f"{command.place}: {error}"
    return None


def test_command_lines_of_kubectl_are_taken(stored: str, api_server: ApiServer) -> None:
    said = [refused for each in lines() if (refused := refusal(each, stored, api_server))]
    assert not said, "\n".join(said)
    assert len([each for each in lines() if runnable(each)]) > 20


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("get skc demo -o jsonpath={.status", True),
        ("drain node1 --ignore-daemonset", True),
        ("drain node1 --ignore-daemonset", False),
        ("gett skc", False),
        ("delete skx demo", True),
    ],
)
def test_a_wrong_command_line_is_noticed(
    line: str, *, whole: bool, stored: str, api_server: ApiServer
) -> None:
    assert refusal(Command("page:1", ("kubectl", *line.split()), whole=whole), stored, api_server)


def test_manifests_are_accepted(stored: str, api_server: ApiServer) -> None:
    documents = []
    for number, each in enumerate(manifests()):
        if each.part == "rules":
            kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {}}
            content = kind | each.content
        elif each.part == "apiVersion":
            content = each.content
        else:
            content = whole_cluster(each)
        if is_other(content):
            must, may = OTHERS[content["apiVersion"], content["kind"]]
            assert must <= set(content["spec"]) <= must | may, each.place
            continue
        content = content | {"metadata": content["metadata"] | {"name": f"page-{number}"}}
        documents.append(content)
    said = api_server.kubectl(
        *("apply", "-n", stored, "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(documents),
    )
    assert said.count("serverside-applied") == len(documents) > 20
