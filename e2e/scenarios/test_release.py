"""An installation that may pull from one private registry only: the packed chart, with the registry as its only setting for images."""

from collections.abc import Iterator
from typing import Final

import pytest

from e2e.cluster import versions
from e2e.cluster.images import ensure_kafka_image, ensure_spindle_image
from e2e.cluster.layout import REGISTRY
from e2e.cluster.target import Target
from e2e.cluster.testbed import Testbed
from e2e.scenarios.install import AGENTS, VALUES
from e2e.scenarios.lab import ROOT, SYSTEM, Lab
from e2e.scenarios.load import Topic, load
from e2e.scenarios.registry import registry
from e2e.scenarios.stand import SHOWN, Stand
from e2e.scenarios.test_operator_upgrade import helm
from tools.release.chart import pack

pytestmark = pytest.mark.e2e

VERSION: Final = "0.0.1-rc.1"
_SPINDLE: Final = f"spindle:{VERSION}"
# Without those that name the image that the testbed has on its nodes.
_VALUES: Final = tuple(value for value in VALUES if "image.repository" not in value)


@pytest.fixture(scope="module")
def pulled(
    installed: Target, stands: Stand, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """The release, installed from the registry: the images' full names."""
    if not isinstance(installed, Testbed):
        pytest.skip("needs the testbed")
    folder = tmp_path_factory.mktemp("registry")
    chart = tmp_path_factory.mktemp("chart") / f"spindle-{VERSION}.tgz"
    pack(ROOT / "charts/spindle", VERSION, chart)
    kafka = f"apache/kafka:{versions.KAFKA}"
    stands.close()  # Kafka's image has another name, so its brokers would restart
    with registry(
        installed, folder, {_SPINDLE: ensure_spindle_image(), kafka: ensure_kafka_image()}
    ) as names:
        helm(installed, chart, "--reset-values", *_VALUES, f"--set=image.registry={REGISTRY}")
        yield names
        stands.close()
        helm(installed, ROOT / "charts/spindle", "--reset-values", *VALUES)


def images(lab: Lab) -> set[str]:
    """The images of all containers in a namespace."""
    return {
        container["image"]
        for pod in lab.list("pods")
        for kind in ("containers", "initContainers")
        for container in pod["spec"].get(kind, ())
    }


def test_every_image_comes_from_the_private_registry(pulled: dict[str, str], stands: Stand) -> None:
    lab = stands.get(SHOWN)
    own = pulled[_SPINDLE]
    system, agents = (Lab(lab.kubectl_command, lab.kubeconfig, each) for each in (SYSTEM, AGENTS))

    # Pods of the version that was installed before may be on their way out.
    lab.until("only the release's operators run", lambda: images(system) == {own}, 180)
    lab.until("only the release's agents run", lambda: images(agents) == {own}, 180)
    assert images(lab) == set(pulled.values())

    with load(lab, own, Topic("pulled", partitions=6)) as writing:
        report = writing.finish()
    assert not report.lost
    print(report.summary())
