"""Assembles the layers of an image in folders, without running anything of another architecture."""

import fnmatch
import hashlib
import os
import platform
import re
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from e2e.cluster.build import BuildError, run
from e2e.cluster.console import say
from e2e.cluster.debian import ensure_programs
from e2e.cluster.paths import CHECKOUT
from tools.images import debian
from tools.images.certificates import write_bundle, write_java_store
from tools.images.definition import (
    ARCHITECTURES,
    BASE,
    BUSYBOX,
    DEBIAN_WITHOUT,
    JMX,
    JMX_ARTEFACT,
    JMX_SHA256,
    PYTHON,
    SITE,
    USER,
    VENV,
    WHEELS_WITHOUT,
    Definition,
)
from tools.images.layers import digest_of, link_copies

_HOME: Final = "/var/lib/spindle/scratch"  # Spark looks up its user's name and home
_ACCOUNTS: Final = {
    "etc/passwd": f"root:x:0:0:root:/root:/bin/bash\nspindle:x:{USER}:{USER}::{_HOME}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n",
    "etc/group": f"root:x:0:\nspindle:x:{USER}:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
}
_VENV_CONFIG: Final = f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {PYTHON}\n"
_SCRIPT: Final = """\
#!/{venv}/bin/python
import sys

from {module} import {function}

sys.exit({function}())
"""


def host_architecture() -> str:
    """Debian's name of this machine's architecture.

    Raises:
        BuildError: it is none that images are assembled on.
    """
    for name, machine in ARCHITECTURES.items():
        if machine == platform.machine():
            return name
    raise BuildError(
        f"images are assembled on {' or '.join(ARCHITECTURES.values())}, and this is {platform.machine()}"
    )


def base(folder: Path, architecture: str, *, exact: bool) -> None:
    """The layer that both images share: Debian with Python.

    Args:
        exact: whether every package must be as in the lock file.
    """
    packages = debian.fetch(debian.packages_of(BASE, architecture), exact=exact)
    debian.unpack(packages, folder, DEBIAN_WITHOUT)
    for name, text in _ACCOUNTS.items():
        _write(folder / name, text)
    for name in ("tmp", "var/tmp", "run", "proc", "sys", "dev", "root"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in BUSYBOX:
        _link(folder / "usr/bin" / name, "busybox")
    _link(folder / "usr/bin/python3", f"python{PYTHON}")
    write_bundle(folder)


def additional(
    definition: Definition, base_folder: Path, folder: Path, architecture: str, *, exact: bool
) -> None:
    """The layer of the packages that only this image has."""
    packages = debian.fetch(debian.packages_of(definition.name, architecture), exact=exact)
    debian.unpack(packages, folder, DEBIAN_WITHOUT)
    for path, target in definition.links:
        _link(folder / path, target.format(arch=architecture))
    write_java_store(base_folder, folder)


def wheels(definition: Definition, folder: Path, architecture: str, checkout: Path = CHECKOUT) -> None:
    """The layer of the Python packages that requirements.lock pins."""
    site = folder / SITE
    site.mkdir(parents=True)
    _write(folder / VENV / "pyvenv.cfg", _VENV_CONFIG)
    _link(folder / VENV / "bin/python", f"/usr/bin/python{PYTHON}")
    _link(folder / VENV / "bin/python3", "python")
    wanted = folder / "wanted.txt"
    wanted.write_text(requirements(definition, checkout))
    machine = f"{ARCHITECTURES[architecture]}-manylinux_2_36"  # Debian's libc
    _uv(
        *("pip", "install", "--quiet", "--no-deps", "--require-hashes", "--link-mode", "copy"),
        *(
            "--only-binary",
            ":all:",
            "--no-binary",
            "pyspark",
            "--build-constraints",
            str(checkout / "requirements.lock"),
        ),
        *("--python-platform", machine, "--python-version", PYTHON, "--target", str(site), "-r", str(wanted)),
    )
    wanted.unlink()
    _leave_out(site, WHEELS_WITHOUT)
    for record in site.glob("*.dist-info/RECORD"):
        # Start scripts, which are left out, contain paths of this machine, and so do their check sums.
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(sorted(line for line in lines if not line.startswith(("bin/", "../")))))
    for name in (".lock", "direct_url.json"):
        for path in [site / name, *site.glob(f"*.dist-info/{name}")]:
            path.unlink(missing_ok=True)
    link_copies(folder)


def jmx(folder: Path) -> None:
    """The layer of the JMX exporter, which preflight copies to Kafka's container.

    Raises:
        BuildError: what Maven fetched has another check sum.
    """
    ensure_programs("mvn", "java")
    say("fetching the JMX exporter with Maven")
    target = folder / JMX
    target.parent.mkdir(parents=True)
    options = (f"-Dartifact={JMX_ARTEFACT}", f"-DoutputDirectory={target.parent}", "-Dmdep.stripVersion=true")
    run("the JMX exporter", "mvn", "--batch-mode", "--quiet", "dependency:copy", *options, cwd=folder)
    (target.parent / f"{JMX_ARTEFACT.split(':')[1]}.jar").rename(target)
    if (found := digest_of(target)) != JMX_SHA256:
        raise BuildError(f"{JMX_ARTEFACT} has the SHA-256 {found}, and {JMX_SHA256} is expected")


