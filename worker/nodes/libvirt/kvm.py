"""Whether KVM works on this machine, proven by a guest that ran under it.

The device file alone, and even a few instructions that run, prove nothing: on some machines KVM refuses the processor's
own features, or hangs once a guest switches to 64-bit mode. So the probe is a guest of 64 KiB that does what every
kernel does first (page tables, long mode) and then makes QEMU exit with a particular code.
"""

import contextlib
import json
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

log = structlog.get_logger()

PROBE_CODE = bytes.fromhex(
    "c70600100320"  # mov word [0x1000], 0x2003      the first entry of the top page table
    "c70600200330"  # mov word [0x2000], 0x3003
    "c70600308300"  # mov word [0x3000], 0x0083      one page of 2 MiB at address 0
    "66b8001000000f22d8"  # cr3 = 0x1000
    "66b8200000000f22e0"  # cr4 = PAE
    "66b9800000c00f32660d000100000f30"  # EFER |= long mode
    "2e660f01166800"  # lgdt cs:[0x68]
    "66b8110000800f22c0"  # cr0 = paging | protected
    "66ea4c000f000800"  # jmp 0x08:0xf004c               from here on 64-bit code
    "b010e6f4f4"  # mov al, 0x10; out 0xf4, al; hlt
)
PROBE_DESCRIPTOR_TABLE = bytes.fromhex(
    "0000000000000000"  # the descriptor table: none, 64-bit code
    "00000000009a2000"
    "0f0058000f00"  # its size and address
)
PROBE_RESET_VECTOR = bytes.fromhex("ea000000f0")  # jmp 0xf000:0, where a processor starts
PROBE_FIRMWARE = (PROBE_CODE.ljust(0x58, b"\0") + PROBE_DESCRIPTOR_TABLE).ljust(
    0xFFF0, b"\0"
) + PROBE_RESET_VECTOR.ljust(16, b"\0")
PROBE_SUCCESS_EXIT_CODE = 0x10 << 1 | 1
"""QEMU's exit code when the guest writes 0x10 to its exit port."""


@dataclass(frozen=True)
class Verdict:
    works: bool
    sentence: str
    """The reason, for operators."""


def probe(
    device: str = "/dev/kvm",
    qemu: str = "qemu-system-x86_64",
    accelerator: str = "kvm",
    cpu: str = "host",
    deadline: float = 5.0,
) -> Verdict:
    """Run the probe guest; never takes longer than `deadline` seconds."""
    if not Path(device).exists():
        return Verdict(False, f"This machine has no {device}: guests run in QEMU's own emulation.")
    with tempfile.NamedTemporaryFile(suffix=".rom") as firmware:
        firmware.write(PROBE_FIRMWARE)
        firmware.flush()
        command = [qemu, "-machine", "pc", "-accel", accelerator, "-cpu", cpu, "-m", "8", "-bios", firmware.name]
        command += ["-nodefaults", "-no-user-config", "-display", "none"]
        command += ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]
        try:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=deadline)
        except subprocess.TimeoutExpired:
            return Verdict(False, f"{device} is there, but a test guest hung under it: guests run in emulation.")
    if run.returncode == PROBE_SUCCESS_EXIT_CODE:
        return Verdict(True, "KVM works: a probe guest ran 64-bit code under it.")
    message = (run.stderr.strip().splitlines() or [f"QEMU ended with code {run.returncode}"])[0]
    return Verdict(
        False, f"{device} is there, but QEMU cannot run a guest under it: guests run in emulation. ({message})"
    )


def read_boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def find_saved_verdict(file: Path) -> Verdict | None:
    """Return the saved verdict of this boot, or None. After a reboot the kernel or the host may be another."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        values = json.loads(file.read_text())
        if values.pop("boot_id") == read_boot_id():
            return Verdict(**values)
    return None


def get_verdict(file: Path) -> Verdict:
    """Return the verdict for this boot: probed once, then saved in the file."""
    verdict = find_saved_verdict(file)
    if verdict is None:
        verdict = probe()
        log.info("kvm_probed", works=verdict.works, sentence=verdict.sentence)
        file.write_text(json.dumps({"boot_id": read_boot_id(), **asdict(verdict)}))
    return verdict
