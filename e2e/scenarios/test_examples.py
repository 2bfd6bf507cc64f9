"""Files of examples/, applied as they are and used as their comments say."""

import json
from functools import partial
from typing import Final

import pytest

from e2e.scenarios.lab import CLUSTER, ROOT, Lab
from e2e.scenarios.test_listeners import is_ready

pytestmark = pytest.mark.e2e

_EXAMPLES: Final = ROOT / "examples"


def use(lab: Lab, *files: str) -> None:
    """Apply files as a user does."""
    paths = [arg for file in files for arg in ("-f", str(_EXAMPLES / file))]
    lab.kubectl("apply", *paths)


def test_users_and_a_quota(running: Lab) -> None:
    """users.yaml and quotas.yaml. Those with Kafka's own scripts cannot run here: the testbed's image has none."""
    lab = running
    use(lab, "users.yaml", "quotas.yaml")
    for user in ("orders", "reports", "bulk"):
        lab.until(f"{user} is ready", partial(is_ready, lab, user))
    assert "sasl.jaas.config" in lab.the("secret", f"{CLUSTER}.user.reports")["data"]
    assert "tls.crt" in lab.the("secret", f"{CLUSTER}.user.orders")["data"]
    lab.kubectl(
        "delete", "-f", str(_EXAMPLES / "users.yaml"), "-f", str(_EXAMPLES / "quotas.yaml"), timeout=120
    )


def test_the_smallest_cluster_on_the_default_storage_class(lab: Lab) -> None:
    """single-node.yaml."""
    use(lab, "single-node.yaml")

    def ready() -> bool:
        status = (lab.get("kafkacluster", "small") or {}).get("status") or {}
        return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())

    lab.until("it is ready", ready, 300)
    found = json.loads(lab.spindle("status", "small", "-n", lab.namespace, "-o", "json"))
    assert found
    lab.spindle("verify", "-n", lab.namespace, "-c", "small", timeout=300)
    lab.kubectl("delete", "-f", str(_EXAMPLES / "single-node.yaml"), timeout=240)
