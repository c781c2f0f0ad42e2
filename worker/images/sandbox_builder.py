"""Builds the images of sandboxes from unpacked Debian packages: a file system, a kernel and an initial file system."""

import hashlib
import os
import shutil
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.images import disk, packages, rootfs_overlay
from worker.images.commands import BuildFailed, run
from worker.images.commands import list_missing as list_missing_programs
from worker.images.image_file import BuiltImage, describe_image
from worker.images.tiny import boot
from worker.images.tiny.tree import LIBRARY_FOLDERS, LOADER_PATH

IMAGE_FOLDER = Path(__file__).parent / "sandbox"
GUEST_PACKAGE = Path(__file__).parents[1] / "sandbox_guest"
"""The Python package that serves a sandbox from inside. It is run with the guest's own Python."""

KERNEL_OPTIONS = "root=/dev/vda rw quiet cryptomgr.notests no_timer_check net.ifnames=0 panic=10 console=ttyS0,115200"
"""`no_timer_check`: the kernel counts the timer's interrupts while it starts. On a busy host without KVM it gets too
few, tries other ways, and may lose the interrupts of all devices. With KVM it counts none."""
KERNEL_MODULES = ["virtio_pci", "virtio_blk", "virtio_console", "virtio_rng", "virtio_net", "virtio_balloon"]
"""All that a micro VM has. They are loaded before the root, in this order with what each depends on."""

DAEMON_LINE = "::respawn:/usr/lib/guest/serve sandbox_guest --device /dev/virtio-ports/org.panel.sandbox.0\n"
INIT_APPLETS = ["insmod", "mount", "sh", "switch_root", "usleep"]
PYTHON = "usr/bin/python3.11"
DIRECTORIES = ["dev", "home/user", "mnt", "proc", "root", "run", "sys", "tmp", "var/log", "var/tmp"]
EXCLUDED_PATHS = [
    "etc/resolv.conf",  # mmdebstrap copies that of the building machine
    *("dev", "proc", "sys", "boot", "lib/modules", "usr/lib/modules"),
    *("lib/systemd", "usr/lib/systemd", "etc/systemd", "etc/init.d"),
    *("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/lintian", "usr/share/bug"),
    *("var/lib/dpkg", "var/lib/apt", "var/cache", "usr/lib/klibc", "usr/share/initramfs-tools"),
    *("usr/lib/python3.11/test", "usr/lib/python3.11/idlelib", "usr/lib/python3.11/EXTERNALLY-MANAGED"),
    *("usr/share/perl", "usr/lib/x86_64-linux-gnu/perl", "usr/lib/udev", "lib/udev", "usr/share/i18n"),
]
EXCLUDED_APPLETS = ["dpkg", "dpkg-deb", "rpm", "rpm2cpio", "init", "linuxrc", "reboot", "poweroff", "halt"]
CERTIFICATES_FOLDER, CERTIFICATES_FILE = "usr/share/ca-certificates/mozilla", "etc/ssl/certs/ca-certificates.crt"
SANDBOX_USER, SANDBOX_UID = "user", 1000
FILE_MODES = {"root": 0o700, "tmp": 0o1777, "var/tmp": 0o1777, "etc/shadow": 0o600, "etc/sudoers.d/user": 0o440}

FILE_TIME = 1_700_000_000
"""Seconds since 1970: the time of all files, so that two builds are equal."""

FILE_SYSTEM_ID = "5a4d0b0c-1f4e-4b64-9d0e-7e0c9a3b6f10"
MAX_SIZE_BLOCKS = 64 * 1024**3 // disk.BLOCK_BYTES
"""The size to which the file system can grow."""

MKE2FS_OPTIONS = f"-q -t ext4 -b {disk.BLOCK_BYTES} -i 16384 -m 0 -O ^metadata_csum,^64bit,^orphan_file".split()
"""Without checksums, so that times in it can be changed."""

REQUIRED_PROGRAMS = {
    **packages.REQUIRED_PROGRAMS,
    **boot.REQUIRED_PROGRAMS,
    **{program: disk.REQUIRED_PROGRAMS[program] for program in ("mke2fs", "qemu-img")},
}


@dataclass(frozen=True)
class BootFile:
    """A file with which a node starts the image."""

    path: Path
    size: int
    sha256: str


@dataclass(frozen=True)
class SandboxImage:
    disk: BuiltImage
    kernel: BootFile
    initrd: BootFile
    kernel_options: str


def list_missing() -> list[str]:
    """Return a sentence for each thing that this host lacks to build the images."""
    return list_missing_programs(REQUIRED_PROGRAMS)


