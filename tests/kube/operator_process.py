"""An operator process against the API server under test."""

import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.cluster.apiserver import free_ports


class OperatorProcess:
    """Context manager: ``spindle-operator`` as its own process, ended at the end of the block.

    Attributes:
        port: of its HTTP server.
    """

    def __init__(
        self, kubeconfig: Path, namespace: str, folder: Path, *arguments: str, name: str = "one"
    ) -> None:
        (self.port,) = free_ports(1)
        self._log = folder / f"{name}.log"
        self._command = [
            sys.executable,
            "-m",
            "spindle_operator.main",
            f"--namespace={namespace}",
            f"--lease-namespace={namespace}",
            f"--identity={name}",
            f"--port={self.port}",
            "--image=example.org/spindle:test",
            "--read-from-watches",  # as the chart does
            *arguments,
        ]
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def __enter__(self) -> Self:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, env=self._env, stdout=log, stderr=log)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def log(self) -> str:
        """All that it logged."""
        return self._log.read_text()

    @property
    def leads(self) -> bool:
        """Whether it said that it leads."""
        return "leader as" in self.log

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of one of its pages; 0 if it does not serve yet."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def passes(self) -> int:
        """How many passes it finished."""
        found = re.findall(
            r'^spindle_reconciles_total\{.*?outcome="(?!failed).*?\} (\S+)',
            self.get("/metrics")[1],
            re.MULTILINE,
        )
        return int(sum(float(number) for number in found))

    def resident_mib(self) -> float:
        """Memory that it occupies."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kib,) = re.findall(r"VmRSS:\s+(\d+) kB", status)
        return int(kib) / 1024

    def stop(self, with_signal: signal.Signals, seconds: float = 15) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        self.process.send_signal(with_signal)
        return self.process.wait(seconds)


def until(
    what: str, condition: Callable[[], object], seconds: float = 60, detail: Callable[[], str] = str
) -> float:
    """Wait until a condition holds; returns the seconds it took."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > seconds:
            raise AssertionError(f"{what}: not within {seconds} s\n{detail()}")
        time.sleep(0.1)  # noqa: TID251 - looks at other processes
    return time.monotonic() - started
