"""Where Spark runs: in this process's pod, or with executors on Kubernetes in client mode.

Source: Spark's "Running on Kubernetes", client mode. The driver pod owns its executors, so they are deleted with it. Executors
connect to the driver at the pod's address, on fixed ports, so that a NetworkPolicy can allow them.
"""

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from spindle.api import names
from spindle_rebalance.errors import ENGINE, RunError
from spindle_rebalance.options import Executors, Options

_SERVICE_HOST: Final = "KUBERNETES_SERVICE_HOST"
_SERVICE_PORT: Final = "KUBERNETES_SERVICE_PORT"
_PYTHON: Final = "/opt/spindle/venv/bin/python"  # path in the job's image
_TEMPLATE: Final = "executor.json"
# Spark accepts serialized objects from anybody who reaches its ports, unless authentication is on. It then creates a secret for each run and passes it to the
# executors in their pods' environment (BasicExecutorFeatureStep). By default Spark uses neither version 2 of its handshake nor an
# authenticated cipher, and accepts its older SASL, which does not encrypt by default.
SECURED: Final[Mapping[str, str]] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
    "spark.network.crypto.saslFallback": "false",
}


# In one pod the JVM only starts tasks, which are Python. Half of its CPU time would be its optimizing compiler, which pays off after minutes; several
# threads that collect garbage only cost memory. The roll-up writes Parquet in the JVM, possibly encrypted to a store: that needs the compiler.
_BRIEF: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def host_text(address: str) -> str:
    """An address for a URL: IPv6 in brackets."""
    try:
        return f"[{address}]" if ipaddress.ip_address(address).version == 6 else address
    except ValueError:
        return address


def master_of(options: Options, env: Mapping[str, str] = os.environ) -> str:
    """Spark's master URL.

    Raises:
        RunError: executors are requested, but this process does not run in a pod.
    """
    if options.executors is None:
        return options.master
    host = _told(env, _SERVICE_HOST)
    return f"k8s://https://{host_text(host)}:{env.get(_SERVICE_PORT, '443')}"


def settings(
    options: Options, template: Mapping[str, Any] | None = None, env: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Spark's settings.

    Args:
        options: the command line.
        template: template of an executor's pod; written into the scratch folder.
        env: environment of the pod.
    """
    made = {} if options.scratch is None else {"spark.local.dir": str(options.scratch)}
    if options.heap_mib is not None:
        made["spark.driver.memory"] = f"{options.heap_mib}m"  # read before the JVM starts
    made |= {f"spark.hadoop.{key}": value for key, value in options.hadoop.items()}
    if len(options.targets) > 1:
        made["spark.scheduler.mode"] = "FAIR"  # clusters are processed in parallel
    if options.executors is None:
        if options.rollup is None:
            made["spark.driver.extraJavaOptions"] = _BRIEF  # read before the JVM starts, too
        return made
    return made | _on_kubernetes(options, options.executors, template, env)


def _on_kubernetes(
    options: Options, executors: Executors, template: Mapping[str, Any] | None, env: Mapping[str, str]
) -> dict[str, str]:
    address, image = _told(env, names.ENV_POD_IP), _told(env, names.ENV_REBALANCE_IMAGE)
    heap = executors.heap_mib
    made = {
        **SECURED,
        "spark.driver.host": host_text(address),
        "spark.driver.bindAddress": host_text(address),
        "spark.driver.port": str(names.PORT_SPARK_DRIVER),
        "spark.driver.blockManager.port": str(names.PORT_SPARK_BLOCKS),
        "spark.blockManager.port": str(names.PORT_SPARK_BLOCKS),
        "spark.executor.instances": str(executors.count),
        "spark.executor.cores": str(max(1, int(float(executors.cores)))),
        "spark.executor.memory": f"{heap}m",
        "spark.executor.memoryOverhead": f"{max(384, executors.memory_mib - heap)}m",
        "spark.kubernetes.namespace": _told(env, names.ENV_POD_NAMESPACE),
        "spark.kubernetes.driver.pod.name": _told(env, names.ENV_POD_NAME),
        "spark.kubernetes.executor.request.cores": executors.cores,
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.executor.podNamePrefix": _told(env, names.ENV_POD_NAME)[-47:].strip("-."),
        "spark.kubernetes.authenticate.caCertFile": "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
        "spark.kubernetes.authenticate.oauthTokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token",
        "spark.executorEnv.PYSPARK_PYTHON": _PYTHON,
        "spark.pyspark.python": _PYTHON,
    }
    if template is not None and options.scratch is not None:
        path = Path(options.scratch) / _TEMPLATE
        path.write_text(json.dumps(template), encoding="utf-8")  # JSON is YAML
        made["spark.kubernetes.executor.podTemplateFile"] = str(path)
        made["spark.kubernetes.executor.podTemplateContainerName"] = "executor"
    return made


def _told(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise RunError(
            ENGINE,
            f"executors need the environment of the CronJob's pod, but {name} is not set",
        )
    return value
