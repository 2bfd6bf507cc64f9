"""The racks of a cluster in the Secrets of its clients, while consumers may fetch within their rack."""

import base64
import hashlib
from typing import Any, Final

from spindle.api import names
from spindle.model import objects
from spindle.model.actions import Patch
from spindle.model.plan_builder import PlanBuilder
from spindle.model.snapshot import SecretView
from spindle.model.state import ClusterState

KEY: Final = "client.racks"
ANN_RACKS: Final = f"{names.GROUP}/client-racks"  # hash of what the key holds


def reconcile_client_racks(state: ClusterState, builder: PlanBuilder) -> None:
    """Keep the values for ``client.rack`` in the Secrets of the admin and of KafkaUsers, one per line; none while ``racks.followerFetching`` is off."""
    if "secrets" in state.snap.unknown or "kafkausers" in state.snap.unknown:
        return
    text = _racks(state) if state.spec.racks.follower_fetching else ""
    own = [names.admin_secret(state.name)]
    own += [
        names.user_secret(state.name, objects.name(user))
        for user in state.snap.users
        if not objects.deleting(user)
    ]
    for name in own:
        secret = state.secrets.get(name)
        if secret is not None and (body := _change(secret, text)) is not None:
            builder.do(
                Patch(
                    kind="Secret", name=name, uid=str(secret.metadata.get("uid", "")), body=body, alone=True
                )
            )


def _racks(state: ClusterState) -> str:
    found = {str(broker["spec"].get("rack") or "") for broker in state.brokers.values()} - {""}
    return "".join(f"{rack}\n" for rack in sorted(found))


def _change(secret: SecretView, text: str) -> dict[str, Any] | None:
    """The patch after which a Secret holds this text, or nothing for an empty one; None if it does already.

    A new certificate replaces the content, and so removes the key: the annotation alone does not prove that it is there.
    """
    recorded = (secret.metadata.get("annotations") or {}).get(ANN_RACKS)
    wanted = hashlib.sha256(text.encode()).hexdigest()[:16] if text else None
    if recorded == wanted and (KEY in secret.keys or wanted is None):
        return None
    return {
        "metadata": {"annotations": {ANN_RACKS: wanted}},
        "data": {KEY: base64.b64encode(text.encode()).decode() if text else None},
    }
