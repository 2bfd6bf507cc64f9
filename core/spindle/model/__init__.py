"""What the phases of a pass share: the view of Kafka and Kubernetes, the replica index, safety rules that several packages check, actions and waits."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = (
    "actions",
    "agent_access",
    "agents",
    "allowed",
    "answers",
    "bounds",
    "config_values",
    "dir_list",
    "disk_facts",
    "disk_identity",
    "freshness",
    "given_consent",
    "ids",
    "inspection",
    "layout",
    "metadata",
    "nodes",
    "objects",
    "ownership",
    "pod_trials",
    "pools",
    "racks",
    "refused_requests",
    "rights",
    "snapshot",
    "spec_findings",
    "start_progress",
    "times",
    "tolerations",
    "view",
    "waiting",
    "watched",
)
