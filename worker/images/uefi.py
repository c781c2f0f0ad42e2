"""Starting an image by UEFI, also with secure boot.

A small FAT partition contains Debian's boot loaders. Microsoft signed shim, which every firmware with secure boot
accepts; shim contains Debian's key, and so accepts GRUB and Debian's kernels. Each change would need new signatures, so
the loaders are Debian's own bytes, and only GRUB's configuration is the panel's.
"""

import os
from pathlib import Path

from worker.images import packages
from worker.images.commands import run

LOADER_PACKAGES = ["grub-efi-amd64-signed", "shim-signed"]
SHIM_FILE, GRUB_FILE = "usr/lib/shim/shimx64.efi.signed", "usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"
PARTITION_LABEL = "EFI"
GRUB_STUB_CONFIG = """\
regexp --set=1:disk '^.([^,]*),' "$cmdpath"
set root=($disk,msdos1)
configfile ($root)/boot/grub/x86_64-efi/grub.cfg
"""
"""Uses the file system on the same disk as this partition: another disk of the machine may have the same label."""

GRUB_CONFIG = """\
linux {kernel} root=LABEL={label} {options} console=tty0 console=ttyS0,115200
initrd {initrd}
boot
"""
REQUIRED_PROGRAMS = {"mformat": "mtools", "mmd": "mtools", "mcopy": "mtools"}


def fetch_loaders(cache: Path, log) -> Path:
    """Return a directory with Debian's signed boot loaders. Raises `BuildFailed`."""
    return packages.unpack(LOADER_PACKAGES, cache=cache, prepare=keep_loaders, log=log)


def keep_loaders(tree: Path):
    """Delete everything but the loaders."""
    for path in sorted(tree.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif str(path.relative_to(tree)) not in (SHIM_FILE, GRUB_FILE):
            path.unlink()


def write_partition(signed: Path, image: Path, size: int):
    """Write the file system, of `size` bytes, from which the firmware starts the loaders."""
    stub_config = image.with_suffix(".cfg")
    stub_config.write_text(GRUB_STUB_CONFIG)
    image.touch()
    os.truncate(image, size)
    run("mformat", "-i", image, "-v", PARTITION_LABEL, "::")
    run("mmd", "-i", image, "::/EFI", "::/EFI/BOOT", "::/EFI/debian")
    for source, target in (
        (signed / SHIM_FILE, "BOOT/BOOTX64.EFI"),
        (signed / GRUB_FILE, "BOOT/grubx64.efi"),
        (stub_config, "debian/grub.cfg"),
    ):
        run("mcopy", "-i", image, source, f"::/EFI/{target}")
