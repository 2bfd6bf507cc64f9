"""What a controller lets a reader of its metadata log do, on each release; and that the log says what the brokers say (`bench.fleet.quorum`)."""

import pytest

from bench.fleet.metadata_log import MetadataLog
from bench.fleet.quorum import measure, rig
from bench.fleet.wire import Schemas, connect_active, quorum
from e2e.cluster import versions
from spindle.api import names
from spindle_shared.tls import client_context

CLUSTER_AUTHORIZATION_FAILED = 31

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("version", versions.KAFKA_RELEASES)
async def test_the_log_says_what_the_brokers_say(version: str) -> None:
    schemas = Schemas(version)
    with rig(3, version, 1) as of:
        found = await measure(of, schemas)
        wire, epoch = await connect_active(schemas, of.nodes.hosts, of.access.context())
        await MetadataLog(wire, epoch, of.nodes.cluster_id).read()
        state = await quorum(wire)
        await wire.close()
        folder = of.nodes.ca.agent(of.nodes.base / "agent", "node1")
        other = client_context(*((folder / name).read_bytes() for name in ("ca.crt", "tls.crt", "tls.key")))
        (host,) = of.nodes.hosts.values()
        try:
            await wire.connect(host, names.PORT_CONTROLLER, other)
            with pytest.raises(RuntimeError, match=f"error {CLUSTER_AUTHORIZATION_FAILED}"):
                await MetadataLog(wire, epoch, of.nodes.cluster_id).read()
        finally:
            await wire.close()
    assert {each.replica_id for each in state.observers} == {of.shape.brokers}  # the broker, and no reader
    quiet = "nothing changed"
    assert found.followed[quiet].received * 20 < found.polled[quiet].received
