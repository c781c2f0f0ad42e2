"""What the definition of a micro VM has instead of a firmware with a boot loader."""

from collections.abc import Mapping

from lxml import etree
from lxml.builder import E

from worker.nodes.base import Disk, Kernel

TRANSLATION_CACHE_MB = 64
"""MiB in which QEMU keeps the code that it translated, where there is no KVM. By default it is up to 1 GiB, and even a
small guest fills more of it than it has memory itself."""


def build_elements(kernel: Kernel, machine_type: str, paths: Mapping[Disk, str]) -> list[etree._Element]:
    """Return the machine's `os` and `features`."""
    return [
        E.os(
            E.type("hvm", arch="x86_64", machine=machine_type),
            E.kernel(paths[kernel.image]),
            E.initrd(paths[kernel.initrd]),
            E.cmdline(kernel.options),
        ),
        E.features(E.acpi(), E.apic(), E.tcg(E("tb-cache", str(TRANSLATION_CACHE_MB), unit="MiB"))),
    ]
