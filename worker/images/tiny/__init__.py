"""The tiny guest: a Linux that starts in seconds and has what a panel needs of a guest.

Debian's cloud kernel, busybox, dropbear, the QEMU guest agent and nothing else; for demonstrations, tests, rescue and
small machines. It is configured by a NoCloud seed (volume label `cidata`) whose three files are **JSON**: `meta-data`,
`network-config` (version 2) and `user-data`, the latter with the line `#cloud-config` before the JSON, or a script
beginning with `#!`. JSON is also YAML, so the same seed works for cloud-init. Characters beyond the basic plane must
not be escaped (`ensure_ascii=False`): YAML has no surrogate pairs.

Of #cloud-config it supports hostname, timezone, write_files, ssh_authorized_keys, users, password, chpasswd,
ssh_pwauth, disable_root and runcmd; /var/log/seed.log lists what it ignored. Its default user is root, who may sign in
with a password over ssh only where `ssh_pwauth` allows it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from worker.images import commands, disk, packages, uefi
from worker.images.image_file import BuiltImage, describe_image
from worker.images.tiny import boot, tree

IMAGE_PACKAGES = [
    *("base-files", "busybox-static", "dropbear-bin", "e2fsprogs", "jq"),
    *("linux-image-cloud-amd64", "qemu-guest-agent", "tzdata", "util-linux"),
]
SIZE_MB = 256


def list_missing() -> list[str]:
    """Return a sentence for each thing that this host lacks to build the image."""
    return commands.list_missing({**packages.REQUIRED_PROGRAMS, **boot.REQUIRED_PROGRAMS, **disk.REQUIRED_PROGRAMS})


def build(out: Path, *, cache: Path, log=print) -> BuiltImage:
    """Write the image. After failure (`BuildFailed`) an older file at `out` is unchanged."""
    unpacked = packages.unpack(IMAGE_PACKAGES, cache=cache, prepare=boot.index_modules, log=log)
    signed = uefi.fetch_loaders(cache, log)
    with TemporaryDirectory(dir=cache, prefix=".tiny-") as work:
        root = Path(work, "root")
        tree.build_tree(unpacked, root)
        boot.install(unpacked, root)
        log(f"Writing {out.name} …")
        disk.write_image(
            root,
            out,
            signed=signed,
            size_mb=SIZE_MB,
            label="tiny",
            kernel="/boot/vmlinuz",
            initrd="/boot/initrd",
            uefi_initrd="/boot/initrd-signed",
            options="rw quiet cryptomgr.notests no_timer_check net.ifnames=0 panic=10",
        )
    return describe_image(
        out,
        name="tiny",
        label="Debian 12 tiny",
        distro="debian",
        release=packages.DEBIAN_SUITE,
        version="12",
        publisher_version=(unpacked / "etc/debian_version").read_text().strip(),
        min_disk_gb=1,
        min_memory_mb=192,
        cloudinit=True,
        secure_boot=True,
    )
