"""The Secret of the user's own that a cluster's authority comes from: cert-manager's, or one of the same shape."""

from collections.abc import Sequence

from spindle.api.cluster import KafkaClusterSpec
from spindle.cluster import names
from spindle.reconcile.snapshot import CaSource
from spindle_operator import ca
from spindle_operator.certificates import authority_in
from spindle_operator.kinds import SECRET
from spindle_operator.kube import ApiError, Json, Kube


async def look(kube: Kube, cluster: Json) -> CaSource | None:
    """What is in it; None if the spec names none. Its key goes no further."""
    name = ((cluster.get("spec") or {}).get("security") or {}).get("caSecret")
    return await _look(kube, cluster, name) if name else None


async def before(kube: Kube, cluster: Json, specs: Sequence[KafkaClusterSpec]) -> CaSource | None:
    """The same of the last of these specs, where it names another Secret than the KafkaCluster does."""
    asked = ((cluster.get("spec") or {}).get("security") or {}).get("caSecret")
    name = specs[-1].security.ca_secret if specs else None
    return await _look(kube, cluster, name) if name and name != asked else None


async def _look(kube: Kube, cluster: Json, name: str) -> CaSource:
    if name == names.ca_secret(cluster["metadata"]["name"]):
        return CaSource(problem="That is the name of Spindle's own copy: give the Secret another one.")
    try:
        secret = await kube.find(SECRET, cluster["metadata"]["namespace"], name)
    except ApiError as error:
        return CaSource(problem=f"It could not be read: {error}.")
    return CaSource(problem="There is no such Secret.") if secret is None else read(secret)


def read(secret: Json) -> CaSource:
    """The authority in a Secret, or why it cannot be used."""
    authority = authority_in(secret)
    missing = [key for key, pem in (("tls.crt", authority.cert), ("tls.key", authority.key)) if not pem]
    if missing:
        return CaSource(problem=f"It has no {' and no '.join(missing)} (yet).")
    problem = ca.authority_problem(authority)
    return CaSource(problem=problem) if problem else CaSource(ca.describe(authority.cert))
