"""Builds and fetches the parts of the testbed, once per version, into the cache.

Everything here is idempotent and may be interrupted: an artefact is created next to its final path and renamed
when it is complete. Compilers and package managers have their own caches, so an interrupted build continues where it
stopped. Two processes that need the same artefact wait for each other.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from e2e.cluster import versions
from e2e.cluster.console import Progress, say
from e2e.cluster.debian import ensure_programs, unpack, which
from e2e.cluster.paths import PACKAGE, cache_dir

KUBERNETES_PROGRAMS: Final = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
)


class BuildError(RuntimeError):
    """A build or download failed; the message contains the end of the tool's output."""


_DIES_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL", "--")
_GO: Final = PACKAGE / "go"
_HELM_PACKAGE: Final = "helm.sh/helm/v4"


def ensure_kubernetes() -> Path:
    """Folder with the Kubernetes programs, each a link to one multi-call binary; builds it if necessary (minutes)."""
    major, minor, _ = versions.KUBERNETES.split(".")
    # The version that the programs report: charts and clients choose features by it.
    values = {"gitVersion": f"v{versions.KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    flags = " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())

    def make(folder: Path) -> None:
        _go_build(f"Kubernetes {versions.KUBERNETES}", "./kubernetes", folder / "spindle-kubernetes", flags)
        for program in KUBERNETES_PROGRAMS:
            (folder / program).symlink_to("spindle-kubernetes")

    key = hashlib.sha256((_go_digest("kubernetes") + flags).encode()).hexdigest()
    return artefact("kubernetes", versions.KUBERNETES, key, make)


def ensure_coredns() -> Path:
    """The CoreDNS program."""

    def make(folder: Path) -> None:
        _go_build(f"CoreDNS {versions.COREDNS}", "./coredns", folder / "coredns")

    return artefact("coredns", versions.COREDNS, _go_digest("coredns"), make) / "coredns"


def ensure_helm() -> Path:
    """The helm program."""
    major, minor, _ = versions.KUBERNETES.split(".")
    # Set by helm's own build: its version, and the Kubernetes version that templates and lint assume.
    values = {"internal/version.version": f"v{versions.HELM}"}
    for package in ("pkg/chart/common", "pkg/chart/v2/lint/rules", "internal/chart/v3/lint/rules"):
        values |= {f"{package}.k8sVersionMajor": major, f"{package}.k8sVersionMinor": minor}
    values |= {
        "internal/version.kubeClientVersionMajor": major,
        "internal/version.kubeClientVersionMinor": minor,
    }
    flags = " ".join(f"-X {_HELM_PACKAGE}/{name}={value}" for name, value in values.items())

    def make(folder: Path) -> None:
        _go_build(f"helm {versions.HELM}", f"{_HELM_PACKAGE}/cmd/helm", folder / "helm", flags)

    return artefact("helm", versions.HELM, _go_digest(), make) / "helm"


def ensure_pause() -> Path:
    """The program of the container that holds a pod's namespaces, in a folder of its own."""
    source = PACKAGE / "go-tools"

    def make(folder: Path) -> None:
        _go_build("pause", "./pause", folder / "pause", source=source)

    return artefact("pause", "1", _digest(source / "pause"), make) / "pause"


def ensure_enclosure() -> Path:
    """The program that serves the disks' images."""
    source = PACKAGE / "go-tools"
    key = hashlib.sha256(
        (source / "go.sum").read_bytes() + _digest(source / "enclosure").encode()
    ).hexdigest()

    def make(folder: Path) -> None:
        _go_build("enclosure", "./enclosure", folder / "enclosure", source=source)

    return artefact("enclosure", "1", key, make) / "enclosure"


def ensure_health() -> Path:
    """The program that evaluates the health of an object like Flux (kstatus) and Argo CD (a Lua script)."""
    source = PACKAGE / "go-health"

    def make(folder: Path) -> None:
        _go_build("kstatus and Lua", ".", folder / "health", source=source)

    return artefact("health", "1", _digest(source), make) / "health"


