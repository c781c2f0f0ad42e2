"""The image of a small sandbox: bash, Python with its standard library, and the program that serves the sandbox.

A node starts it as a micro VM (`worker.nodes.base.Machine.kernel`), so it has no boot loader: the disk is one ext4 file
system, and the kernel and the initial file system are two files beside it. The same packages and files give the same
bytes. It has no cloud-init: who creates a sandbox gives it name, network and keys through the guest agent.
"""

from pathlib import Path

from worker.images import sandbox_builder
from worker.images.sandbox_builder import SandboxImage, list_missing

__all__ = ["build", "list_missing"]

IMAGE_PACKAGES = [
    *("base-files", "base-passwd", "bash", "busybox-static", "ca-certificates", "e2fsprogs"),
    "libc-bin",  # has the locale C.UTF-8, which the SDKs choose for terminals
    *("linux-image-cloud-amd64", "python3", "qemu-guest-agent", "sudo"),
]


def build(out: Path, *, cache: Path, log=print, guest_package: Path = sandbox_builder.GUEST_PACKAGE) -> SandboxImage:
    """Write the image. After failure (`BuildFailed`) an older file at `out` is unchanged."""
    return sandbox_builder.build(
        out,
        IMAGE_PACKAGES,
        cache=cache,
        log=log,
        guest_package=guest_package,
        name="sandbox",
        label="Sandbox",
        size_mb=256,
        min_memory_mb=192,
    )
