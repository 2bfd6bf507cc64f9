"""A run over a cluster that is made up: what happens between its look and what it publishes."""

from pathlib import Path
from typing import Any

import pytest

from spindle.balance.picture import Picture
from spindle_rebalance import look, options
from spindle_rebalance.run import Run, Spark
from tests.unit.balance_samples import skewed

TOLD = ["run", "--cluster-namespace=ns", "--cluster=demo", "--bootstrap=h:1", "--tls=/none"]


class Kubernetes:
    """A cluster with one proposal, which is older than what would be proposed now."""

    def __init__(self, approved: str | None) -> None:
        self.spec = {"cluster": "demo", "approved": approved}
        self.written: list[str] = []

    def cluster(self, namespace: str, name: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": namespace, "uid": "u"}}

    def rebalances(self, namespace: str, cluster: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": "older"}, "spec": self.spec, "status": {"phase": "Proposed"}}]

    def rebalance(self, namespace: str, name: str) -> None:
        return None

    def apply_rebalance(self, namespace: str, body: dict[str, Any]) -> None:
        self.written.append(body["metadata"]["name"])


@pytest.mark.parametrize(
    ("approved", "reason", "written"),
    [
        pytest.param(None, "Proposed", 1, id="nobody approved"),
        pytest.param("hash", "ProposalUnderWay", 0, id="a person approved meanwhile"),
    ],
)
def test_what_is_approved_while_a_run_plans_stands(
    approved: str | None, reason: str, written: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube: Any = Kubernetes(approved)
    taken = skewed()
    assert not taken.under_way  # when it was looked

    def take(*_: Any) -> Picture:
        return taken

    monkeypatch.setattr(look, "take", take)
    chosen = options.parse([*TOLD, f"--report={tmp_path}"])
    (found,) = Run(chosen, Spark(lambda *_: {}, _never), lambda: kube).all()

    assert (found.reason, len(kube.written)) == (reason, written), found
    assert reason in (tmp_path / "ns.demo.html").read_text()


def _never(*_: Any) -> Any:
    raise AssertionError("there are no samples to study")
