"""Users in Kafka: reads and changes their ACLs, quotas and passwords. All functions block, and raise KafkaError, OSError or RuntimeError."""

import os
from collections.abc import Iterable, Mapping
from hashlib import pbkdf2_hmac
from typing import Any, Final

from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)

from spindle.api import names
from spindle.model.agent_access import CLUSTER, is_agent
from spindle.model.rights import Right, UserView
from spindle.users.principals import EVERYTHING
from spindle.users.wide import KEPT_OUT
from spindle_operator.answers import expect, failures
from spindle_operator.connection import Connection
from spindle_operator.kafka_commands import settle

ITERATIONS: Final = 8192  # twice Kafka's minimum
_SCRAM_SHA_512: Final = 2  # ScramMechanism
_NO_CREDENTIALS: Final = 91  # RESOURCE_NOT_FOUND
_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "cluster": ResourceType.CLUSTER,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
_PATTERNS: Final = {
    "literal": ACLResourcePatternType.LITERAL,
    "prefixed": ACLResourcePatternType.PREFIXED,
}
_OPERATIONS: Final = {
    "All": ACLOperation.ALL,
    "Read": ACLOperation.READ,
    "Write": ACLOperation.WRITE,
    "Create": ACLOperation.CREATE,
    "Delete": ACLOperation.DELETE,
    "Alter": ACLOperation.ALTER,
    "Describe": ACLOperation.DESCRIBE,
    "ClusterAction": ACLOperation.CLUSTER_ACTION,
    "DescribeConfigs": ACLOperation.DESCRIBE_CONFIGS,
    "AlterConfigs": ACLOperation.ALTER_CONFIGS,
    "IdempotentWrite": ACLOperation.IDEMPOTENT_WRITE,
}


def look(link: Connection, users: Iterable[str]) -> dict[str, UserView]:
    """ACLs, quotas and passwords of these users. Every request must succeed: a partial result would look like something removed."""
    asked = sorted(set(users))
    passwords = _passwords(link, asked)
    found = {}
    for name in asked:
        allowed, denied = _rights(link, name)
        found[name] = UserView(
            allowed, name in passwords, _quotas(link, name), denied >= EVERYTHING, denied >= KEPT_OUT
        )
    return found


def alter(link: Connection, user: str, give: Iterable[Right], take: Iterable[Right]) -> None:
    """Add ACLs of a user and remove others. Existing or already removed ones are not an error."""
    _alter(link, [_acl(user, right) for right in give], [_acl(user, right) for right in take])


def deny(link: Connection, user: str, *, wanted: bool) -> None:
    """Add or remove the DENY of everything for a user."""
    _deny(link, user, EVERYTHING, wanted=wanted)


def keep_out(link: Connection, user: str, *, wanted: bool) -> None:
    """Add or remove the DENY of writes to Spindle's own topics for a user."""
    _deny(link, user, KEPT_OUT, wanted=wanted)


def _deny(link: Connection, user: str, rights: Iterable[Right], *, wanted: bool) -> None:
    acls = [_acl(user, right, ACLPermissionType.DENY) for right in sorted(rights)]
    _alter(link, acls if wanted else [], [] if wanted else acls)


def _alter(link: Connection, made: list[ACL], gone: list[ACL]) -> None:
    if made:
        for error in link.admin.create_acls(made)["failed"]:
            raise error
    if gone:
        for _, _, error in link.admin.delete_acls(gone):
            if getattr(error, "errno", 0):
                raise error("an ACL was not deleted") if isinstance(error, type) else error


def set_quotas(link: Connection, user: str, values: Mapping[str, float | None]) -> None:
    """Set quotas of a user; None removes one."""
    entry = AlterClientQuotasRequest.EntryData
    entity = entry.EntityData(entity_type="user", entity_name=user)
    ops = [entry.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()]
    request = AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=ops)], validate_only=False)
    answer = link.send(request, link.any_broker())
    settle(
        "Kafka rejects the quotas of",
        failures((user, each.error_code, each.error_message) for each in answer.entries),
    )


