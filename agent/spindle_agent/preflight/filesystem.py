"""Properties of a mounted file system that can be read without privileges: UUID, mount, size."""

import array
import errno
import fcntl
import os
import re
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# ioctl requests and layouts from Linux's uapi headers (fs.h, xfs_fs.h, ext4.h, btrfs.h).
_FS_IOC_GETFSUUID: Final = 0x80111500  # struct fsuuid2 {u8 len; u8 uuid[16]}; from Linux 6.9
_XFS_IOC_FSGEOMETRY_V1: Final = 0x80705864  # 112 bytes, the UUID at 64
_EXT4_IOC_GETFSUUID: Final = 0x8008662C  # struct fsuuid {u32 len; u32 flags; u8 uuid[len]}; from Linux 6.0
_BTRFS_IOC_FS_INFO: Final = 0x8400941F  # 1024 bytes, the UUID at 16
_UUID_BYTES: Final = 16
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo.

    Attributes:
        id: id of this mount; a later mount at the same path has a different id.
        device: ``major:minor`` of the file system.
    """

    id: int
    device: str
    path: str
    root: str
    fs_type: str
    source: str


def fs_uuid(fd: int) -> str | None:
    """UUID of the file system of an open folder.

    If the kernel reports none, its fsid is used (``fsid-…``, on ext4 derived from the UUID); None if there is neither.
    """
    for request, size, offset, prepare in (
        (_FS_IOC_GETFSUUID, 17, 1, b""),
        (_XFS_IOC_FSGEOMETRY_V1, 112, 64, b""),
        (_EXT4_IOC_GETFSUUID, 24, 8, struct.pack("=II", _UUID_BYTES, 0)),
        (_BTRFS_IOC_FS_INFO, 1024, 16, b""),
    ):
        buffer = array.array("B", prepare.ljust(size, b"\0"))
        try:
            fcntl.ioctl(fd, request, buffer)
        except OSError as error:
            if error.errno == errno.EIO:
                raise
            continue
        raw = buffer.tobytes()[offset : offset + _UUID_BYTES]
        if any(raw):
            return str(uuid.UUID(bytes=raw))
    fsid = os.fstatvfs(fd).f_fsid
    return f"fsid-{fsid & (2**64 - 1):016x}" if fsid else None


def mount_at(path: str, mountinfo: str = "/proc/self/mountinfo") -> Mount | None:
    """The topmost mount whose mount point is exactly this path."""
    found = None
    for line in Path(mountinfo).read_text().splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        if len(fields) > 4 and len(tail) > 1 and _plain(fields[4]) == path:
            found = Mount(
                id=int(fields[0]),
                device=fields[2],
                path=path,
                root=_plain(fields[3]),
                fs_type=tail[0],
                source=_plain(tail[1]),
            )
    return found


def device_number(device: int) -> str:
    """``major:minor`` as in lsblk."""
    return f"{os.major(device)}:{os.minor(device)}"


def _plain(text: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
