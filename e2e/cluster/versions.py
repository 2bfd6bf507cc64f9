"""Versions of everything that the testbed builds or fetches. A change here makes a new cache entry."""

from typing import Final

KUBERNETES: Final = "1.34.4"
KAFKA: Final = "4.3.1"
SCALA: Final = "2.13"
JMX_EXPORTER: Final = "1.0.1"
