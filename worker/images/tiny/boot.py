"""The kernel of the tiny guest, the few modules it needs, and the initial file system that finds the root."""

import gzip
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.images.commands import run

DISK_MODULES = ["virtio_pci", "virtio_blk", "virtio_scsi", "ata_piix", "sd_mod", "sr_mod"]
"""Needed before there is a root file system. The optical drive of the seed is slow to answer, so its driver loads
early."""

KERNEL_MODULES = [
    *DISK_MODULES,
    *("virtio_net", "virtio_console", "virtio_balloon", "virtio_rng", "button", "evdev"),
    *("isofs", "vfat", "nls_cp437", "nls_iso8859_1", "nls_utf8", "overlay"),
    *("8021q", "bridge", "dummy", "tun", "veth", "vxlan", "wireguard"),
    *("nf_tables", "nft_ct", "nft_masq", "nft_nat", "nft_redir", "nft_reject_inet", "nft_chain_nat"),
]
INIT_SCRIPT = Path(__file__).parent / "initramfs/init"
INIT_APPLETS = ["cat", "dd", "modprobe", "mount", "sh", "sort", "switch_root", "usleep"]
REQUIRED_PROGRAMS = {"depmod": "kmod", "modprobe": "kmod", "cpio": "cpio"}
SIGNED_MODULES_FOLDER = "usr/lib/signed"
"""The guest's modules below this folder are used when it starts by UEFI."""

SIGNATURE_MARK = b"~Module signature appended~\n"
SIGNATURE_INFO_BYTES = 12
"""Bytes between a signature and the mark at the end; the last four are the signature's length."""

MODULE_TABLES = "modules.builtin", "modules.builtin.modinfo", "modules.order"


def index_modules(packages: Path):
    """Write the index from which `modprobe` computes the dependencies of the unpacked kernel's modules."""
    run("depmod", "-b", packages, find_kernel_version(packages))


def find_kernel_version(packages: Path) -> str:
    return next((packages / "lib/modules").iterdir()).name


def install(packages: Path, tree: Path):
    """Copy the kernel, its modules and the initial file system into `tree`; the latter two also with Debian's
    signatures, because a machine with secure boot accepts no others."""
    version = find_kernel_version(packages)
    shutil.copy(packages / f"boot/vmlinuz-{version}", tree / "boot/vmlinuz")
    copy_modules(KERNEL_MODULES, packages, tree, version, strip_signature)
    copy_modules(KERNEL_MODULES, packages, tree / SIGNED_MODULES_FOLDER, version, bytes)
    for name, convert in (("initrd", strip_signature), ("initrd-signed", bytes)):
        (tree / "boot" / name).write_bytes(gzip.compress(build_initrd(packages, tree.parent, version, convert)))


def build_initrd(packages: Path, folder: Path, version: str, convert) -> bytes:
    """Return the archive with which the kernel finds the root."""
    with TemporaryDirectory(dir=folder, prefix="initial-") as work:
        initial = Path(work, "initial")
        for directory in ("bin", "dev", "proc", "root", "sys"):
            (initial / directory).mkdir(parents=True)
        shutil.copy(packages / "bin/busybox", initial / "bin")
        for applet in INIT_APPLETS:
            (initial / "bin" / applet).symlink_to("busybox")
        shutil.copy(INIT_SCRIPT, initial)
        (initial / "init").chmod(0o755)
        copy_modules(DISK_MODULES, packages, initial, version, convert)
        return write_archive(initial, Path(work, "cpio")).read_bytes()


def write_archive(tree: Path, archive: Path) -> Path:
    """Write the tree as an archive in the format that the kernel unpacks, owned by root."""
    names = sorted(str(path.relative_to(tree)) for path in tree.rglob("*"))
    options = "--create", "--format=newc", "--owner=0:0", "--reproducible", "--quiet"
    run("cpio", *options, f"--file={archive}", cwd=tree, input="\n".join(names))
    return archive


def copy_modules(names: list[str], tree: Path, target: Path, version: str, convert):
    """Copy these modules, their dependencies, and the tables by which `modprobe` finds them. `convert` is applied to
    the bytes of each module."""
    listing = run("modprobe", "-d", tree, "-S", version, "--all", "--show-depends", *names)
    files = {line.split()[1] for line in listing.splitlines() if line.startswith("insmod ")}
    files |= {str(tree / "lib/modules" / version / table) for table in MODULE_TABLES}
    for file in files:
        copy = target / Path(file).relative_to(tree)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(convert(Path(file).read_bytes()))
    run("depmod", "-b", target, version)


def strip_signature(module: bytes) -> bytes:
    """Return the module without Debian's signature at its end. A kernel loads a module without one at once; checking
    one costs 20 ms under emulation, half a second in all. (Only root can put a module into the guest either way; secure
    boot does require signatures.)"""
    if not module.endswith(SIGNATURE_MARK):
        return module
    length = int.from_bytes(module[-len(SIGNATURE_MARK) - 4 : -len(SIGNATURE_MARK)])
    return module[: -len(SIGNATURE_MARK) - SIGNATURE_INFO_BYTES - length]