def ensure_cert_manager() -> Path:
    """Folder with the controllers of cert-manager as one program, ``cert-manager``, and its CRDs in ``crds``."""
    source = PACKAGE / "go-cert-manager"

    def make(folder: Path) -> None:
        _go_build("cert-manager", ".", folder / "cert-manager", source=source)
        module = _go_module("github.com/cert-manager/cert-manager", source)
        shutil.copytree(module / "deploy" / "crds", folder / "crds")

    return artefact("cert-manager", "1", _digest(source), make)


def ensure_gateway_api() -> Path:
    """Folder with the CRDs of the Gateway API, those of its standard channel."""
    source = PACKAGE / "go-gateway"

    def make(folder: Path) -> None:
        module = _go_module("sigs.k8s.io/gateway-api", source)
        # Without the policy that keeps other versions out.
        shutil.copytree(
            module / "config" / "crd" / "standard", folder / "crds", ignore=shutil.ignore_patterns("*_vap_*")
        )

    return artefact("gateway-api", "1", _digest(source), make) / "crds"


def ensure_traefik() -> Path:
    """The program Traefik, without lego's DNS providers, of whose libraries some cannot be had as Go modules; only certificates by ACME need them."""
    source, lego = PACKAGE / "go-traefik", "github.com/go-acme/lego/v5"

    def make(folder: Path) -> None:
        made = folder / "source"
        shutil.copytree(source, made)
        _writable_copy(_go_module(lego, source), made / "lego")
        shutil.copy(source / "dns" / "providers.go", made / "lego/providers/dns/zz_gen_dns_providers.go")
        with (made / "go.mod").open("a") as pinned:
            pinned.write(f"\nreplace {lego} => ./lego\n")
        _go_build("Traefik", "github.com/traefik/traefik/v3/cmd/traefik", folder / "traefik", source=made)
        shutil.rmtree(made)

    return artefact("traefik", "1", _digest(source), make) / "traefik"


def _writable_copy(module: Path, target: Path) -> None:
    """A copy of a Go module, whose files are read-only in Go's cache."""
    shutil.copytree(module, target, copy_function=shutil.copyfile)
    for folder in (target, *(path for path in target.rglob("*") if path.is_dir())):
        folder.chmod(0o755)


def ensure_monitoring() -> Path:
    """Folder with ``prometheus-operator``, its ``prometheus-config-reloader``, ``kube-state-metrics``, and the operator's CRDs in ``crds``."""
    source = PACKAGE / "go-monitoring"
    operator = "github.com/prometheus-operator/prometheus-operator"
    packages = {
        "prometheus-operator": f"{operator}/cmd/operator",
        "prometheus-config-reloader": f"{operator}/cmd/prometheus-config-reloader",
        "kube-state-metrics": "k8s.io/kube-state-metrics/v2",
    }

    def make(folder: Path) -> None:
        for program, package in packages.items():
            _go_build(program, package, folder / program, source=source)
        shutil.copytree(_go_module(operator, source) / "example/prometheus-operator-crd", folder / "crds")

    return artefact("monitoring", "1", _digest(source), make)


def ensure_csi_driver() -> Path:
    """The program of the testbed's own CSI driver."""
    source = PACKAGE / "go-csi"
    key = hashlib.sha256((_csi_modules() + _digest(source / "driver")).encode()).hexdigest()

    def make(folder: Path) -> None:
        _go_build("CSI driver", "./driver", folder / "driver", source=source)

    return artefact("csi-driver", "1", key, make) / "driver"


def ensure_csi_sidecars() -> Path:
    """Folder with Kubernetes' ``csi-provisioner`` and ``csi-resizer``."""
    source = PACKAGE / "go-csi"
    packages = {
        "csi-provisioner": "github.com/kubernetes-csi/external-provisioner/v5/cmd/csi-provisioner",
        "csi-resizer": "github.com/kubernetes-csi/external-resizer/cmd/csi-resizer",
    }

    def make(folder: Path) -> None:
        for program, package in packages.items():
            _go_build(program, package, folder / program, source=source)

    return artefact("csi-sidecars", "1", _csi_modules(), make)


