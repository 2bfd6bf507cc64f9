"""``spindle preview``: the effects of applying a file."""

from pathlib import Path

import yaml
from pydantic import ValidationError
from rich.table import Table

from spindle.api.cluster import KafkaCluster
from spindle.config.preview import PreviewChange
from spindle.model.spec_findings import RejectedSettings
from spindle_cli.errors import ClientError
from spindle_cli.kube import Json


def read_topics(path: Path) -> list[Json]:
    """The KafkaTopics of a file that contains no KafkaCluster.

    Raises:
        ClientError: it cannot be read, or one of them has no name.
    """
    documents = _documents(path)
    if any(each.get("kind") == "KafkaCluster" for each in documents):
        return []
    topics = [each for each in documents if each.get("kind") == "KafkaTopic"]
    if not all(isinstance(each.get("metadata"), dict) and each["metadata"].get("name") for each in topics):
        raise ClientError(f"{path} contains a KafkaTopic without metadata.name")
    return topics


def _documents(path: Path) -> list[Json]:
    try:
        return [each for each in yaml.safe_load_all(path.read_text()) if isinstance(each, dict)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ClientError(f"{path} cannot be read: {error}") from error


def read(path: Path) -> KafkaCluster:
    """The KafkaCluster of a file.

    Raises:
        ClientError: the file does not contain exactly one KafkaCluster, or it is not valid.
    """
    found = [each for each in _documents(path) if each.get("kind") == "KafkaCluster"]
    if len(found) != 1:
        raise ClientError(f"{path} contains {len(found)} KafkaClusters; pass a file with exactly one")
    try:
        return KafkaCluster.model_validate(found[0])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ClientError(f"{path}: {where}: {first['msg']}") from error


def table(
    changes: list[PreviewChange], nothing: str = "No setting of brokers or controllers changes."
) -> Table | str:
    """The changes as a table; ``nothing`` if there are none."""
    if not changes:
        return nothing
    result = Table("What", "Where", "How")
    for change in changes:
        result.add_row(change.what, change.where, change.how)
    return result


def refusals(refused: tuple[RejectedSettings, ...]) -> str:
    """Settings that Kafka would reject, each with how to correct it."""
    lines = [f"{each.field}: {each.message}.\n  To resolve: {each.way_out}." for each in refused]
    return "\n".join(
        [*lines, "If applied as it is, nothing of this spec takes effect until that is corrected."]
    )
