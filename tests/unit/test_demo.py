from pathlib import Path

import pytest

from e2e.demo.demo import Demo
from e2e.demo.show import DemoError, Show


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(Show, "run", lambda self, *command, silent="": commands.append(command))
    monkeypatch.setattr(Show, "ask", lambda self, *command: "")
    monkeypatch.setattr("e2e.demo.demo.ensure_helm", lambda: Path("/tools/helm"))
    return commands


def test_a_kubeconfig_that_is_set_by_chance_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, ran: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/production")
    monkeypatch.delenv("SPINDLE_IMAGE", raising=False)

    with pytest.raises(DemoError, match="Unset it"):
        Demo().up()
    assert ran == []


def test_on_another_cluster_it_installs_the_image_that_was_named(
    monkeypatch: pytest.MonkeyPatch, ran: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/playground")
    monkeypatch.setenv("SPINDLE_IMAGE", "registry.example:5000/spindle:7")
    monkeypatch.setenv("PATH", "/usr/bin")

    Demo().up()

    assert [command[:2] for command in ran] == [
        ("helm", "upgrade"),
        ("kubectl", "-n"),
        ("kubectl", "-n"),
        ("cat", "examples/quickstart.yaml"),
        ("kubectl", "apply"),
        ("spindle", "wait"),
        ("spindle", "verify"),
        ("kubectl", "get"),
        ("spindle", "status"),
    ]
    assert "image.repository=registry.example:5000/spindle" in ran[0]
    assert "image.tag=7" in ran[0]
    assert "watch.namespaces={default}" in ran[0]


def test_taking_it_down_there_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, ran: list[tuple[str, ...]]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/me/.kube/playground")
    monkeypatch.setenv("PATH", "/usr/bin")

    Demo().down()

    done = [" ".join(command) for command in ran]
    assert "deleteClaims" in done[0]
    assert done[1].startswith("kubectl delete -f examples/quickstart.yaml")
    assert (
        done[-1]
        == "kubectl delete crd kafkaclusters.spindle.dev kafkabrokers.spindle.dev kafkarebalances.spindle.dev kafkausers.spindle.dev kafkatopics.spindle.dev"
    )
