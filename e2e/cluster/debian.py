"""System programs that the testbed needs; on Debian and derivatives, missing ones are installed."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from e2e.cluster.console import say

# Folders that are not on every user's PATH.
_PATH: Final = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"

# Programs that are not installed automatically, with a note on each.
_BY_HAND: Final = {
    "go": "1.26 or later",
    "kube-router": "2.9 or later; only needed to enforce NetworkPolicies on the testbed",
}
# Program -> Debian packages.
_PACKAGES: Final = {
    "buildah": "buildah",
    "chromium": "chromium",
    "containerd": "containerd",
    "conntrack": "conntrack",
    "debootstrap": "debootstrap",
    "etcd": "etcd-server",
    "gcc": "gcc libc6-dev",
    "ip": "iproute2",
    "ipset": "ipset",
    "iptables": "iptables",
    "java": "openjdk-17-jre-headless",
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mvn": "maven",
    "nft": "nftables",
    "nsenter": "util-linux",
    "runc": "runc",
}
# Packages without a program on the PATH: a file that shows that they are installed.
_FILES: Final = {
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1": "libfaketime",
}


class MissingProgramError(RuntimeError):
    """A program is missing and cannot be installed here; the message says which one and what to do."""


def which(program: str) -> str | None:
    """Full path of a program, including folders that are only on an administrator's PATH."""
    return shutil.which(program, path=_PATH)


def ensure_programs(*programs: str) -> None:
    """Install the packages of those programs that are missing.

    Raises:
        MissingProgramError: one cannot be installed.
    """
    missing = [program for program in programs if not which(program)]
    by_hand = [f"{program} ({_BY_HAND[program]})" for program in missing if program in _BY_HAND]
    if by_hand:
        raise MissingProgramError(f"please install {', '.join(by_hand)} and put it on the PATH")
    _install(sorted({package for program in missing for package in _PACKAGES[program].split()}))


def ensure_cni_plugins() -> None:
    """Install the network plugins of containers."""
    _ensure_packages("containernetworking-plugins")


def ensure_faketime() -> Path:
    """Install the library that shifts a program's clock; returns its path."""
    _ensure_packages("libfaketime")
    return next(Path(file) for file, package in _FILES.items() if package == "libfaketime")


def unpack(packages: Sequence[str], folder: Path) -> None:
    """Unpack packages into a folder without installing them: nothing is configured, and no service of theirs is started.

    Raises:
        MissingProgramError: they cannot be fetched.
    """
    fetched = folder / "packages"
    fetched.mkdir()
    if os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
    done = subprocess.run(
        ["apt-get", "download", *packages], cwd=fetched, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise MissingProgramError(f"apt-get download {' '.join(packages)} failed:\n{done.stderr[-2000:]}")
    for package in sorted(fetched.glob("*.deb")):
        subprocess.run(["dpkg-deb", "--extract", package, folder], check=True)
    shutil.rmtree(fetched)


def _ensure_packages(*packages: str) -> None:
    """Install those packages whose file is missing."""
    _install([package for file, package in _FILES.items() if package in packages and not Path(file).exists()])


def _install(packages: list[str]) -> None:
    if not packages:
        return
    if os.geteuid() != 0 or not which("apt-get"):
        raise MissingProgramError(f"please install these packages (named as in Debian): {' '.join(packages)}")
    say(f"installing {' '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", *arguments], env=env, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MissingProgramError(f"apt-get {arguments[0]} failed:\n{done.stderr[-2000:]}")