def build(
    out: Path,
    names: list[str],
    *,
    cache: Path,
    log,
    guest_package: Path,
    name: str,
    label: str,
    size_mb: int,
    min_memory_mb: int,
    daemon_options: str = "",
    overlay: Path | None = None,
    modules: Sequence[str] = (),
) -> SandboxImage:
    """Write `out` (qcow2), and the kernel and the initial file system beside it (`make_boot_paths`). The files of
    `overlay` replace those of a sandbox; `modules` are further ones of the kernel."""
    if not (guest_package / "__main__.py").exists():
        raise BuildFailed(f"The program of the sandbox is missing: {guest_package.name}.")
    unpacked = packages.unpack(names, cache=cache, prepare=boot.index_modules, log=log)
    kernel_path, initrd_path = make_boot_paths(out)
    with TemporaryDirectory(dir=cache, prefix=f".{name}-") as work:
        root, raw, packed = Path(work, "root"), Path(work, "raw"), Path(work, "qcow2")
        build_tree(unpacked, root, guest_package, daemon_options, overlay)
        log(f"Writing {out.name} …")
        write_file_system(root, raw, size_mb)
        run("qemu-img", "convert", "-c", "-o", "compression_type=zstd", "-O", "qcow2", raw, packed)
        version = boot.find_kernel_version(unpacked)
        files = {
            initrd_path: write_initrd(unpacked, Path(work), version, modules),
            kernel_path: Path(shutil.copyfile(unpacked / f"boot/vmlinuz-{version}", Path(work, "kernel"))),
            out: packed,
        }
        out.parent.mkdir(parents=True, exist_ok=True)
        for target, source in files.items():
            source.chmod(0o644)
            shutil.move(source, target.with_name(f".{target.name}"))
            os.replace(target.with_name(f".{target.name}"), target)
    built = describe_image(
        out,
        name=name,
        label=label,
        distro="debian",
        release=packages.DEBIAN_SUITE,
        version="12",
        publisher_version=(unpacked / "etc/debian_version").read_text().strip(),
        min_disk_gb=1,
        min_memory_mb=min_memory_mb,
        cloudinit=False,
        secure_boot=False,
    )
    return SandboxImage(built, describe_boot_file(kernel_path), describe_boot_file(initrd_path), KERNEL_OPTIONS)


def make_boot_paths(out: Path) -> tuple[Path, Path]:
    """Return the paths of an image's kernel and initial file system."""
    return out.with_suffix(".kernel"), out.with_suffix(".initrd")


def describe_boot_file(path: Path) -> BootFile:
    with path.open("rb") as file:
        return BootFile(path, path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


# --- the tree


def build_tree(unpacked: Path, root: Path, guest_package: Path, daemon_options: str, overlay: Path | None):
    excluded = {str(unpacked / path) for path in EXCLUDED_PATHS}
    shutil.copytree(
        unpacked,
        root,
        symlinks=True,
        ignore=lambda folder, names: [name for name in names if os.path.join(folder, name) in excluded],
    )
    for directory in DIRECTORIES:
        (root / directory).mkdir(parents=True, exist_ok=True)
    link_applets(unpacked, root)
    write_accounts(root)
    write_certificates(root)
    rootfs_overlay.copy_overlay(IMAGE_FOLDER / "overlay", root)
    add_daemon_options(root / "etc/inittab", daemon_options)
    if overlay:
        rootfs_overlay.copy_overlay(overlay, root)
    target = root / "usr/lib/python3/dist-packages" / guest_package.name
    shutil.copytree(guest_package, target, ignore=shutil.ignore_patterns("__pycache__"))
    for path in target.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    target.chmod(0o755)
    compile_python(root)
    for name, mode in FILE_MODES.items():
        (root / name).chmod(mode)
    os.chown(root / "home/user", SANDBOX_UID, SANDBOX_UID)
    run("ldconfig", "-r", root)
    (root / "var/cache/ldconfig/aux-cache").unlink(missing_ok=True)
    for path in (root, *root.rglob("*")):
        os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)


def add_daemon_options(inittab: Path, options: str):
    text = inittab.read_text()
    assert DAEMON_LINE in text
    inittab.write_text(text.replace(DAEMON_LINE, f"{DAEMON_LINE.rstrip()} {options}".rstrip() + "\n"))


def link_applets(unpacked: Path, root: Path):
    """Link busybox for each command that no package has. It is the first process too."""
    present = {path.name for folder in ("bin", "sbin", "usr/bin", "usr/sbin") for path in (root / folder).iterdir()}
    for applet in run(unpacked / "bin/busybox", "--list-full").split():
        name = Path(applet).name
        if name not in present and name not in EXCLUDED_APPLETS:
            (root / applet).parent.mkdir(parents=True, exist_ok=True)
            (root / applet).symlink_to("/bin/busybox")
    for program in ("init", "reboot", "poweroff", "halt"):
        (root / "sbin" / program).unlink(missing_ok=True)
        (root / "sbin" / program).symlink_to("/bin/busybox")