def _csi_modules() -> str:
    """Digest of the pinned modules of the CSI driver and its sidecars."""
    source = PACKAGE / "go-csi"
    return hashlib.sha256((source / "go.mod").read_bytes() + (source / "go.sum").read_bytes()).hexdigest()


def ensure_release_tools() -> Path:
    """Folder with ``crane``, which is a registry and pushes images to one, and ``actionlint``, which checks workflows."""
    source = PACKAGE / "go-release"
    packages = {
        "crane": "github.com/google/go-containerregistry/cmd/crane",
        "actionlint": "github.com/rhysd/actionlint/cmd/actionlint",
    }

    def make(folder: Path) -> None:
        for program, package in packages.items():
            _go_build(program, package, folder / program, source=source)

    return artefact("release-tools", "1", _digest(source), make)


def ensure_discovering_prometheus() -> Path:
    """Folder with a ``prometheus`` and ``promtool`` that know the service discovery of Kubernetes, which Debian's do not."""
    source = PACKAGE / "go-prometheus"
    package = "github.com/prometheus/prometheus"
    flags = f"-X github.com/prometheus/common/version.Version={versions.PROMETHEUS}"
    tags = "remove_all_sd,enable_kubernetes_sd"  # the other kinds of service discovery are most of its code

    def make(folder: Path) -> None:
        for program in ("prometheus", "promtool"):
            what = f"{program} {versions.PROMETHEUS}"
            _go_build(what, f"{package}/cmd/{program}", folder / program, flags, source, tags)

    return artefact("discovering-prometheus", versions.PROMETHEUS, _digest(source), make)


def ensure_prometheus() -> Path:
    """Folder with Debian's ``prometheus`` and ``promtool``."""
    return _ensure_unpacked("prometheus", "prometheus") / "bin"


def ensure_alertmanager() -> Path:
    """Folder with Debian's Alertmanager and node_exporter: ``bin/prometheus-alertmanager``, ``bin/prometheus-node-exporter``, and the first one's templates in ``share``."""
    return _ensure_unpacked("alertmanager", "prometheus-alertmanager", "prometheus-node-exporter")


def ensure_qemu(machine: str) -> Path:
    """The program that runs programs of another machine, as Linux calls it: Debian's qemu, linked statically."""
    return _ensure_unpacked("qemu", "qemu-user-static") / "bin" / f"qemu-{machine}-static"


def _ensure_unpacked(name: str, *packages: str) -> Path:
    """The folder ``usr`` of packages of Debian, unpacked."""
    if not which("apt-get"):
        raise BuildError(f"{name} is unpacked from Debian's package, which needs apt-get")

    def make(folder: Path) -> None:
        say(f"unpacking Debian's {' and '.join(packages)}")
        unpack(packages, folder)

    return artefact(name, "debian", hashlib.sha256(b"1").hexdigest(), make) / "usr"


def ensure_kafka_libs(version: str = versions.KAFKA) -> Path:
    """Folder with the jars of a Kafka release: ``java -cp <folder>/* kafka.Kafka`` is the broker."""
    return _ensure_jars(version) / "libs"


def ensure_jmx_exporter() -> Path:
    """The jar of the Prometheus JMX exporter's java agent."""
    return _ensure_jars(versions.KAFKA) / "jmx.jar"


def artefact(name: str, version: str, key: str, make: Callable[[Path], None]) -> Path:
    """The cache's folder of one artefact; ``make`` fills it if it does not exist.

    Args:
        name: its name.
        version: the user-visible version.
        key: digest of all its other inputs.
        make: fills the given folder. If it fails, its output is deleted.
    """
    final = artefact_path(name, version, key)
    if final.is_dir():
        return final
    with locked(name):
        if final.is_dir():  # another process built it meanwhile
            return final
        part = final.with_name(f"{final.name}.part")
        if part.exists():
            shutil.rmtree(part)
        part.mkdir(parents=True)
        make(part)
        part.rename(final)
    return final


