"""The user's Secret with the CA of a cluster, in the format of cert-manager."""

from collections.abc import Sequence

from spindle.api import names
from spindle.api.cluster import KafkaClusterSpec
from spindle.model.snapshot import CaSource
from spindle_operator import ca
from spindle_operator.certificates import authority_in
from spindle_operator.kinds import SECRET
from spindle_operator.kube import Kube
from spindle_shared.api_answers import ApiError, Json


async def look(kube: Kube, cluster: Json) -> CaSource | None:
    """The facts about it; None if the spec names none. The private key is not passed on."""
    name = ((cluster.get("spec") or {}).get("security") or {}).get("caSecret")
    return await _look(kube, cluster, name) if name else None


async def before(kube: Kube, cluster: Json, specs: Sequence[KafkaClusterSpec]) -> CaSource | None:
    """The same for the last of these specs, if it names another Secret than the KafkaCluster does."""
    asked = ((cluster.get("spec") or {}).get("security") or {}).get("caSecret")
    name = specs[-1].security.ca_secret if specs else None
    return await _look(kube, cluster, name) if name and name != asked else None


async def _look(kube: Kube, cluster: Json, name: str) -> CaSource:
    if name == names.ca_secret(cluster["metadata"]["name"]):
        return CaSource(problem="Spindle's own copy has that name: give the Secret another name.")
    try:
        secret = await kube.find(SECRET, cluster["metadata"]["namespace"], name)
    except ApiError as error:
        return CaSource(problem=f"It could not be read: {error}.")
    return CaSource(problem="The Secret does not exist.") if secret is None else read(secret)


def read(secret: Json) -> CaSource:
    """The CA in a Secret, or why it cannot be used."""
    authority = authority_in(secret)
    missing = [key for key, pem in (("tls.crt", authority.cert), ("tls.key", authority.key)) if not pem]
    if missing:
        return CaSource(problem=f"It has no {' and no '.join(missing)} (yet).")
    problem = ca.authority_problem(authority)
    return CaSource(problem=problem) if problem else CaSource(ca.describe(authority.cert))
