"""Versions of everything that the testbed builds or fetches. A change here creates a new cache entry."""

import os
from typing import Final

KUBERNETES: Final = "1.34.4"
# Helm and CoreDNS releases that build against the same Kubernetes libraries as KUBERNETES, so that all compile as one Go module and share most
# of the work. The effective versions are those in go/go.mod.
HELM: Final = "4.0.5"
COREDNS: Final = "1.13.2"
KAFKA_RELEASES: Final = ("4.2.1", "4.3.1", "4.4.0")  # of each supported minor release, one
# What tests run. SPINDLE_KAFKA=4.4.0 runs them with another release.
KAFKA: Final = os.environ.get("SPINDLE_KAFKA") or "4.3.1"
# Tests of upgrades start from it; built only on request.
KAFKA_BEFORE: Final = KAFKA_RELEASES[max(0, KAFKA_RELEASES.index(KAFKA) - 1)]
# Tests of upgrades of Spindle itself start from this commit: its chart and image are replaced by those of the checkout.
SPINDLE_BEFORE: Final = "66f9af526eac276ee0f3614ab9807fd606589d6a"
# What an upgrade from it restarts, once each, by the usual rules. The changelog says why: certificates of brokers have more names.
SPINDLE_BEFORE_RESTARTS: Final = frozenset({"broker"})
PROMETHEUS: Final = (
    "3.13.5"  # the one with service discovery of Kubernetes; in go-prometheus/go.mod as v0.313.5
)
SCALA: Final = "2.13"
JMX_EXPORTER: Final = "1.0.1"
