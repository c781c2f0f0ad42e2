"""The root file system of the tiny guest: a few programs, the libraries they load, and the panel's own files."""

import os
import re
import shutil
from pathlib import Path

from worker.images import rootfs_overlay
from worker.images.commands import run

OVERLAY = Path(__file__).parent / "overlay"
DIRECTORIES = [
    "boot",
    "dev",
    "etc",
    "mnt",
    "proc",
    "root",
    "run",
    "sys",
    "tmp",
    "usr/bin",
    "usr/lib",
    "usr/lib64",
    "usr/sbin",
    "var/lib",
    "var/log",
]
MODES = {"root": 0o700, "tmp": 0o1777, "etc/shadow": 0o600}

BUSYBOX = "bin/busybox"
LOADER = "lib64/ld-linux-x86-64.so.2"
LIBRARIES = "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"
PROGRAMS = [
    "usr/sbin/dropbear",
    "usr/bin/dropbearkey",
    "usr/sbin/qemu-ga",
    "usr/bin/jq",
    "usr/bin/flock",
    "usr/bin/resizepart",
    "sbin/resize2fs",
    "sbin/e2fsck",
    "sbin/mke2fs",
]
RESOLVERS = [f"{LIBRARIES[0]}/{name}" for name in ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")]
"""Loaded by name at run time, so no program lists them."""

ZONES = "usr/share/zoneinfo"
EXCLUDED_APPLETS = ["dpkg", "dpkg-deb", "rpm", "rpm2cpio"]
"""Parts of busybox that would suggest that this is an ordinary Debian."""


def build_tree(packages: Path, tree: Path):
    """Fill `tree` from unpacked packages."""
    for directory in DIRECTORIES:
        (tree / directory).mkdir(parents=True)
    for directory in ("bin", "lib", "lib64", "sbin"):
        (tree / directory).symlink_to(f"usr/{directory}")
    for program in (BUSYBOX, LOADER, *PROGRAMS, *RESOLVERS):
        copy_program(packages, program, tree)
    for applet in run(packages / BUSYBOX, "--list-full").split():
        link = tree / applet
        if link.name not in EXCLUDED_APPLETS and not link.exists() and link.parent != tree:
            link.symlink_to("/usr/bin/busybox")
    shutil.copytree(
        packages / ZONES, tree / ZONES, symlinks=True, ignore=shutil.ignore_patterns("posix", "right", "*.*", "leap*")
    )
    shutil.copy(packages / "usr/lib/os-release", tree / "etc")
    rootfs_overlay.copy_overlay(OVERLAY, tree)
    for path, mode in MODES.items():
        (tree / path).chmod(mode)


def copy_program(packages: Path, program: str, tree: Path):
    """Copy a program and the libraries that the loader would load for it."""
    files = [program]
    if program not in (BUSYBOX, LOADER):
        search = os.pathsep.join(str(packages / directory) for directory in LIBRARIES)
        listing = run(packages / LOADER, "--library-path", search, "--list", packages / program)
        files += re.findall(rf"=> {re.escape(str(packages))}/(\S+)", listing)
    for file in files:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(packages / file, tree / file)
