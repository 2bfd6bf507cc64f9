"""Memory and options of Kafka's JVM."""

from typing import Final

from spindle.api import names

HEAP: Final = {names.ROLE_BROKER: "1g", names.ROLE_CONTROLLER: "384m"}
REQUESTS: Final = {
    names.ROLE_BROKER: {"cpu": "250m", "memory": "1200Mi"},
    names.ROLE_CONTROLLER: {"cpu": "100m", "memory": "512Mi"},
}


def heap_options(role: str, heap: str | None) -> str:
    """Heap flags; initial and maximum heap are equal, so that the JVM reserves the memory at its start."""
    size = heap or HEAP[role]
    return f"-Xms{size} -Xmx{size}"
