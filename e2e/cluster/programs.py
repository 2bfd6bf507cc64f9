"""Command lines of the control plane's programs, shared by the testbed and by the control plane alone."""

from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.layout import SERVICE_RANGE

Command = list[str | Path]


@dataclass(frozen=True)
class Server:
    """Arguments of kube-apiserver.

    Attributes:
        programs: folder of the Kubernetes programs.
        etcd: etcd's address.
        address: address to listen on.
        port: port to listen on.
        authority: certificate of the CA of client certificates.
        certificate: its own certificate.
        key: its own key.
        signing_key: signs service accounts' tokens.
        signing_public: the public part of that.
        folder: writable folder.
    """

    programs: Path
    etcd: str
    address: str
    port: int
    authority: Path
    certificate: Path
    key: Path
    signing_key: Path
    signing_public: Path
    folder: Path

    def command(self, *more: str) -> Command:
        """The command line, with additional flags at its end."""
        return [
            self.programs / "kube-apiserver",
            f"--etcd-servers={self.etcd}",
            f"--bind-address={self.address}",
            f"--secure-port={self.port}",
            f"--client-ca-file={self.authority}",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.key}",
            f"--cert-dir={self.folder}",
            f"--service-account-key-file={self.signing_public}",
            f"--service-account-signing-key-file={self.signing_key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--authorization-mode=Node,RBAC",
            "--allow-privileged=true",
            "--profiling=false",
            *more,
        ]


def etcd(data: Path, client: int, peer: int) -> Command:
    """A single etcd on loopback."""
    data.mkdir(parents=True, mode=0o700, exist_ok=True)
    return [
        "etcd",
        f"--data-dir={data}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--logger=zap",
        "--log-level=warn",
    ]


def manager(
    programs: Path, kubeconfig: Path, authority: Path, signing_key: Path, *more: str, folder: Path
) -> Command:
    """kube-controller-manager, on loopback."""
    return [
        programs / "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--root-ca-file={authority}",
        f"--service-account-private-key-file={signing_key}",
        f"--cert-dir={folder}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--profiling=false",
        *more,
    ]


def scheduler(programs: Path, kubeconfig: Path, folder: Path) -> Command:
    """kube-scheduler, on loopback."""
    return [
        programs / "kube-scheduler",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--cert-dir={folder}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--profiling=false",
    ]
