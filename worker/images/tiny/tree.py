"""The root file system of the tiny guest: a few programs, the libraries they load, and the panel's own files."""

import os
import re
import shutil
from pathlib import Path

from worker.images import rootfs_overlay
from worker.images.commands import run

OVERLAY_FOLDER = Path(__file__).parent / "overlay"
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
FILE_MODES = {"root": 0o700, "tmp": 0o1777, "etc/shadow": 0o600}

BUSYBOX_PATH = "bin/busybox"
LOADER_PATH = "lib64/ld-linux-x86-64.so.2"
LIBRARY_FOLDERS = "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"
PROGRAM_PATHS = [
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
RESOLVER_PATHS = [f"{LIBRARY_FOLDERS[0]}/{name}" for name in ("libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2")]
"""Loaded by name at run time, so no program lists them."""

TIME_ZONES_FOLDER = "usr/share/zoneinfo"
EXCLUDED_APPLETS = ["dpkg", "dpkg-deb", "rpm", "rpm2cpio"]
"""Parts of busybox that would suggest that this is an ordinary Debian."""


def build_tree(packages: Path, tree: Path):
    """Fill `tree` from unpacked packages."""
    for directory in DIRECTORIES:
        (tree / directory).mkdir(parents=True)
    for directory in ("bin", "lib", "lib64", "sbin"):
        (tree / directory).symlink_to(f"usr/{directory}")
    for program in (BUSYBOX_PATH, LOADER_PATH, *PROGRAM_PATHS, *RESOLVER_PATHS):
        copy_program(packages, program, tree)
    for applet in run(packages / BUSYBOX_PATH, "--list-full").split():
        link = tree / applet
        if link.name not in EXCLUDED_APPLETS and not link.exists() and link.parent != tree:
            link.symlink_to("/usr/bin/busybox")
    shutil.copytree(
        packages / TIME_ZONES_FOLDER,
        tree / TIME_ZONES_FOLDER,
        symlinks=True,
        ignore=shutil.ignore_patterns("posix", "right", "*.*", "leap*"),
    )
    shutil.copy(packages / "usr/lib/os-release", tree / "etc")
    rootfs_overlay.copy_overlay(OVERLAY_FOLDER, tree)
    for path, mode in FILE_MODES.items():
        (tree / path).chmod(mode)


def copy_program(packages: Path, program: str, tree: Path):
    """Copy a program and the libraries that the loader would load for it."""
    files = [program]
    if program not in (BUSYBOX_PATH, LOADER_PATH):
        search = os.pathsep.join(str(packages / directory) for directory in LIBRARY_FOLDERS)
        listing = run(packages / LOADER_PATH, "--library-path", search, "--list", packages / program)
        files += re.findall(rf"=> {re.escape(str(packages))}/(\S+)", listing)
    for file in files:
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(packages / file, tree / file)
