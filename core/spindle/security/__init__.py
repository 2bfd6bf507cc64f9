"""Certificates, Secrets and policies of a cluster."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("certificates", "name_conflicts", "secrets")
