"""Builds a disk from a tree of files. It starts by BIOS and by UEFI: MBR, GRUB, one ext4 partition, as compressed
qcow2. The partition for UEFI is in front of the ext4 partition (the first in the table), so that the latter can grow.

Nothing is mounted and no device is needed: mke2fs fills the file system from the tree, mtools the one for UEFI, and
GRUB's two boot sectors are written where its own installer would put them, so this works in a container as well.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.images import uefi
from worker.images.commands import BuildFailed, run

SECTOR_BYTES = 512
UEFI_OFFSET = 1024**2
"""Start of the partition for UEFI; the sectors between it and the boot record contain GRUB."""

ROOT_OFFSET = 16 * 1024**2
"""Start of the partition of the tree."""

GRUB_FOLDER = Path("/usr/lib/grub/i386-pc")
GRUB_MODULES = ["biosdisk", "part_msdos", "ext2", "normal", "configfile", "linux16", "serial", "terminal"]
GRUB_STUB_CONFIG = """\
set root=(hd0,msdos1)
configfile ($root)/boot/grub/grub.cfg
"""
GRUB_CONFIG = """\
# There is no menu: drawing one is slow where the processor is emulated. So are `linux` and `initrd`, which move the
# loaded kernel byte by byte to another place; these older commands put it where it stays.
serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
linux16 {kernel} root=LABEL={label} {options} console=tty0 console=ttyS0,115200
initrd16 {initrd}
boot
"""

BLOCK_BYTES = 4096
MAX_PARTITION_BYTES = 2 * 1024**4 - BLOCK_BYTES
"""The size to which an MBR partition can grow; the file system reserves space for tables of that size."""

MKE2FS_OPTIONS = f"-q -t ext4 -b {BLOCK_BYTES} -i 16384 -m 1 -O ^metadata_csum_seed,^orphan_file".split()
"""As for a large disk, although this one is small at first. GRUB 2.06 cannot read the features that are turned off."""

PARTITION_TABLE = f"""\
label: dos
start={ROOT_OFFSET // SECTOR_BYTES}, type=83, bootable
start={UEFI_OFFSET // SECTOR_BYTES}, size={(ROOT_OFFSET - UEFI_OFFSET) // SECTOR_BYTES}, type=ef
"""

REQUIRED_PROGRAMS = {
    **uefi.REQUIRED_PROGRAMS,
    "sfdisk": "fdisk",
    "mke2fs": "e2fsprogs",
    "grub-mkimage": "grub-common",
    str(GRUB_FOLDER / "boot.img"): "grub-pc-bin",
    "qemu-img": "qemu-utils",
}


def write_image(
    tree: Path,
    out: Path,
    *,
    signed: Path,
    size_mb: int,
    label: str,
    kernel: str,
    initrd: str,
    options: str,
    uefi_initrd: str = "",
):
    """After success `out` is a disk that starts the tree; a process that has an older `out` open keeps the older file.
    After failure `out` is unchanged. GRUB's configuration is added to the tree. `label` names the file system: the
    kernel finds its root by it, so images that may be in one machine at the same time (rescue) need different ones.
    `signed` has the boot loaders for UEFI; `uefi_initrd` is for systems with another initrd there."""
    grub = tree / "boot/grub"
    (grub / "x86_64-efi").mkdir(parents=True, exist_ok=True)
    values = {"kernel": kernel, "label": label, "options": options}
    (grub / "grub.cfg").write_text(GRUB_CONFIG.format(initrd=initrd, **values))
    (grub / "x86_64-efi/grub.cfg").write_text(uefi.GRUB_CONFIG.format(initrd=uefi_initrd or initrd, **values))
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        raw, packed = Path(work, "raw"), Path(work, "qcow2")
        raw.touch()
        os.truncate(raw, size_mb * 1024**2)
        run("sfdisk", "--quiet", raw, input=PARTITION_TABLE)
        layout = f"offset={ROOT_OFFSET},resize={MAX_PARTITION_BYTES // BLOCK_BYTES},root_owner=0:0,lazy_itable_init=1"
        blocks = (size_mb * 1024**2 - ROOT_OFFSET) // BLOCK_BYTES
        run("mke2fs", *MKE2FS_OPTIONS, "-L", label, "-E", layout, "-d", tree, raw, blocks)
        write_grub(raw, Path(work))
        write_uefi(raw, Path(work), signed)
        run("qemu-img", "convert", "-c", "-o", "compression_type=zstd", "-O", "qcow2", raw, packed)
        packed.chmod(0o644)
        os.replace(packed, out)


def write_uefi(raw: Path, work: Path, signed: Path):
    image = work / "efi"
    uefi.write_partition(signed, image, ROOT_OFFSET - UEFI_OFFSET)
    with raw.open("r+b") as disk:
        disk.seek(UEFI_OFFSET)
        disk.write(image.read_bytes())


def write_grub(raw: Path, work: Path):
    """Write GRUB's boot code to the boot record (the partition table behind it stays) and its core to the sectors after
    it."""
    stub_config, core = work / "first.cfg", work / "core.img"
    stub_config.write_text(GRUB_STUB_CONFIG)
    run("grub-mkimage", "-O", "i386-pc", "-p", "/boot/grub", "-c", stub_config, "-o", core, *GRUB_MODULES)
    if core.stat().st_size > UEFI_OFFSET - SECTOR_BYTES:
        raise BuildFailed("GRUB does not fit in front of the first partition.")
    with raw.open("r+b") as disk:
        disk.write((GRUB_FOLDER / "boot.img").read_bytes()[:440])
        disk.seek(SECTOR_BYTES)
        disk.write(core.read_bytes())
