import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from spindle.api.cluster import MAX_CLUSTER_DISKS
from spindle.model.allowed import Allowed, read
from tests.chart.conftest import CHART, Render
from tools import chart_crds

Helm = Callable[..., subprocess.CompletedProcess[str]]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [made for made in objects if made["kind"] == kind]


def of_component(objects: list[dict[str, Any]], kind: str, component: str) -> list[dict[str, Any]]:
    label = "app.kubernetes.io/component"
    return [made for made in of_kind(objects, kind) if made["metadata"]["labels"].get(label) == component]


def test_lint_finds_nothing(helm: Helm) -> None:
    done = helm("lint", "--strict", str(CHART))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


def test_the_operator_runs_twice_without_any_privilege(render: Render) -> None:
    (deployment,) = of_kind(render(), "Deployment")

    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert deployment["spec"]["replicas"] == 2
    assert container["image"] == "spindle:0.1.0"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"name": "SPINDLE_IMAGE", "value": "spindle:0.1.0"} in container["env"]


def test_its_probes_and_its_metrics_are_on_the_port_that_it_is_told(render: Render) -> None:
    objects = render()
    (deployment,) = of_kind(objects, "Deployment")
    (service,) = of_kind(objects, "Service")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    assert "--port=8080" in container["args"]
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    assert service["spec"]["selector"].items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_the_budget_counts_the_operators_pods(render: Render) -> None:
    objects = render()
    (deployment,) = of_kind(objects, "Deployment")
    (budget,) = of_kind(objects, "PodDisruptionBudget")

    wanted = budget["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()
    assert budget["spec"]["maxUnavailable"] == 1
    assert of_kind(render("replicas=1"), "PodDisruptionBudget") == []


def test_the_definitions_are_kept_and_can_be_left_out(render: Render) -> None:
    found = of_kind(render(), "CustomResourceDefinition")

    assert len(found) == len(chart_crds.templates())
    for crd in found:
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    assert of_kind(render("crds.install=false"), "CustomResourceDefinition") == []


def test_rendered_definitions_are_those_of_the_models(render: Render) -> None:
    rendered = {crd["metadata"]["name"]: crd["spec"] for crd in of_kind(render(), "CustomResourceDefinition")}
    sources = [yaml.safe_load(path.read_text()) for path in chart_crds.CRDS.glob("*.yaml")]

    assert rendered == {crd["metadata"]["name"]: crd["spec"] for crd in sources}


def test_with_namespaces_nothing_of_the_operator_reaches_secrets_elsewhere(render: Render) -> None:
    objects = render("watch.namespaces={one,two}")

    of_operator = [
        role for role in of_kind(objects, "ClusterRole") if role["metadata"]["name"] == "system-spindle"
    ]
    (cluster_wide,) = of_operator
    reached = {resource for rule in cluster_wide["rules"] for resource in rule["resources"]}
    assert reached == {"nodes", "persistentvolumes", "storageclasses"}
    roles = {role["metadata"]["namespace"] for role in of_component(objects, "Role", "operator")}
    bound = {
        (made["metadata"]["namespace"], made["subjects"][0]["namespace"])
        for made in of_component(objects, "RoleBinding", "operator")
    }
    places = {"one", "two", "system", "spindle-agents"}
    assert roles == places
    assert bound == {(place, "system") for place in places}
    (container,) = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    assert [each for each in container["args"] if each.startswith("--namespace")] == [
        "--namespace=one",
        "--namespace=two",
    ]


def arguments(objects: list[dict[str, Any]], kind: str) -> list[str]:
    (container,) = of_kind(objects, kind)[0]["spec"]["template"]["spec"]["containers"]
    return [each for each in container["args"] if each.startswith("--namespace")]


def test_by_default_its_own_namespace_is_looked_after(render: Render, helm: Helm) -> None:
    objects = render()

    for role in of_kind(objects, "ClusterRole"):
        reached = {resource for rule in role["rules"] for resource in rule["resources"]}
        assert reached.isdisjoint({"secrets", "pods", "configmaps", "serviceaccounts", "roles"}), role[
            "metadata"
        ]["name"]
    for kind in ("Deployment", "DaemonSet"):
        assert arguments(objects, kind) == ["--namespace=system"]
    (role,) = [r for r in of_component(objects, "Role", "operator") if r["metadata"]["name"] == "spindle"]
    assert role["metadata"]["namespace"] == "system"
    assert "It reads Secrets and creates pods only in system." in notes(helm)


def notes(helm: Helm, *values: str) -> str:
    done = helm("install", "spindle", str(CHART), "--namespace", "system", "--dry-run=client", *values)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:")[2]


def test_all_namespaces_are_asked_for_and_said(render: Render, helm: Helm) -> None:
    objects = render("watch.all=true")

    (role,) = [r for r in of_kind(objects, "ClusterRole") if r["metadata"]["name"] == "system-spindle"]
    assert "secrets" in {resource for rule in role["rules"] for resource in rule["resources"]}
    for kind in ("Deployment", "DaemonSet"):
        assert arguments(objects, kind) == []
    assert "It reads every Secret of this Kubernetes cluster" in notes(helm, "--set=watch.all=true")
    done = helm("template", "spindle", str(CHART), "--set", "watch.all=true,watch.namespaces={a}")
    assert done.returncode != 0
    assert "exclude each other" in done.stderr


def test_one_place_says_which_namespaces_are_looked_after() -> None:
    readers = [path.name for path in (CHART / "templates").iterdir() if ".Values.watch." in path.read_text()]

    assert readers == ["_helpers.tpl"], 'include "spindle.watched" instead: none named means its own, not all'


def test_roles_that_are_handed_on_write_no_clusters_and_no_records_of_brokers(render: Render) -> None:
    handed = [
        role
        for role in of_kind(render("watch.all=true"), "ClusterRole")
        if any("aggregate-to" in label for label in role["metadata"]["labels"])
    ]
    written = {
        resource
        for role in handed
        for rule in role["rules"]
        for resource in rule["resources"]
        if {*rule["verbs"]} - {"get", "list", "watch"}
    }
    assert written == {"kafkausers", "kafkatopics", "kafkarebalances"}


def test_no_more_disks_can_be_allowed_than_the_definition_takes() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert schema["properties"]["allow"]["properties"]["disksPerCluster"]["maximum"] == MAX_CLUSTER_DISKS


def test_what_clusters_may_ask_for_reaches_the_operator(render: Render) -> None:
    def told(*values: str) -> Allowed:
        (container,) = of_kind(render(*values), "Deployment")[0]["spec"]["template"]["spec"]["containers"]
        return read(next(each["value"] for each in container["env"] if each["name"] == "SPINDLE_ALLOW"))

    assert told() == Allowed()
    own = told("allow.images={registry.example/kafka}")
    assert own.images == ("registry.example/kafka", "apache/kafka")
    assert told("allow.jvmOptions={-Dmine=*}").jvm_option("-Dmine=x")
    assert told("allow.hadoopSettings={fs.oss.}").hadoop_setting("fs.oss.endpoint", "x")


def test_no_right_is_a_wildcard(render: Render) -> None:
    objects = render("watch.all=true")
    for role in (*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")):
        for rule in role["rules"]:
            assert "*" not in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])


