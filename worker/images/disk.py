"""From a tree of files to a disk that starts by BIOS and by UEFI: MBR, GRUB, one ext4 partition, packed as qcow2. In
front of it lies a partition for UEFI, so that the other one, which is the first in the table, can grow.

Nothing is mounted and no device is needed: mke2fs fills the file system from the tree, mtools the one for UEFI, and
GRUB's two boot sectors are written where its own installer would put them, so this works in a container as well.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.images import uefi
from worker.images.commands import BuildFailed, run

SECTOR = 512
UEFI_OFFSET = 1024**2
"""The partition for UEFI starts here; the sectors between it and the boot record hold GRUB."""

ROOT_OFFSET = 16 * 1024**2
"""The partition of the tree starts here."""

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
"""What a partition of this kind can grow to; the file system has room for the tables of that size."""

MKE2FS_OPTIONS = f"-q -t ext4 -b {BLOCK_BYTES} -i 16384 -m 1 -O ^metadata_csum_seed,^orphan_file".split()
"""As for a large disk, although this one begins small. GRUB 2.06 cannot read the features that are turned off."""

PARTITION_TABLE = f"""\
label: dos
start={ROOT_OFFSET // SECTOR}, type=83, bootable
start={UEFI_OFFSET // SECTOR}, size={(ROOT_OFFSET - UEFI_OFFSET) // SECTOR}, type=ef
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
    """After success `out` is a disk that starts the tree; whoever has an older `out` open keeps the older one. After
    failure nothing new is at `out`. GRUB's configuration is added to the tree. `label` names the file system: the
    kernel finds its root by it, so images that may meet in one machine (rescue) have different ones. `signed` holds the
    boot loaders for UEFI; `uefi_initrd` is for systems that have another one there."""
    grub = tree / "boot/grub"
    (grub / "x86_64-efi").mkdir(parents=True, exist_ok=True)
    words = {"kernel": kernel, "label": label, "options": options}
    (grub / "grub.cfg").write_text(GRUB_CONFIG.format(initrd=initrd, **words))
    (grub / "x86_64-efi/grub.cfg").write_text(uefi.GRUB_CONFIG.format(initrd=uefi_initrd or initrd, **words))
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
    """GRUB's boot code in the boot record (the partition table behind it stays) and its core in the sectors after."""
    first, core = work / "first.cfg", work / "core.img"
    first.write_text(GRUB_STUB_CONFIG)
    run("grub-mkimage", "-O", "i386-pc", "-p", "/boot/grub", "-c", first, "-o", core, *GRUB_MODULES)
    if core.stat().st_size > UEFI_OFFSET - SECTOR:
        raise BuildFailed("GRUB does not fit in front of the first partition.")
    with raw.open("r+b") as disk:
        disk.write((GRUB_FOLDER / "boot.img").read_bytes()[:440])
        disk.seek(SECTOR)
        disk.write(core.read_bytes())
