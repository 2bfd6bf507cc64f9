"""A control plane without nodes: etcd and kube-apiserver on loopback, for tests that need the real API only.

Nothing runs pods, and no controller acts unless requested: objects that a test writes do not change.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from e2e.cluster import programs
from e2e.cluster.build import ensure_kubernetes
from e2e.cluster.debian import ensure_programs
from e2e.cluster.paths import remove_orphans
from e2e.cluster.pki import Authority
from e2e.cluster.procs import Process, spawn
from e2e.cluster.waiting import wait_for

_PREFIX: Final = "spindle-apiserver-"


class ApiServer:
    """Context manager: a fresh, empty API server with an administrator's kubeconfig.

    Args:
        controllers: also run kube-controller-manager (garbage collection, disruption budgets, default service
            accounts, binding of claims). Without it, pods are accepted although no service account exists.

    Attributes:
        kubeconfig: path of the administrator's kubeconfig.
        url: address of the API server.
    """

    def __init__(self, *, controllers: bool = False) -> None:
        self._controllers = controllers
        self._processes: list[Process] = []
        self._commands: list[tuple[programs.Command, Path]] = []  # etcd, kube-apiserver
        self._folder: Path | None = None
        self.url = ""
        self.kubeconfig = Path()

    def __enter__(self) -> Self:
        self._programs = ensure_kubernetes()
        ensure_programs("etcd")
        # In memory if possible: etcd syncs every write, and these are discarded.
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        remove_orphans(Path(base or tempfile.gettempdir()), _PREFIX)
        self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base))
        try:
            self._start(self._folder)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as administrator and return what it printed.

        Raises:
            KubectlError: it failed and ``check`` is set.
        """
        done = subprocess.run(
            [self._programs / "kubectl", "--kubeconfig", self.kubeconfig, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if check and done.returncode != 0:
            raise KubectlError(arguments, done.stdout, done.stderr)
        return done.stdout

    def wait_established(self, *definitions: str) -> None:
        """Wait until new CustomResourceDefinitions are served.

        Files that say ``conditions: null`` end ``kubectl wait`` with an error until the API server has set the conditions.

        Raises:
            KubectlError: another error.
        """

        def probe() -> bool:
            try:
                self.kubectl("wait", "--for=condition=Established", "--timeout=30s", *definitions)
            except KubectlError as error:
                if "accessor error" not in str(error):
                    raise
                return False
            return True

        wait_for("served definitions", probe, seconds=30)

    def log(self) -> str:
        """The end of the API server's log."""
        path = (self._folder or Path()) / "apiserver.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    @property
    def server(self) -> Process:
        """kube-apiserver."""
        return self._processes[1]

    def restart(self, change_data: Callable[[Path], None] = lambda _: None) -> None:
        """Kill etcd and kube-apiserver, and start them again; in the main thread, because they end with the thread that started them.

        Args:
            change_data: called with etcd's folder while nothing runs.
        """
        for process in reversed(self._processes[:2]):
            process.stop(grace=0)
        change_data((self._folder or Path()) / "etcd")
        self._processes[:2] = [spawn(command, log, dies_with_us=True) for command, log in self._commands]
        wait_for("kube-apiserver", self._ready, seconds=60, detail=self.log)

    def compact(self) -> None:
        """Have etcd forget all former states."""
        key = base64.b64encode(b"\0").decode()
        revision = self.etcd("kv/range", {"key": key})["header"]["revision"]
        self.etcd("kv/compaction", {"revision": revision, "physical": True})

    def etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        """A request to etcd's gateway, such as `kv/put`; keys and values are in base64."""
        url = f"{self._etcd_url}/v3/{what}"
        request = urllib.request.Request(url, json.dumps(body).encode())  # noqa: S310 - http
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            told: dict[str, Any] = json.load(answer)
        return told

    def stop(self) -> None:
        """End everything and remove its files; may be called twice."""
        while self._processes:
            self._processes.pop().stop(grace=0)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, folder: Path) -> None:
        etcd_client, etcd_peer, port, manager = free_ports(4)
        self._etcd_url = etcd_url = f"http://127.0.0.1:{etcd_client}"
        self.url = f"https://127.0.0.1:{port}"
        authority = Authority(folder / "pki")
        etcd = programs.etcd(folder / "etcd", etcd_client, etcd_peer)
        self._processes.append(spawn(etcd, folder / "etcd.log", dies_with_us=True))
        certificate, key = authority.issue("apiserver", "kube-apiserver", hosts=["127.0.0.1", "localhost"])
        private, public = authority.service_account_keys()
        self.kubeconfig = authority.kubeconfig("admin", self.url, "admin", "system:masters")
        server_spec = programs.Server(
            programs=self._programs,
            etcd=etcd_url,
            address="127.0.0.1",
            port=port,
            authority=authority.certificate,
            certificate=certificate,
            key=key,
            signing_key=private,
            signing_public=public,
            folder=folder / "pki",
        )
        command = server_spec.command("--endpoint-reconciler-type=none")
        if not self._controllers:
            command.append("--disable-admission-plugins=ServiceAccount")
        server = spawn(command, folder / "apiserver.log", dies_with_us=True)
        self._processes.append(server)
        self._commands = [(etcd, folder / "etcd.log"), (command, folder / "apiserver.log")]
        wait_for("kube-apiserver", lambda: not server.alive() or self._ready(), seconds=60, detail=self.log)
        if not server.alive():
            raise RuntimeError(f"kube-apiserver ended at once:\n{self.log()}")
        if self._controllers:
            self._start_controllers(folder, manager, private, authority)

    def _start_controllers(self, folder: Path, port: int, private: Path, authority: Authority) -> None:
        config = authority.kubeconfig("manager", self.url, "system:kube-controller-manager")
        command = programs.manager(
            self._programs,
            config,
            authority.certificate,
            private,
            f"--secure-port={port}",
            folder=folder / "pki",
        )
        self._processes.append(spawn(command, folder / "manager.log", dies_with_us=True))
        wait_for(
            "the default service account",
            lambda: self.kubectl("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name"),
            seconds=60,
        )

    def _ready(self) -> bool:
        return self.kubectl("get", "--raw", "/readyz", check=False) == "ok"


class KubectlError(RuntimeError):
    """kubectl failed; ``stderr`` is its error output."""

    def __init__(self, arguments: tuple[str, ...], stdout: str, stderr: str) -> None:
        super().__init__(f"kubectl {' '.join(arguments)}: {stderr.strip() or stdout.strip()}")
        self.stdout, self.stderr = stdout, stderr


def free_ports(count: int) -> list[int]:
    """Ports on loopback that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
