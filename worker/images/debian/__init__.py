"""A complete Debian 12: systemd, cloud-init, openssh, the QEMU guest agent, and apt with all of Debian's packages.

cloud-init reads a NoCloud seed (volume label `cidata`) as it does anywhere; `overlay/etc/cloud` has this image's
settings. The default user is `debian`, who may use sudo. Root may sign in over ssh where the seed has `disable_root:
false`. The boot loaders follow Debian's own links to the newest kernel, so upgrades need no further step; the loaders
themselves are not upgraded.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from worker.images import commands, disk, packages, rootfs_overlay, uefi
from worker.images.image_file import BuiltImage, describe_image

IMAGE_FOLDER = Path(__file__).parent
IMAGE_PACKAGES = [
    *("linux-image-cloud-amd64", "initramfs-tools", "lz4", "kmod", "udev", "fdisk"),
    *("systemd-sysv", "systemd-resolved", "systemd-timesyncd", "dbus", "libpam-systemd", "locales", "sudo"),
    *("cloud-init", "cloud-guest-utils", "openssh-server", "qemu-guest-agent"),
    *("iproute2", "iputils-ping", "netbase", "ca-certificates", "curl", "less", "procps", "vim-tiny"),
]
DISK_MODULES = ["virtio_pci", "virtio_blk", "virtio_scsi", "sd_mod"]
DPKG_EXCLUDES = [
    "path-exclude=/usr/share/man/*",
    "path-exclude=/usr/share/doc/*",
    "path-include=/usr/share/doc/*/copyright",
]
"""For dpkg during the build only. Packages that are installed later have their manuals."""

SIZE_MB = 2048


def list_missing() -> list[str]:
    """Return a sentence for each thing that this host lacks to build the image."""
    return commands.list_missing({**packages.REQUIRED_PROGRAMS, **disk.REQUIRED_PROGRAMS})


def build(out: Path, *, cache: Path, log=print) -> BuiltImage:
    """Write the image, in a minute or two. After failure (`BuildFailed`) an older file at `out` is unchanged."""
    signed = uefi.fetch_loaders(cache, log)
    with TemporaryDirectory(dir=cache, prefix=".debian-") as work:
        overlay, root = Path(work, "ours"), Path(work, "root")
        rootfs_overlay.copy_overlay(IMAGE_FOLDER / "overlay", overlay)
        modules = overlay / "etc/initramfs-tools/modules"
        modules.write_text("\n".join(DISK_MODULES) + "\n")
        log("Installing Debian …")
        packages.install(
            IMAGE_PACKAGES, root, cache=cache, overlay=overlay, finish=IMAGE_FOLDER / "finish", dpkg=DPKG_EXCLUDES
        )
        log(f"Writing {out.name} …")
        disk.write_image(
            root,
            out,
            signed=signed,
            size_mb=SIZE_MB,
            label="debian",
            kernel="/vmlinuz",
            initrd="/initrd.img",
            options="ro quiet net.ifnames=0",
        )
        exact_version = (root / "etc/debian_version").read_text().strip()
    return describe_image(
        out,
        name="debian",
        label="Debian 12",
        distro="debian",
        release=packages.DEBIAN_SUITE,
        version="12",
        publisher_version=exact_version,
        min_disk_gb=3,
        min_memory_mb=512,
        cloudinit=True,
        secure_boot=True,
    )
