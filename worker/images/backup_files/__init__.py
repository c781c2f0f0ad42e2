"""The image of the machine that reads the files of backups: a sandbox's system with another program, and the drivers of
more file systems. It gets no network."""

from pathlib import Path

from worker.images import sandbox, sandbox_builder
from worker.images.sandbox_builder import SandboxImage, list_missing

__all__ = ["build", "list_missing"]

IMAGE_PACKAGES = [*sandbox.IMAGE_PACKAGES, "lvm2", "mount", "ntfs-3g", "util-linux"]
KERNEL_MODULES = [
    *("xfs", "btrfs", "vfat", "exfat", "isofs", "fuse", "dm_mod"),
    *("nls_cp437", "nls_ascii", "nls_utf8"),
]
GUEST_PACKAGE = Path(__file__).parents[2] / "backup_guest"


def build(out: Path, *, cache: Path, log=print, guest_package: Path = GUEST_PACKAGE) -> SandboxImage:
    """Write the image. After failure (`BuildFailed`) an older file at `out` is unchanged."""
    return sandbox_builder.build(
        out,
        IMAGE_PACKAGES,
        cache=cache,
        log=log,
        guest_package=guest_package,
        name="backup-files",
        label="Reader of files in backups",
        size_mb=320,
        min_memory_mb=256,
        overlay=Path(__file__).parent / "overlay",
        modules=KERNEL_MODULES,
    )
