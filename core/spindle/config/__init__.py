"""The configuration of nodes: settings and their checks against Kafka's ConfigDef, rendering, dynamic configuration, and ``spindle preview``."""