def code(definition: Definition, folder: Path, checkout: Path = CHECKOUT, version: str = "") -> None:
    """The layer of Spindle's own code, the same for every architecture.

    Args:
        version: of the package; as in pyproject.toml if empty.
    """
    site = folder / SITE
    site.mkdir(parents=True)
    source = folder / "source"
    with zipfile.ZipFile(wheel(definition.sources, source, checkout, version)) as archive:
        archive.extractall(site)
    config = tomllib.loads((source / "pyproject.toml").read_text())
    shutil.rmtree(source)
    for name, entry in config["project"]["scripts"].items():
        module, _, function = entry.partition(":")
        if (site / module.partition(".")[0]).is_dir():
            script = folder / VENV / "bin" / name
            _write(script, _SCRIPT.format(venv=VENV, module=module, function=function))
            script.chmod(0o755)


def wheel(
    sources: Iterable[str], work: Path, checkout: Path = CHECKOUT, version: str = "", to: Path | None = None
) -> Path:
    """Build the Python package; the same sources give the same bytes.

    Args:
        sources: the folders with its code, relative to the checkout; those that are missing in the result are not in the package.
        work: a new folder, for a copy of the sources.
        version: of the package; as in pyproject.toml if empty.
        to: folder for the result; below `work` if not given.
    """
    work.mkdir(parents=True)
    config = (checkout / "pyproject.toml").read_text()
    if version:
        config = re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', config, count=1)
    (work / "pyproject.toml").write_text(config)
    for name in ("README.md", "LICENSE"):
        shutil.copyfile(checkout / name, work / name)
    for name in sources:
        shutil.copytree(checkout / name, work / name, ignore=shutil.ignore_patterns("__pycache__"))
    folder = work / "dist"
    _uv("build", "--quiet", "--wheel", "--no-build-isolation", "--out-dir", str(folder), str(work))
    (built,) = folder.glob("*.whl")
    return built if to is None else Path(shutil.move(built, to / built.name))


def requirements(definition: Definition, checkout: Path = CHECKOUT) -> str:
    """The part of requirements.lock that an image needs."""
    program = CHECKOUT / "operator" / "locked_requirements.py"
    files = (checkout / "pyproject.toml", checkout / "requirements.lock")
    return run("requirements.lock", sys.executable, program, *files, *definition.extras)


def compile_all(root: Path, folder: Path, below: str, kept: Path) -> None:
    """Write the compiled form of all Python files: containers cannot, and each start would spend seconds.

    Args:
        root: the shared layer for this machine. Its interpreter compiles, so that the result does not depend on this machine's.
        folder: of the layer.
        below: path in it.
        kept: folder of compiled forms, by path and content of their source: most are in several layers.
    """
    kept.mkdir(parents=True, exist_ok=True)
    found = {path: kept / _source_key(path, folder) for path in sorted((folder / below).rglob("*.py"))}
    missing = [path for path, known in found.items() if not known.exists()]
    listed = folder / "to-compile.txt"
    listed.write_text("".join(f"{path}\n" for path in missing))
    library = root / "usr/lib" / f"{platform.machine()}-linux-gnu"
    (loader,) = library.glob("ld-linux-*.so.*")
    command = (
        loader,
        "--library-path",
        f"{library}:{root / 'usr/lib'}",
        root / f"usr/bin/python{PYTHON}",
        "-s",
        "-S",
    )
    # No time stamps: the compiled form is always used. A random order of sets would be written down.
    options = ("-q", "-j", "1", "--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", "/")
    env = {"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0", "PYTHONPATH": ""}
    if missing:
        run("compiling Python files", *command, "-m", "compileall", *options, "-i", listed, env=env)
    listed.unlink()
    for path, known in found.items():
        compiled = path.parent / "__pycache__" / f"{path.stem}.cpython-{PYTHON.replace('.', '')}.pyc"
        if known.exists():
            compiled.parent.mkdir(exist_ok=True)
            shutil.copyfile(known, compiled)
        else:
            part = known.with_suffix(f".{os.getpid()}")  # another process may write the same
            shutil.copyfile(compiled, part)
            part.rename(known)


def _source_key(path: Path, folder: Path) -> str:
    """Name of a source's compiled form, which contains the path."""
    return hashlib.sha256(f"{path.relative_to(folder)}\0".encode() + path.read_bytes()).hexdigest()


def _leave_out(folder: Path, patterns: Sequence[str]) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink() or not path.is_dir():
            if any(fnmatch.fnmatchcase(str(path.relative_to(folder)), pattern) for pattern in patterns):
                path.unlink()
        elif not any(path.iterdir()):
            path.rmdir()


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.symlink_to(target)


def _uv(*arguments: str) -> None:
    program = Path(sys.executable).with_name("uv")
    run("Python packages", program, *arguments, "--python", sys.executable)
