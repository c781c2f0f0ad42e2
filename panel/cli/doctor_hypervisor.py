"""What `panel doctor` says of the local hypervisor: how far QEMU is confined, and who can read its storage."""

import stat
from pathlib import Path

from worker.nodes.libvirt import confinement

MAX_SHOWN_PATHS = 3
"""How many files with wrong modes a sentence names."""


def inspect_hypervisor(directory: Path) -> tuple[list[str], list[str]]:
    """What holds, and what is wrong with how to mend it."""
    if not (directory / "etc").exists():
        return ["not started yet"], []
    holds, wrong = confinement_report(directory)
    return holds, [*wrong, *storage_errors(directory)]


def confinement_report(directory: Path) -> tuple[list[str], list[str]]:
    """A missing security driver is reported but not wrong: many kernels have none."""
    found = confinement.find_saved_confinement(directory)
    if found is None:
        return ["not started since the last start of this machine (run: panel setup)"], []
    holds, wrong = [], []
    if found.user == "root":
        wrong.append(
            "QEMU runs as root. Install libvirt-daemon-system (which makes the user libvirt-qemu), then run: "
            "panel node stop && panel setup"
        )
    else:
        holds.append(f"QEMU runs as {found.user}")
    if found.namespaces:
        holds.append("each machine has a mount namespace")
    else:
        holds.append("no mount namespaces (give the panel's container CAP_SYS_ADMIN and CAP_MKNOD)")
    holds.append(describe_security_driver(found))
    return holds, wrong


def describe_security_driver(found: confinement.Confinement) -> str:
    if found.security_driver != "none":
        return f"confined by {found.security_driver}"
    if module := confinement.security_module():
        return f"no security driver (libvirt cannot use this machine's {module}: load the profile of libvirtd)"
    return "no security driver (this kernel has neither AppArmor nor SELinux: start one that has)"


def storage_errors(directory: Path) -> list[str]:
    """Who but root and QEMU's user can read disks, or could replace them."""
    user = confinement.find_user()
    owners = {0} | ({user.uid} if user else set())
    faults = []
    for path in confinement.storage_paths(directory):
        if path.stat().st_mode & (stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH):
            faults.append(f"Others may list or change {path}. Run: chmod 711 {path}")
    readable = [file for file in list_volume_files(directory) if file.stat().st_mode & 0o077]
    foreign = [file for file in list_volume_files(directory) if file.stat().st_uid not in owners]
    if readable:
        faults.append(f"Others may read {join_names(readable)}. Run: chmod 600 on them.")
    if foreign:
        faults.append(f"{join_names(foreign)} belong to somebody else. Run: chown root:root on them.")
    return faults


def list_volume_files(directory: Path) -> list[Path]:
    """The files of all pools."""
    return [file for pool in list_pool_directories(directory) for file in sorted(pool.iterdir()) if file.is_file()]


def list_pool_directories(directory: Path) -> list[Path]:
    return [path for path in confinement.pool_paths(directory) if path.is_dir()]


def join_names(files: list[Path]) -> str:
    more = f" and {len(files) - MAX_SHOWN_PATHS} more" if len(files) > MAX_SHOWN_PATHS else ""
    return ", ".join(map(str, files[:MAX_SHOWN_PATHS])) + more