def write_accounts(root: Path):
    """Write Debian's accounts and the sandbox's user. Nobody has a password, and PAM accepts none."""
    master = root / "usr/share/base-passwd"
    users = (master / "passwd.master").read_text().replace(":*:", ":x:")
    users += f"{SANDBOX_USER}:x:{SANDBOX_UID}:{SANDBOX_UID}::/home/{SANDBOX_USER}:/bin/bash\n"
    groups = (master / "group.master").read_text().replace(":*:", ":x:")
    (root / "etc/passwd").write_text(users)
    (root / "etc/group").write_text(f"{groups}{SANDBOX_USER}:x:{SANDBOX_UID}:\n")
    names = [line.split(":")[0] for line in users.splitlines()]
    (root / "etc/shadow").write_text("".join(f"{name}:*:19700:0:99999:7:::\n" for name in names))


def write_certificates(root: Path):
    certificates = sorted((root / CERTIFICATES_FOLDER).glob("*.crt"))
    bundle = root / CERTIFICATES_FILE
    bundle.parent.mkdir(parents=True, exist_ok=True)
    bundle.write_text("".join(path.read_text() for path in certificates))


def compile_python(root: Path):
    """Compile all modules: under emulation a guest would take seconds for what the program imports. The results have no
    times in them, and the guest does not compare them with their sources."""
    search = os.pathsep.join(str(root / folder) for folder in LIBRARY_FOLDERS)
    python = [root / LOADER_PATH, "--library-path", search, root / PYTHON]
    options = "-I", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", "-s", root, "-p", "/"
    folders = [root / "usr/lib/python3.11", root / "usr/lib/python3/dist-packages"]
    run("env", f"PYTHONHOME={root}/usr", *python, *[word for word in options if word != "-I"], *folders)


# --- the files


def write_file_system(root: Path, raw: Path, size_mb: int):
    raw.touch()
    os.truncate(raw, size_mb * 1024**2)
    layout = f"root_owner=0:0,lazy_itable_init=0,hash_seed={FILE_SYSTEM_ID},resize={MAX_SIZE_BLOCKS}"
    run("env", f"E2FSPROGS_FAKE_TIME={FILE_TIME}", "mke2fs", *MKE2FS_OPTIONS, "-L", "sandbox", "-U", FILE_SYSTEM_ID,
        "-E", layout, "-d", root, raw)  # fmt: skip
    set_inode_times(raw)


def set_inode_times(raw: Path):
    """Set all times of all files. mke2fs copies when this host last changed a file."""
    with raw.open("r+b") as file:
        file.seek(1024)
        superblock = file.read(1024)
        blocks, first_block = struct.unpack_from("<I", superblock, 4)[0], struct.unpack_from("<I", superblock, 20)[0]
        blocks_per_group, _, inodes_per_group = struct.unpack_from("<III", superblock, 32)
        [inode_bytes] = struct.unpack_from("<H", superblock, 88)
        groups = -(-(blocks - first_block) // blocks_per_group)
        file.seek(disk.BLOCK_BYTES)
        descriptors = file.read(32 * groups)
        times = struct.pack("<I", FILE_TIME)
        for group in range(groups):
            [table] = struct.unpack_from("<I", descriptors, 32 * group + 8)
            file.seek(table * disk.BLOCK_BYTES)
            inodes = bytearray(file.read(inodes_per_group * inode_bytes))
            for start in range(0, len(inodes), inode_bytes):
                if any(inodes[start : start + 2]):
                    for offset in (8, 12, 16, 144):
                        inodes[start + offset : start + offset + 4] = times
                    for offset in (132, 136, 140, 148):
                        inodes[start + offset : start + offset + 4] = bytes(4)
            file.seek(table * disk.BLOCK_BYTES)
            file.write(inodes)


def write_initrd(unpacked: Path, work: Path, version: str, modules: Sequence[str]) -> Path:
    """Write the initial file system, uncompressed: an emulated processor unpacks slowly."""
    initial = work / "initial"
    for directory in ("bin", "dev", "modules", "proc", "root"):
        (initial / directory).mkdir(parents=True)
    shutil.copy(unpacked / "bin/busybox", initial / "bin")
    for applet in INIT_APPLETS:
        (initial / "bin" / applet).symlink_to("busybox")
    shutil.copy(IMAGE_FOLDER / "initramfs/init", initial)
    (initial / "init").chmod(0o755)
    listing = run("modprobe", "-d", unpacked, "-S", version, "--all", "--show-depends", *KERNEL_MODULES, *modules)
    files = dict.fromkeys(line.split()[1] for line in listing.splitlines() if line.startswith("insmod "))
    for number, file in enumerate(files):
        module = boot.strip_signature(Path(file).read_bytes())
        (initial / "modules" / f"{number:02}-{Path(file).name}").write_bytes(module)
    for path in (initial, *initial.rglob("*")):
        os.utime(path, (FILE_TIME, FILE_TIME), follow_symlinks=False)
    return boot.write_archive(initial, work / "initrd")
