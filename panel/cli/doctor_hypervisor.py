"""Checks of the local hypervisor for `panel doctor`: the confinement of QEMU, and the rights to its storage."""

import stat
from pathlib import Path

from worker.nodes.libvirt import confinement

KERNEL_FILE_SUFFIXES = {".kernel", ".initrd"}
MAX_LISTED_PATHS = 3
"""The most files that one message names."""


def inspect_hypervisor(directory: Path) -> tuple[list[str], list[str]]:
    """Return (facts, problems with their remedies) of the hypervisor in the directory."""
    if not (directory / "etc").exists():
        return ["not started yet"], []
    facts, problems = build_confinement_report(directory)
    return facts, [*problems, *find_storage_errors(directory)]


def build_confinement_report(directory: Path) -> tuple[list[str], list[str]]:
    """Return (facts, problems) of QEMU's confinement. A missing security driver is only a fact, because many kernels
    have none."""
    saved = confinement.find_saved_confinement(directory)
    if saved is None:
        return ["not started since this machine booted (run: panel setup)"], []
    facts, problems = [], []
    if saved.user == "root":
        problems.append(
            "QEMU runs as root. Install libvirt-daemon-system (it creates the user libvirt-qemu), then run: "
            "panel node stop && panel setup"
        )
    else:
        facts.append(f"QEMU runs as {saved.user}")
    if saved.namespaces:
        facts.append("each machine has a mount namespace")
    else:
        facts.append("no mount namespaces (give the panel's container CAP_SYS_ADMIN and CAP_MKNOD)")
    facts.append(describe_security_driver(saved))
    return facts, problems


def describe_security_driver(saved: confinement.Confinement) -> str:
    if saved.security_driver != "none":
        return f"confined by {saved.security_driver}"
    if module := confinement.find_security_module():
        return f"no security driver (libvirt cannot use this machine's {module}: load the profile of libvirtd)"
    return "no security driver (this kernel has neither AppArmor nor SELinux: boot a kernel that has one)"


def find_storage_errors(directory: Path) -> list[str]:
    """Return a message for every right to read or replace disks that others than root and QEMU's user have."""
    user = confinement.find_user()
    owners = {0} | ({user.uid} if user else set())
    problems = []
    for path in confinement.list_storage_paths(directory):
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
            problems.append(f"Other users can list or change {path}. Run: chmod 711 {path}")
    readable = [file for file in list_volume_files(directory) if file.stat().st_mode & get_refused_mode(file)]
    foreign = [file for file in list_volume_files(directory) if file.stat().st_uid not in owners]
    if readable:
        problems.append(f"Other users can read {join_names(readable)}. Run chmod 600 on them.")
    if foreign:
        problems.append(f"{join_names(foreign)} have another owner. Run chown root:root on them.")
    return problems


def get_refused_mode(file: Path) -> int:
    """Return the permissions that nobody but the file's owner may have. Machines share the files of kernels, which are
    not secret."""
    return 0o022 if file.suffix in KERNEL_FILE_SUFFIXES else 0o077


def list_volume_files(directory: Path) -> list[Path]:
    """Return the files of all pools."""
    return [file for pool in list_pool_directories(directory) for file in sorted(pool.iterdir()) if file.is_file()]


def list_pool_directories(directory: Path) -> list[Path]:
    return [path for path in confinement.list_pool_paths(directory) if path.is_dir()]


def join_names(files: list[Path]) -> str:
    suffix = f" and {len(files) - MAX_LISTED_PATHS} more" if len(files) > MAX_LISTED_PATHS else ""
    return ", ".join(map(str, files[:MAX_LISTED_PATHS])) + suffix
