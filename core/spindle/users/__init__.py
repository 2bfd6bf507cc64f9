"""KafkaUsers: their certificates, passwords and ACLs."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("principals", "wide")
