"""Test the systemd units and the documents for operators in a Debian guest: `python3 -m tests.deployment.systemd`.

The commands of the documents install the panel into a Debian root, which boots under QEMU without KVM and without
internet connection. Its only additional service is tests/deployment/guest_checks.py. Takes an hour or more; needs root.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.deployment import debian_root
from tests.deployment.operator_docs import read_block

SYSTEM_PACKAGES = [
    *("linux-image-cloud-amd64", "initramfs-tools", "zstd", "kmod", "udev", "systemd-sysv", "dbus", "libpam-systemd"),
    *("iproute2", "procps"),
]
DATABASE_PACKAGES = ["postgresql", "redis-server"]
MASKED_UNITS = ["serial-getty@ttyS0.service", "libvirtd.service"]
MASKED_UNITS += ["libvirtd.socket", "libvirtd-ro.socket", "libvirtd-admin.socket"]  # the panel has its own daemon
DISK_SIZE = "8G"
TIMEOUT_SECONDS = 2 * 3600
SUCCESS_LINE = "All stages passed."
GUEST_FILES = {
    "etc/hostname": "panel\n",
    "etc/fstab": "/dev/vda / ext4 defaults 0 1\n",
    "etc/initramfs-tools/modules": "virtio_pci\nvirtio_blk\n",
    "etc/systemd/network/wired.network": "[Match]\nName=e*\n\n[Network]\nDHCP=ipv4\n",
    "etc/systemd/system/unit-checks.service": """\
[Unit]
After=postgresql.service redis-server.service

[Service]
WorkingDirectory=/opt/panel
ExecStart=/usr/bin/python3 -m tests.deployment.guest_checks
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0

[Install]
WantedBy=multi-user.target
""",
}


def install(root: Path):
    """Install all packages and files, as far as this is possible before the first boot."""
    debian_root.make_root(root, [*SYSTEM_PACKAGES, *DATABASE_PACKAGES])
    debian_root.export_checkout(root / "opt/panel")
    commands = read_block("install-many-machines.md", "Install the code", "apt install")
    debian_root.run(root, commands.replace("apt install", "apt-get -qq update; apt-get -qq --yes install"))
    prefetch = 'make local && PATH="$PWD/.venv/bin:$PATH" python -m tests.support.prefetch_packages'
    debian_root.run(root, prefetch, directory="/opt/panel")
    for name, text in GUEST_FILES.items():
        (root / name).write_text(text)
    debian_root.run(
        root,
        "systemctl --quiet enable systemd-networkd systemd-networkd-wait-online unit-checks\n"
        f"systemctl --quiet mask {' '.join(MASKED_UNITS)}\n"
        "rm /usr/sbin/policy-rc.d; update-initramfs -u; apt-get clean",
    )


def write_disk(root: Path, disk: Path):
    subprocess.run(["truncate", "--size", DISK_SIZE, disk], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=1", "-d", root, disk], check=True)


def boot(root: Path, disk: Path):
    """Boot the guest and print its console. Return whether the checks passed."""
    command = [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-smp", "2", "-m", "2048", "-nodefaults", "-display", "none", "-serial", "stdio"),
        *("-kernel", root / "vmlinuz", "-initrd", root / "initrd.img"),
        *("-append", "root=/dev/vda rw console=ttyS0 quiet net.ifnames=0 systemd.default_timeout_start_sec=900"),
        *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *("-netdev", "user,id=net,restrict=on", "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci"),
    ]
    has_passed = False
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    with subprocess.Popen(["timeout", str(TIMEOUT_SECONDS), *command], **pipes) as guest:
        for line in guest.stdout:
            text = line.decode(errors="replace").rstrip()
            print(text, flush=True)
            has_passed |= text.endswith(SUCCESS_LINE)
    return has_passed


def main():
    with TemporaryDirectory(dir="/var/tmp", prefix="panel-systemd-") as directory:
        root, disk = Path(directory, "root"), Path(directory, "disk.raw")
        install(root)
        write_disk(root, disk)
        sys.exit(not boot(root, disk))


if __name__ == "__main__":
    main()
