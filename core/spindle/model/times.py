"""Times as Kubernetes writes them."""

from datetime import UTC, datetime


def stamp(seconds: float) -> str:
    """RFC 3339 text, whole seconds, UTC."""
    return f"{datetime.fromtimestamp(int(seconds), UTC).isoformat()[:-6]}Z"


def seconds(text: str | None) -> float | None:
    """Seconds since the epoch of an RFC 3339 text; None if empty or no time."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
