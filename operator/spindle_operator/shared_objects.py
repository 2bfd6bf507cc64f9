"""Whether Secrets and claims that a KafkaCluster's spec names may be used: their owners permit that by a label."""

from collections.abc import Mapping, Sequence

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.config.spec_allowed import named
from spindle.model.spec_findings import SharedObject
from spindle_operator.kinds import CLAIM, SECRET
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError, Json


async def look(
    kube: Kube,
    namespace: str,
    specs: Sequence[KafkaClusterSpec],
    claims: Sequence[Json],
    problems: Mapping[str, str],
) -> dict[str, SharedObject]:
    """``Secret/name`` and ``PersistentVolumeClaim/name`` for the objects that these specs name → what is known of each. Of a Secret only the label is passed on.

    Args:
        kube: the API server.
        namespace: of the KafkaCluster.
        specs: the requested one, and the one in effect.
        claims: all of the namespace.
        problems: kinds that could not be listed.
    """
    found: dict[str, SharedObject] = {}
    for kind, name, _ in dict.fromkeys(each for spec in specs for each in named(spec)):
        if kind == SECRET.kind:
            found[f"{kind}/{name}"] = await _secret(kube, namespace, name)
        elif CLAIM.plural in problems:
            found[f"{kind}/{name}"] = SharedObject(problem=problems[CLAIM.plural])
        else:
            found[f"{kind}/{name}"] = _lent(
                next((claim for claim in claims if claim["metadata"]["name"] == name), None)
            )
    return found


async def _secret(kube: Kube, namespace: str, name: str) -> SharedObject:
    try:
        return _lent(await kube.find(SECRET, namespace, name))
    except ApiError as error:
        return SharedObject(problem=str(error))


def _lent(obj: Json | None) -> SharedObject:
    if obj is None:
        return SharedObject(there=False)
    return SharedObject(label=(obj["metadata"].get("labels") or {}).get(names.LABEL_USABLE))
