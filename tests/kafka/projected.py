"""A ConfigMap as the kubelet mounts it."""

from pathlib import Path


def project(folder: Path, key: str, text: str) -> None:
    """Put a file into a mounted ConfigMap, or change it: a new folder, and a link to it that replaces the one before."""
    fresh = folder / f"..{len(list(folder.glob('..*')))}"
    fresh.mkdir(parents=True)
    (fresh / key).write_text(text)
    (folder / "..data.new").symlink_to(fresh.name)
    (folder / "..data.new").replace(folder / "..data")
    if not (folder / key).is_symlink():
        (folder / key).symlink_to(Path("..data") / key)