def test_two_releases_in_different_namespaces_do_not_share_cluster_wide_objects(helm: Helm) -> None:
    names = []
    for namespace in ("one", "two"):
        done = helm(
            "template", "spindle", str(CHART), "--namespace", namespace, "--set", "crds.install=false"
        )
        objects = [made for made in yaml.safe_load_all(done.stdout) if made]
        names.append({made["metadata"]["name"] for made in objects if made["kind"].startswith("ClusterRole")})

    assert names[0].isdisjoint(names[1])


@pytest.mark.parametrize(
    ("value", "field"),
    [
        pytest.param("replicas=0", "replicas", id="no operator"),
        pytest.param("replica=2", "replica", id="a misspelt key"),
        pytest.param("image.tag=a tag", "tag", id="a tag with a space"),
        pytest.param("image.registry=registry.example/", "registry", id="a registry that ends in a slash"),
        pytest.param("image.registry=https://registry.example", "registry", id="a registry with a scheme"),
        pytest.param("image.registry=registry.example//team", "registry", id="a registry with an empty part"),
        pytest.param("image.repository=team/spindle:7", "repository", id="a repository with a tag"),
        pytest.param("image.tag=7@sha256:abc", "tag", id="half a digest"),
        pytest.param("serviceAccount.name=a: b", "serviceAccount", id="no name of an account"),
        pytest.param("nameOverride=Spindle_1", "nameOverride", id="a name that no object may have"),
        pytest.param("kafka.image.repository=", "repository", id="no repository of Kafka"),
        pytest.param("resync=0", "resync", id="passes without a pause"),
        pytest.param("extraEnv[0].name=POD_NAME", "extraEnv", id="a variable that the chart sets"),
        pytest.param("image.pullPolicy=Sometimes", "pullPolicy", id="no such policy"),
        pytest.param("watch.namespaces={Upper}", "namespaces", id="no name of a namespace"),
        pytest.param("metrics.podMonitor.interval=30", "interval", id="a time without unit"),
        pytest.param("log.json=maybe", "json", id="text for a switch"),
        pytest.param("log.level=loud", "level", id="no such level"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(helm: Helm, value: str, field: str) -> None:
    done = helm("template", "spindle", str(CHART), "--set", value)

    assert done.returncode != 0
    assert field in done.stderr


def test_options_reach_the_pod(render: Render) -> None:
    objects = render(
        "image.repository=registry.example/spindle",
        "image.tag=v7",
        "log.json=false",
        "log.level=debug",
        "resync=300",
        "readFromWatches=false",
        "priorityClassName=important",
        "nodeSelector.role=infra",
        "imagePullSecrets[0].name=pull",
        "podLabels.team=data",
        "metrics.podMonitor.enabled=true",
        "metrics.podMonitor.labels.release=prometheus",
    )
    (deployment,) = of_kind(objects, "Deployment")
    (monitor,) = of_component(objects, "PodMonitor", "operator")
    spec = deployment["spec"]["template"]["spec"]

    assert spec["containers"][0]["image"] == "registry.example/spindle:v7"
    assert "--json-logs" not in spec["containers"][0]["args"]
    assert "--log-level=debug" in spec["containers"][0]["args"]
    assert "--resync=300" in spec["containers"][0]["args"]
    assert "--read-from-watches" not in spec["containers"][0]["args"]
    assert spec["priorityClassName"] == "important"
    assert spec["nodeSelector"] == {"role": "infra"}
    assert spec["imagePullSecrets"] == [{"name": "pull"}]
    assert deployment["spec"]["template"]["metadata"]["labels"]["team"] == "data"
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert of_kind(render(), "PodMonitor") == []


def test_operator_and_agents_log_json_by_default(render: Render) -> None:
    (deployment,) = of_kind(render(), "Deployment")
    (agents,) = of_kind(render(), "DaemonSet")
    for each in (deployment, agents):
        arguments = each["spec"]["template"]["spec"]["containers"][0]["args"]
        assert {"--json-logs", "--log-level=info"} <= set(arguments)
        assert ("--read-from-watches" in arguments) is (each is deployment)


def test_the_notes_say_what_comes_next(helm: Helm) -> None:
    done = helm(
        "install", "spindle", str(CHART), "--namespace", "system", "--dry-run=client", "--hide-secret"
    )

    assert done.returncode == 0, done.stderr
    assert "rollout status deployment/spindle" in done.stdout
    sample = yaml.safe_load(done.stdout.split("<<'YAML'\n", 1)[1].split("YAML", 1)[0])
    assert sample == yaml.safe_load((CHART.parents[1] / "examples/quickstart.yaml").read_text())


def test_the_operator_is_told_the_image_of_the_rebalance_job_if_there_is_one(render: Render) -> None:
    def told(*values: str) -> list[str]:
        (container,) = of_kind(render(*values), "Deployment")[0]["spec"]["template"]["spec"]["containers"]
        return [each for each in container["args"] if each.startswith("--rebalance-image")]

    assert told() == []
    assert told("rebalance.image.repository=example.org/rebalance") == [
        "--rebalance-image=example.org/rebalance:0.1.0"
    ]


def images(objects: list[dict[str, Any]]) -> set[str]:
    """Every image that the chart's pods have, or that the operator gives to pods."""
    found = set()
    for made in (*of_kind(objects, "Deployment"), *of_kind(objects, "DaemonSet")):
        (container,) = made["spec"]["template"]["spec"]["containers"]
        found |= {container["image"]}
        found |= {each["value"] for each in container["env"] if each["name"] == "SPINDLE_IMAGE"}
        told = (each.partition("=") for each in container["args"])
        found |= {value for name, _, value in told if name in ("--rebalance-image", "--kafka-repository")}
    return found


def test_one_registry_is_for_all_images(render: Render) -> None:
    job = "rebalance.image.repository=spindle-rebalance"

    assert images(render(job)) == {"spindle:0.1.0", "spindle-rebalance:0.1.0", "apache/kafka"}
    objects = render("image.registry=registry.example:5000/team", job)

    place = "registry.example:5000/team"
    assert images(objects) == {
        f"{place}/spindle:0.1.0",
        f"{place}/spindle-rebalance:0.1.0",
        f"{place}/apache/kafka",
    }
    # A KafkaCluster may write down the image that it gets by default.
    (container,) = of_kind(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    allowed = read(next(each["value"] for each in container["env"] if each["name"] == "SPINDLE_ALLOW"))
    assert allowed.image(f"{place}/apache/kafka:4.3.1")
    assert not allowed.image(f"{place}/other:4.3.1")


def test_images_can_be_pinned_by_digest(render: Render) -> None:
    tag = f"1.2.3@sha256:{'0' * 64}"
    assert f"localhost:5000/spindle:{tag}" in images(
        render("image.registry=localhost:5000", f"image.tag={tag}")
    )


@pytest.mark.parametrize("name", ["123", "on", "null", "1e3"])
def test_names_that_yaml_takes_for_something_else_are_texts(helm: Helm, name: str) -> None:
    values = (
        *("agent.namespace", "priorityClassName", "agent.priorityClassName", "serviceAccount.name"),
        *("nameOverride", "fullnameOverride"),
    )
    options = [part for value in values for part in ("--set-string", f"{value}={name}")]
    wanted = (
        "metrics.podMonitor.enabled=true",
        "metrics.rules.enabled=true",
        "metrics.dashboards.enabled=true",
    )
    options += [part for value in wanted for part in ("--set", value)]
    done = helm(
        "template",
        name,
        str(CHART),
        "--namespace",
        name,
        "--set-string",
        f"watch.namespaces={{{name},a}}",
        *options,
    )
    assert done.returncode == 0, done.stderr
    for made in filter(None, yaml.safe_load_all(done.stdout)):
        if made["kind"] != "CustomResourceDefinition":
            assert not list(_not_texts(made)), made["kind"]


_TEXTS = frozenset(
    {"name", "namespace", "serviceAccountName", "priorityClassName", "policyName", "mountPath"}
)


def _not_texts(value: Any, key: str = "") -> Iterator[object]:
    """Names, labels and the like that are no texts."""
    if isinstance(value, dict):
        for inner, each in value.items():
            within = key in ("labels", "matchLabels", "annotations")
            yield from _not_texts(each, "name" if within else inner)
    elif isinstance(value, list):
        for each in value:
            yield from _not_texts(each, key)
    elif key in _TEXTS and not isinstance(value, str):
        yield key, value


def test_what_is_allowed_may_have_any_characters(render: Render, tmp_path: Path) -> None:
    odd = """-Da='b',"c\\d": {{ e }}"""
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump({"allow": {"jvmOptions": [odd], "images": None}}))
    (container,) = of_kind(render(values=values), "Deployment")[0]["spec"]["template"]["spec"]["containers"]
    told = next(each["value"] for each in container["env"] if each["name"] == "SPINDLE_ALLOW")
    assert json.loads(told)["jvmOptions"] == [odd]
    assert json.loads(told)["images"] == ["apache/kafka"]


def test_kafkas_image_can_be_another(render: Render) -> None:
    assert "example.org/kafka" in images(render("kafka.image.repository=example.org/kafka"))


@pytest.mark.parametrize(("kind", "prefix"), [("Deployment", ""), ("DaemonSet", "agent.")])
def test_environment_and_security_contexts_are_values(render: Render, kind: str, prefix: str) -> None:
    def pod(*values: str) -> dict[str, Any]:
        told = render(*(f"{prefix}{value}" for value in values))
        return dict(of_kind(told, kind)[0]["spec"]["template"]["spec"])

    before = pod()
    after = pod(
        "extraEnv[0].name=HTTPS_PROXY",
        "extraEnv[0].value=proxy",
        "podSecurityContext.runAsUser=null",
        "podSecurityContext.supplementalGroups={7}",
        "securityContext.capabilities.add={SYSLOG}",
    )

    (was,), (container,) = before["containers"], after["containers"]
    assert container["env"] == [*was["env"], {"name": "HTTPS_PROXY", "value": "proxy"}]
    kept = {key: value for key, value in before["securityContext"].items() if key != "runAsUser"}
    assert after["securityContext"] == {**kept, "supplementalGroups": [7]}
    assert container["securityContext"]["capabilities"] == {"add": ["SYSLOG"], "drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_what_only_watches_need_is_granted_with_them_alone(render: Render) -> None:
    def watchable(*values: str) -> set[str]:
        roles = [*of_kind(made := render(*values), "ClusterRole"), *of_kind(made, "Role")]
        rules = [rule for role in roles for rule in role.get("rules") or () if "watch" in rule["verbs"]]
        return {resource for rule in rules for resource in rule["resources"]}

    more = watchable() - watchable("readFromWatches=false")

    assert more == {"persistentvolumes", "storageclasses", "serviceaccounts", "roles", "rolebindings"}
