"""The configuration of nodes: settings and their checks against Kafka's ConfigDef, rendering, dynamic configuration, and ``spindle preview``."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = (
    "dynamic_config",
    "listeners_check",
    "logging_check",
    "metrics_check",
    "preview",
    "racks_check",
    "server_properties",
    "spec_allowed",
    "spec_settings",
    "template_check",
)
