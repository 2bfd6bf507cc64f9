"""Starts a Spark executor in a pod with the job's image.

Spark starts its pods with the argument ``executor`` and passes everything else in the environment (``BasicExecutorFeatureStep`` of
spark-kubernetes 4.3); in Spark's image a shell script builds the same command.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}


def command(env: Mapping[str, str], jars: str, java: str = "java") -> list[str]:
    """The command line of an executor.

    Args:
        env: environment set by Spark.
        jars: folder with Spark's jars.
        java: the Java program.

    Raises:
        KeyError: a variable is missing, so Spark did not start this pod; the error holds its name.
    """
    numbered = sorted((int(m[1]), value) for name, value in env.items() if (m := _OPTION.fullmatch(name)))
    memory = env["SPARK_EXECUTOR_MEMORY"]
    conf = [env["SPARK_CONF_DIR"]] if env.get("SPARK_CONF_DIR") else []
    arguments = [part for name, key in _ARGUMENTS.items() for part in (name, env[key])]
    return [
        java,
        *(value for _, value in numbered),
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        ":".join([*conf, f"{jars}/*"]),
        _BACKEND,
        *arguments,
    ]


def run() -> NoReturn:
    """Replace this process with the executor."""
    found = importlib.util.find_spec("pyspark")
    jars = Path(found.origin).parent / "jars" if found is not None and found.origin else Path("jars")
    try:
        made = command(os.environ, str(jars))
    except KeyError as error:
        sys.exit(f"spindle-rebalance executor: {error} is not set: only Spark starts this")
    os.execvp(made[0], made)  # noqa: S606 - no shell is wanted
