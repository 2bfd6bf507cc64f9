"""KafkaTopics: their creation with chosen places, their growth, their settings, and their deletion."""

from typing import Final

# Modules that the programs may import (tests/unit/test_fronts.py).
FRONT: Final = ("preview", "wanted")
