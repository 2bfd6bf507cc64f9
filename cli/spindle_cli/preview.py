"""``spindle preview``: the effects of applying a file."""

from pathlib import Path

import yaml
from pydantic import ValidationError
from rich.table import Table

from spindle.api.cluster import KafkaCluster
from spindle.config.preview import PreviewChange
from spindle.model.spec_findings import RejectedSettings
from spindle_cli.errors import ClientError


def read(path: Path) -> KafkaCluster:
    """The KafkaCluster of a file.

    Raises:
        ClientError: the file does not contain exactly one KafkaCluster, or it is not valid.
    """
    try:
        documents = [each for each in yaml.safe_load_all(path.read_text()) if isinstance(each, dict)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ClientError(f"{path} cannot be read: {error}") from error
    found = [each for each in documents if each.get("kind") == "KafkaCluster"]
    if len(found) != 1:
        raise ClientError(f"{path} contains {len(found)} KafkaClusters; pass a file with exactly one")
    try:
        return KafkaCluster.model_validate(found[0])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ClientError(f"{path}: {where}: {first['msg']}") from error


def table(changes: list[PreviewChange]) -> Table | str:
    """The changes as a table."""
    if not changes:
        return "No setting of brokers or controllers changes."
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
