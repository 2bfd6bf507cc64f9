"""``spindle preview``: what applying a file would bring about."""

from pathlib import Path

import yaml
from pydantic import ValidationError
from rich.table import Table

from spindle.api.cluster import KafkaCluster
from spindle.manifests.preview import PreviewChange
from spindle.manifests.spec_settings import RejectedSettings
from spindle_cli.kafka_client import ClientError


def read(path: Path) -> KafkaCluster:
    """The KafkaCluster of a file.

    Raises:
        ClientError: there is none, or more than one, or it cannot be understood.
    """
    try:
        documents = [each for each in yaml.safe_load_all(path.read_text()) if isinstance(each, dict)]
    except (OSError, yaml.YAMLError) as error:
        raise ClientError(f"{path} cannot be read: {error}") from error
    found = [each for each in documents if each.get("kind") == "KafkaCluster"]
    if len(found) != 1:
        raise ClientError(f"{path} holds {len(found)} KafkaClusters; name a file with one")
    try:
        return KafkaCluster.model_validate(found[0])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ClientError(f"{path}: {where}: {first['msg']}") from error


def table(changes: list[PreviewChange]) -> Table | str:
    """The changes, for a person."""
    if not changes:
        return "Nothing that brokers or controllers are made from changes."
    result = Table("What", "Where", "How")
    for change in changes:
        result.add_row(change.what, change.where, change.how)
    return result


def refusals(refused: tuple[RejectedSettings, ...]) -> str:
    """What Kafka would not take, a line for each setting, for a person."""
    lines = [f"{each.field}: {each.message}.\n  Way out: {each.way_out}." for each in refused]
    return "\n".join(
        [*lines, "Applied as it is, nothing of this spec is carried out until that is corrected."]
    )
