"""Versions of everything that the testbed builds or fetches. A change here makes a new cache entry."""

from typing import Final

KUBERNETES: Final = "1.34.4"
# Helm and CoreDNS are of the releases that build against the same Kubernetes libraries as KUBERNETES, so that all
# compile as one Go module and share most of the work. The versions that count are those in go/go.mod.
HELM: Final = "4.0.5"
COREDNS: Final = "1.13.2"
KAFKA: Final = "4.3.1"
KAFKA_BEFORE: Final = "4.2.1"  # from which upgrades are tried; made only where one is
# The commit from which upgrades of Spindle itself are tried: its chart and its image, against those of the checkout.
SPINDLE_BEFORE: Final = "3abf7bea5a3a5c3d08f7fe7153f97009f3f1a44c"
SCALA: Final = "2.13"
JMX_EXPORTER: Final = "1.0.1"