def artefact_path(name: str, version: str, key: str) -> Path:
    """Folder of an artefact in the cache; it does not exist until it is built."""
    return cache_dir() / f"{name}-{version}-{key[:12]}"


@contextmanager
def locked(name: str) -> Iterator[None]:
    """Hold the cache's lock of this name; the kernel releases it when the holder dies."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / f"{name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{name}: another process is building it, waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run(what: str, *command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Run a tool to its end and return its output. It dies with this process.

    Raises:
        BuildError: it failed.
    """
    done = subprocess.run(
        [*_DIES_WITH_US, *command],
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(
            f"{what}: {command[0]} ended with {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}"
        )
    return done.stdout


def _digest(folder: Path) -> str:
    """Digest over the names and contents of a folder's files."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _go_digest(folder: str | None = None) -> str:
    """Digest of the inputs of a program in our Go module: the pinned modules, and its own folder if any."""
    digest = hashlib.sha256((_GO / "go.mod").read_bytes() + (_GO / "go.sum").read_bytes())
    if folder:
        digest.update(_digest(_GO / folder).encode())
    return digest.hexdigest()


def _go_module(name: str, source: Path) -> Path:
    """Folder of the files of a Go module that the module at ``source`` requires."""
    ensure_programs("go")
    run(name, "go", "mod", "download", name, cwd=source)  # else it has no folder yet
    return Path(run(name, "go", "list", "-m", "-f", "{{.Dir}}", name, cwd=source).strip())


def _go_build(
    what: str, package: str, output: Path, flags: str = "", source: Path = _GO, tags: str = ""
) -> None:
    """Compile one program of the module at ``source``; ``flags`` are additional linker flags, ``tags`` are build tags."""
    ensure_programs("go")
    env = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
    say(f"{what}: fetching Go modules")
    listed = run(what, "go", "list", "-tags", tags, "-deps", package, cwd=source, env=env)
    say(f"{what}: compiling (once; takes minutes on a slow machine)")
    progress = Progress(f"{what}: compiling packages", len(listed.splitlines()))
    options = ("-v", "-tags", tags, "-ldflags", f"-s -w {flags}", "-o", str(output))
    command = [*_DIES_WITH_US, "go", "build", *options, package]
    said: list[str] = []
    with subprocess.Popen(command, cwd=source, env=env, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            said.append(line)
            progress.step()
    if process.returncode != 0:
        raise BuildError(f"{what}: go build ended with {process.returncode}\n{''.join(said[-30:])}")


def _ensure_jars(kafka: str) -> Path:
    pom = PACKAGE / "kafka" / "pom.xml"
    version = f"{kafka}-jmx{versions.JMX_EXPORTER}"
    return artefact("kafka", version, _digest(pom.parent), lambda folder: _fetch_jars(pom, folder, kafka))


def _fetch_jars(pom: Path, folder: Path, kafka: str) -> None:
    ensure_programs("mvn", "java")
    what = f"Kafka {kafka}"
    say(f"{what}: fetching jars with Maven")
    libs = folder / "libs"
    run(
        what,
        *("mvn", "--batch-mode", "--no-transfer-progress", "--file", pom),
        *(
            f"-Dkafka.version={kafka}",
            f"-Djmx.version={versions.JMX_EXPORTER}",
            f"-Dscala={versions.SCALA}",
        ),
        f"-DoutputDirectory={libs}",
        "dependency:copy-dependencies",
    )
    (agent,) = libs.glob("jmx_prometheus_javaagent-*.jar")
    agent.rename(folder / "jmx.jar")
    _check_one_log4j(libs)


def _check_one_log4j(libs: Path) -> None:
    """If the binding between slf4j and log4j has another version, Kafka logs nothing and reports no error."""
    found = {path.stem.rsplit("-", 1)[1] for path in libs.glob("log4j-*.jar")}
    if len(found) != 1:
        raise BuildError(
            f"jars of several log4j versions: {sorted(found)}; set log4j.version in pom.xml to Kafka's"
        )
