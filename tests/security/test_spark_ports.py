"""Whoever reaches the ports of the rebalance job's Spark gets nothing done there without the secret of that run."""

import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster.debian import ensure_programs

pytestmark = pytest.mark.spark

_RPC_REQUEST, _RPC_FAILURE = 3, 5  # org.apache.spark.network.protocol.Message.Type


@contextmanager
def driver(*arguments: str) -> Iterator[tuple[int, int]]:
    """The port of a driver, and what its executors added up."""
    ensure_programs("java")
    command = [sys.executable, str(Path(__file__).with_name("driver.py")), *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port, total = process.stdout.readline().split()
            yield int(port), int(total)
        finally:
            process.kill()


def text(value: str) -> bytes:
    """As java.io.DataOutput.writeUTF has it."""
    return struct.pack(">H", len(value)) + value.encode()


def say(port: int, endpoint: str, message: str) -> str:
    """Send a Java object to an endpoint of Spark's, as a pod would that has no secret; what is answered."""
    # RequestMessage of org.apache.spark.rpc.netty: no sender, the receiver's address and name, the object.
    receiver = b"\0" + b"\1" + text("127.0.0.1") + struct.pack(">i", port) + text(endpoint)
    body = receiver + b"\xac\xed\x00\x05t" + text(message)
    request = struct.pack(">bqi", _RPC_REQUEST, 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(struct.pack(">q", 8 + len(request)) + request)
        answer = b""
        while len(answer) < 8 or len(answer) < struct.unpack(">q", answer[:8])[0]:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
    assert not answer or answer[8] == _RPC_FAILURE
    return answer[21:].decode(errors="replace")


def test_what_comes_without_the_secret_is_not_looked_at() -> None:
    with driver("local[1]", "spark.driver.memory=512m") as (port, _):
        answer = say(port, "endpoint-verifier", "hello")
    # The endpoint itself would answer that it knows no such message: the object was made of the bytes by then.
    assert "won't reply" not in answer, answer
    assert "Unsupported message" not in answer, answer
    assert "IllegalArgument" in answer or "Expected" in answer or not answer, answer


def test_executors_with_the_secret_get_in_and_work() -> None:
    # Only on Kubernetes and in one process Spark makes the secret by itself.
    more = ("spark.authenticate.secret=tried", "spark.driver.memory=512m", "spark.executor.memory=512m")
    with driver("local-cluster[1,1,512]", *more) as (_, total):
        assert total == 5050
