"""From a tree of files to a disk that starts: MBR, GRUB, one ext4 partition, packed as qcow2.

Nothing is mounted and no device is needed: mke2fs fills the file system from the tree, and GRUB's two boot sectors are
written where its own installer would put them, so this works in a container as well.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.guests.programs import BuildFailed, run

SECTOR = 512
FIRST_MIB = 1024**2
"""The partition starts here; the sectors between it and the boot record hold GRUB."""

GRUB = Path("/usr/lib/grub/i386-pc")
GRUB_MODULES = ["biosdisk", "part_msdos", "ext2", "normal", "configfile", "linux16", "serial", "terminal"]
GRUB_FIRST = """\
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

BLOCK = 4096
LARGEST = 2 * 1024**4 - BLOCK
"""What a partition of this kind can grow to; the file system has room for the tables of that size."""

EXT4 = f"-q -t ext4 -b {BLOCK} -i 16384 -m 1 -O ^metadata_csum_seed,^orphan_file".split()
"""As for a large disk, although this one begins small. GRUB 2.06 cannot read the features that are turned off."""

PROGRAMS = {
    "sfdisk": "fdisk",
    "mke2fs": "e2fsprogs",
    "grub-mkimage": "grub-common",
    str(GRUB / "boot.img"): "grub-pc-bin",
    "qemu-img": "qemu-utils",
}


def write(tree: Path, out: Path, *, size_mb: int, label: str, kernel: str, initrd: str, options: str):
    """After success `out` is a disk that starts the tree; whoever has an older `out` open keeps the older one. After
    failure nothing new is at `out`. GRUB's configuration is added to the tree. `label` names the file system: the
    kernel finds its root by it, so images that may meet in one machine (rescue) have different ones."""
    start = tree / "boot/grub/grub.cfg"
    start.parent.mkdir(parents=True, exist_ok=True)
    start.write_text(GRUB_CONFIG.format(kernel=kernel, initrd=initrd, label=label, options=options))
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        raw, packed = Path(work, "raw"), Path(work, "qcow2")
        raw.touch()
        os.truncate(raw, size_mb * 1024**2)
        run("sfdisk", "--quiet", raw, input=f"label: dos\nstart={FIRST_MIB // SECTOR}, type=83, bootable\n")
        layout = f"offset={FIRST_MIB},resize={LARGEST // BLOCK},root_owner=0:0,lazy_itable_init=1"
        blocks = (size_mb * 1024**2 - FIRST_MIB) // BLOCK
        run("mke2fs", *EXT4, "-L", label, "-E", layout, "-d", tree, raw, blocks)
        write_grub(raw, Path(work))
        run("qemu-img", "convert", "-c", "-o", "compression_type=zstd", "-O", "qcow2", raw, packed)
        packed.chmod(0o644)
        os.replace(packed, out)


def write_grub(raw: Path, work: Path):
    """GRUB's boot code in the boot record (the partition table behind it stays) and its core in the sectors after."""
    first, core = work / "first.cfg", work / "core.img"
    first.write_text(GRUB_FIRST)
    run("grub-mkimage", "-O", "i386-pc", "-p", "/boot/grub", "-c", first, "-o", core, *GRUB_MODULES)
    if core.stat().st_size > FIRST_MIB - SECTOR:
        raise BuildFailed("GRUB does not fit in front of the first partition.")
    with raw.open("r+b") as disk:
        disk.write((GRUB / "boot.img").read_bytes()[:440])
        disk.seek(SECTOR)
        disk.write(core.read_bytes())
