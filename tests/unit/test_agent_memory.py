"""What the agent does not load: it runs on each node, so its memory counts once for each."""

import subprocess
import sys


def test_the_agent_loads_no_client_of_kafka_until_it_sends_samples() -> None:
    script = """
import sys
from spindle_agent.broker import library
library.leave_out_clients()
import spindle_agent.service
print(sorted(name for name in sys.modules if name.startswith(("kafka.admin", "kafka.consumer", "kafka.producer", "kafka.net"))))
print("cryptography" in sys.modules, "pyarrow" in sys.modules)
import spindle_agent.samples.sending
print("kafka.producer" in sys.modules, "kafka.consumer" in sys.modules)
library.leave_out_clients()
print(sys.modules["kafka"].producer is sys.modules["kafka.producer"])
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n") == ["[]", "False False", "True False", "True", ""]