def set_password(link: Connection, user: str, password: bytes) -> None:
    """Set a user's password for SCRAM-SHA-512. It is sent salted and hashed (RFC 5802), never in clear text."""
    salt = os.urandom(32)
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user,
        mechanism=_SCRAM_SHA_512,
        iterations=ITERATIONS,
        salt=salt,
        salted_password=pbkdf2_hmac("sha512", password, salt, ITERATIONS),
    )
    _scram(link, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def drop_password(link: Connection, user: str) -> None:
    """Remove a user's password; having none is not an error."""
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=_SCRAM_SHA_512)
    _scram(link, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


def _scram(link: Connection, request: Any) -> None:
    answer = link.send(request, link.any_broker())
    results = ((each.user, each.error_code, each.error_message) for each in answer.results)
    settle("Kafka rejects the password of", failures(results, (_NO_CREDENTIALS,)))


def _passwords(link: Connection, users: list[str]) -> set[str]:
    name = DescribeUserScramCredentialsRequest.UserName
    request = DescribeUserScramCredentialsRequest(users=[name(name=user) for user in users])
    answer = link.send(request, link.any_broker())
    expect(answer.error_code, answer.error_message)
    for result in answer.results:
        if result.error_code != _NO_CREDENTIALS:
            expect(result.error_code, result.error_message)
    return {
        result.user
        for result in answer.results
        if any(info.mechanism == _SCRAM_SHA_512 for info in result.credential_infos or ())
    }


def agents(link: Connection) -> dict[str, frozenset[Right]]:
    """Principal → ACLs of each agent on the resources of agents."""
    found: dict[str, set[Right]] = {}
    for kind, name, matched in (
        (ResourceType.CLUSTER, CLUSTER, ACLResourcePatternType.LITERAL),
        (ResourceType.TOPIC, names.TOPIC_SAMPLES, ACLResourcePatternType.MATCH),  # also for *
    ):
        for principal, denied, right in _told(link, None, ResourcePatternFilter(kind, name, matched)):
            user = principal.removeprefix(_principal(""))
            if is_agent(user) and not denied:
                found.setdefault(user, set()).add(right)
    return {user: frozenset(rights) for user, rights in found.items()}


def _rights(link: Connection, user: str) -> tuple[frozenset[Right], frozenset[Right]]:
    """ALLOW and DENY ACLs of a user."""
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    told = _told(link, _principal(user), anything)
    allowed, denied = (frozenset(right for _, no, right in told if no is wanted) for wanted in (False, True))
    return allowed, denied


def _told(
    link: Connection, principal: str | None, resources: ResourcePatternFilter
) -> list[tuple[str, bool, Right]]:
    """(principal, whether DENY, right) of all ACLs of a principal on resources; None reads those of all principals."""
    asked = ACLFilter(principal, None, ACLOperation.ANY, ACLPermissionType.ANY, resources)
    acls, error = link.admin.describe_acls(asked)
    if getattr(error, "errno", 0):
        raise error("the ACLs could not be read") if isinstance(error, type) else error
    found = []
    for acl in acls:
        pattern = acl.resource_pattern
        resource = _named(_RESOURCES, pattern.resource_type)
        kind, operation = _named(_PATTERNS, pattern.pattern_type), _named(_OPERATIONS, acl.operation)
        if resource and kind and operation:  # others were created by a user
            right = Right(resource, pattern.resource_name, kind, operation, acl.host)
            found.append((acl.principal, acl.permission_type == ACLPermissionType.DENY, right))
    return found


def _quotas(link: Connection, user: str) -> dict[str, float]:
    component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=0, match=user)
    request = DescribeClientQuotasRequest(components=[component], strict=True)
    answer = link.send(request, link.any_broker())
    expect(answer.error_code, answer.error_message)
    return {value.key: float(value.value) for entry in answer.entries or () for value in entry.values}


def _acl(user: str, right: Right, permission: Any = ACLPermissionType.ALLOW) -> ACL:
    pattern = ResourcePattern(_RESOURCES[right.resource], right.name, _PATTERNS[right.pattern])
    return ACL(_principal(user), right.host, _OPERATIONS[right.operation], permission, pattern)


def _principal(user: str) -> str:
    return f"User:{user}"


def _named(table: Mapping[str, Any], value: Any) -> str | None:
    return next((name for name, found in table.items() if found == value), None)
