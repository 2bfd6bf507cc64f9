"""Every sample is what a real API server accepts, field by field, with Spindle's resources; nothing is stored.

The Gateway API's definitions are installed. Kinds of other projects (cert-manager, Argo CD, Flux, Strimzi) have no definition there: their fields are compared with the lists below, which are
those of the projects' documentation.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.cluster.apiserver import ApiServer
from e2e.cluster.build import ensure_gateway_api
from spindle.api.cluster import KafkaCluster
from spindle.config.listeners_check import refused_listeners
from spindle.config.metrics_check import refused_metrics
from spindle.config.racks_check import refused_racks
from spindle.config.spec_allowed import owned_settings
from spindle.config.spec_settings import refused_settings

pytestmark = pytest.mark.kube

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "examples"
SAMPLES: Final = sorted(FOLDER.rglob("*.yaml"))
VALUES: Final = FOLDER / "monitoring-values.yaml"

# Kinds of others: fields that the spec must have, and those that it may have.
OTHERS: Final[dict[tuple[str, str], tuple[set[str], set[str]]]] = {
    ("cert-manager.io/v1", "Issuer"): (set(), {"selfSigned", "ca", "acme", "vault", "venafi"}),
    ("cert-manager.io/v1", "Certificate"): (
        {"secretName", "issuerRef"},
        {
            "isCA",
            "commonName",
            "secretTemplate",
            "duration",
            "renewBefore",
            "privateKey",
            "dnsNames",
            "usages",
        },
    ),
    ("argoproj.io/v1alpha1", "Application"): (
        {"project", "source", "destination"},
        {"syncPolicy", "ignoreDifferences", "revisionHistoryLimit"},
    ),
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): ({"interval", "url"}, {"ref", "secretRef", "timeout"}),
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): (
        {"interval", "prune", "sourceRef"},
        {"path", "wait", "timeout", "targetNamespace", "healthChecks", "dependsOn"},
    ),
    ("kafka.strimzi.io/v1", "KafkaConnect"): (
        {"bootstrapServers", "groupId", "configStorageTopic", "offsetStorageTopic", "statusStorageTopic"},
        {"replicas", "version", "image", "tls", "authentication", "config", "resources", "template"},
    ),
}


def documents(path: Path) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def is_other(document: dict[str, Any]) -> bool:
    return (document["apiVersion"], document["kind"]) in OTHERS


@pytest.fixture(scope="module")
def argocd(api_server: ApiServer) -> Iterator[None]:
    """The namespace that a sample names."""
    api_server.kubectl("create", "namespace", "argocd")
    yield
    api_server.kubectl("delete", "namespace", "argocd", "--wait=false")


@pytest.fixture(scope="module")
def gateway_api(api_server: ApiServer) -> Iterator[None]:
    """The Gateway API's own definitions, of the kinds in the samples."""
    crds = [f"--filename={ensure_gateway_api()}/gateway.networking.k8s.io_gateways.yaml"]
    api_server.kubectl("apply", "--server-side", *crds)
    api_server.wait_established(*crds)
    yield
    api_server.kubectl("delete", *crds)


@pytest.mark.usefixtures("argocd", "gateway_api")
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_sample_is_accepted_and_explained(path: Path, api_server: ApiServer) -> None:
    text = path.read_text()
    if path != FOLDER / "quickstart.yaml":  # the README explains it, and shows it whole
        assert text.startswith("# ")
        assert len(text.splitlines()) <= 120
    if path == VALUES:
        return
    found = documents(path)
    assert found
    ours = [each for each in found if not is_other(each)]
    if ours:
        said = api_server.kubectl(
            *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
            stdin=yaml.safe_dump_all(ours),
        )
        assert said.count("serverside-applied") == len(ours)
    for each in found:
        if each["kind"] == "KafkaCluster":
            spec = KafkaCluster.model_validate(each).spec
            refused = (
                *owned_settings(spec),
                *refused_settings(spec, spec.version),
                *refused_metrics(spec),
                *refused_racks(spec),
                *refused_listeners(spec),
            )
            assert refused == ()
        if is_other(each):
            must, may = OTHERS[each["apiVersion"], each["kind"]]
            fields = set(each["spec"])
            assert must <= fields
            assert fields <= must | may


def test_a_sample_that_has_a_wrong_field_is_refused(api_server: ApiServer) -> None:
    wrong = documents(FOLDER / "single-node.yaml")[0]
    wrong["spec"]["brokerPools"][0]["disk"] = {}
    said = api_server.kubectl(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump(wrong),
        check=False,
    )
    assert "serverside-applied" not in said


def test_the_smallest_sample_needs_no_class_and_less_than_a_gigabyte() -> None:
    spec = KafkaCluster.model_validate(documents(FOLDER / "single-node.yaml")[0]).spec
    pool = spec.broker_pools[0]
    assert spec.controllers.storage.storage_class is None
    assert pool.disks.storage_class is None
    mib = [int(size.removesuffix("Mi")) for size in (spec.controllers.storage.size, pool.disks.least_size)]
    assert sum(mib) * 2**20 <= 10**9
    heaps = [int(heap.removesuffix("m")) for heap in (spec.controllers.jvm.heap, pool.jvm.heap)]
    assert sum(heaps) * 2**20 <= 10**9


def test_the_values_are_values_of_the_chart() -> None:
    chart = yaml.safe_load((ROOT / "charts/spindle/values.yaml").read_text())

    def check(given: Any, known: Any, place: str) -> None:
        for key, value in given.items():
            assert key in known, f"{place}.{key}"
            if isinstance(value, dict) and known[key]:
                check(value, known[key], f"{place}.{key}")

    check(yaml.safe_load(VALUES.read_text()), chart, "")


def test_the_page_lists_every_sample() -> None:
    page = (ROOT / "docs/examples.md").read_text()
    assert {
        str(path.relative_to(FOLDER))
        for path in SAMPLES
        if f"../examples/{path.relative_to(FOLDER)}" not in page
    } == set()
