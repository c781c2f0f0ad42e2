"""XML definitions for libvirt. All values from outside pass through lxml, which quotes them."""

from collections.abc import Iterable, Mapping

from lxml import etree
from lxml.builder import E, ElementMaker

from worker.nodes.base import CHANNEL_NAME, Disk, Machine, Nic
from worker.nodes.libvirt import chipset, firewall, firmware, microvm, tpm
from worker.nodes.libvirt.capabilities import ProbedCapabilities

PANEL_NAMESPACE = "urn:panel:machine:1"
MARK_ELEMENT = ElementMaker(namespace=PANEL_NAMESPACE, nsmap={"panel": PANEL_NAMESPACE})

AGENT_CHANNEL_NAME = "org.qemu.guest_agent.0"

VNC_LENGTH = 8
"""Characters of a password that VNC uses."""


def to_text(element: etree._Element) -> str:
    return etree.tostring(element, encoding="unicode")


# --- storage


def build_pool_xml(name: str, path: str, uuid: str = "") -> str:
    """Return a storage pool. QEMU may run as another user than libvirt: it may traverse the folder, but not list it."""
    identity = [E.uuid(uuid)] if uuid else []
    return to_text(E.pool(E.name(name), *identity, E.target(E.path(path), E.permissions(E.mode("0711"))), type="dir"))


def build_qcow2_xml(name: str, size: int, base: str | None = None) -> str:
    """Return a volume in version 3 of the format (compat 1.1): libvirt's older default has no bitmaps for backups."""
    backing = [E.backingStore(E.path(base), E.format(type="qcow2"))] if base else []
    target = E.target(E.format(type="qcow2"), E.compat("1.1"))
    return to_text(E.volume(E.name(name), E.capacity(str(size), unit="bytes"), target, *backing))


def build_raw_volume_xml(name: str, size: int, mode: str = "") -> str:
    """Return a volume of bytes. `mode`: its file's permissions in octal digits. By default only the owner reads it."""
    permissions = [E.permissions(E.mode(mode))] if mode else []
    target = E.target(E.format(type="raw"), *permissions)
    return to_text(E.volume(E.name(name), E.capacity(str(size), unit="bytes"), target))


# --- machines


def build_domain_xml(
    machine: Machine,
    paths: Mapping[Disk, str],
    facts: ProbedCapabilities,
    metadata: Iterable[etree._Element] = (),
    existing: str = "",
) -> str:
    """Return a machine's definition. `paths`: disk or medium → its file; `metadata`: further elements of its metadata;
    `existing`: the machine type of its present definition. `facts` are the node's."""
    memory = str(machine.memory_mb)
    kind = chipset.choose_machine_type(machine, existing)
    drives = chipset.list_drives(machine, kind)
    order = number_boot_devices(machine, drives)
    return to_text(
        E.domain(
            E.name(machine.name),
            E.uuid(machine.id),
            E.metadata(MARK_ELEMENT.machine(by="panel"), *metadata),
            E.memory(memory, unit="MiB"),
            E.currentMemory(memory, unit="MiB"),
            E.vcpu(str(machine.cpu_cores)),
            *([E.iothreads("1")] if facts.io_threads else []),
            *build_cpu_quota(machine),
            *build_boot_source(machine, kind, paths),
            E.cpu(*build_topology(machine), mode="host-passthrough" if facts.accelerated else "maximum"),
            build_clock(),
            E.on_reboot("restart"),
            E.devices(
                *chipset.build_controllers(machine, kind),
                *(build_disk(n, paths[d], order, d.name, facts.io_threads) for n, d in enumerate(machine.disks)),
                *(
                    build_drive(
                        name,
                        chipset.get_drive_bus(slot, machine, kind),
                        paths[machine.media[slot]] if slot in machine.media else None,
                        order,
                    )
                    for slot, name in drives.items()
                ),
                *(
                    build_nic(n, nic, order, facts.bandwidth_limits, facts.address_filters)
                    for n, nic in enumerate(machine.nics)
                ),
                E.serial(E.target(port="0"), type="pty"),
                E.console(E.target(type="serial", port="0"), type="pty"),
                *build_channels(machine),
                E.memballoon(E.stats(period="10"), model="virtio"),
                E.rng(E.backend("/dev/urandom", model="random"), model="virtio"),
                *([] if machine.kernel else build_screen(machine)),
                *tpm.build_devices(machine),
            ),
            type="kvm" if facts.accelerated else "qemu",
        )
    )


QUOTA_PERIOD_MICROSECONDS = 100_000


def build_cpu_quota(machine: Machine) -> list[etree._Element]:
    """Return the limit of the processor time that all threads of the machine may use together."""
    if not machine.cpu_quota:
        return []
    quota = QUOTA_PERIOD_MICROSECONDS * machine.cpu_quota // 100
    return [E.cputune(E.global_period(str(QUOTA_PERIOD_MICROSECONDS)), E.global_quota(str(quota)))]


def build_boot_source(machine: Machine, machine_type: str, paths: Mapping[Disk, str]) -> list[etree._Element]:
    """Return the machine's `os` and `features`."""
    if machine.kernel:
        return microvm.build_elements(machine.kernel, machine_type, paths)
    return firmware.build_elements(machine, machine_type)


def build_channels(machine: Machine) -> list[etree._Element]:
    names = [AGENT_CHANNEL_NAME, *([CHANNEL_NAME] if machine.channel else [])]
    return [E.channel(E.target(type="virtio", name=name), type="unix") for name in names]


def build_screen(machine: Machine) -> list[etree._Element]:
    video = E.video(E.model(type="vga", vram="16384"))
    return [E.input(type="tablet", bus="usb"), video, *build_vnc_elements(machine)]


def build_clock() -> etree._Element:
    """Return the clock's timers. A guest that missed ticks gets those of its real-time clock later, so its time does
    not fall behind; those of the old timer are spread out. The HPET is omitted, because its emulation is expensive."""
    return E.clock(
        E.timer(name="rtc", tickpolicy="catchup"),
        E.timer(name="pit", tickpolicy="delay"),
        E.timer(name="hpet", present="no"),
        offset="utc",
    )


def build_topology(machine: Machine) -> list[etree._Element]:
    if machine.topology is None:
        return []
    sockets, cores, threads = map(str, machine.topology)
    return [E.topology(sockets=sockets, dies="1", cores=cores, threads=threads)]


def number_boot_devices(machine: Machine, drives: Mapping[str, str]) -> dict[str, int]:
    """Return device → position in the boot order. The seed's drive is never booted from."""
    if machine.kernel:
        return {}
    devices = {
        "disk": ["vda"] if machine.disks else [],
        "cdrom": [drives["primary"], drives["secondary"]],
        "network": ["nic0"] if machine.nics else [],
    }
    return {device: n for n, device in enumerate((d for kind in machine.boot for d in devices[kind]), start=1)}


def build_boot_elements(device: str, order: Mapping[str, int]) -> list[etree._Element]:
    return [E.boot(order=str(order[device]))] if device in order else []


DISK_DRIVER = {
    "name": "qemu",
    "type": "qcow2",
    "cache": "none",
    "io": "native",
    "discard": "unmap",
    "detect_zeroes": "unmap",
}
"""Direct I/O, so that guests' data is not also cached in the host's memory; zeros take no space."""

PAGE_CACHE = {"cache": "writeback", "io": "threads"}
"""Used instead where the file system of a pool does not support direct I/O."""


def build_disk(number: int, path: str, order: Mapping[str, int], name: str, iothread: bool) -> etree._Element:
    """Return a disk. The guest finds it as /dev/disk/by-id/virtio-NAME: virtio disks show 20 characters of the serial
    number."""
    device = make_disk_name(number)
    return E.disk(
        E.driver(DISK_DRIVER | ({"iothread": "1"} if iothread else {})),
        E.source(file=path),
        E.target(dev=device, bus="virtio"),
        E.serial(name.partition(".")[0][:20]),
        *build_boot_elements(device, order),
        type="file",
        device="disk",
    )


def make_disk_name(number: int) -> str:
    """Return the device name: vda … vdz, vdaa …"""
    letters = chr(ord("a") + number % 26)
    return make_disk_name(number // 26 - 1) + letters if number >= 26 else f"vd{letters}"


def build_drive(device: str, bus: str, path: str | None, order: Mapping[str, int]) -> etree._Element:
    """Return an optical drive, empty without a path, so that a medium can be inserted later."""
    return E.disk(
        E.driver(name="qemu", type="raw"),
        *([E.source(file=path)] if path else []),
        E.target(dev=device, bus=bus),
        *build_scsi_address(device, bus),
        E.readonly(),
        *build_boot_elements(device, order),
        type="file",
        device="cdrom",
    )


def build_scsi_address(device: str, bus: str) -> list[etree._Element]:
    """Return an address with a SCSI target of its own: guests number targets in order, but the units of one target
    backwards."""
    if bus != "scsi":
        return []
    return [E.address(type="drive", controller="0", bus="0", target=str(ord(device[-1]) - ord("a")), unit="0")]


def build_nic(number: int, nic: Nic, order: Mapping[str, int], limits: bool, has_filters: bool) -> etree._Element:
    return E.interface(
        E.mac(address=nic.mac),
        E.source(network=nic.network),
        E.model(type="virtio"),
        *([E.port(isolated="yes")] if nic.egress is not None else []),
        *build_variable_nic_elements(nic, limits, has_filters),
        *build_boot_elements(f"nic{number}", order),
        type="network",
    )


def build_variable_nic_elements(nic: Nic, limits: bool, has_filters: bool) -> list[etree._Element]:
    """Return the parts of a NIC that may change while the machine runs."""
    return [
        *([E.filterref(filter=firewall.make_filter_name(nic.mac))] if has_filters else []),
        *(build_bandwidth(nic) if limits else []),
        E.link(state="up" if nic.connected else "down"),
    ]


def build_bandwidth(nic: Nic) -> list[etree._Element]:
    """Return the speed limits. libvirt counts in kilobytes a second; its inbound is what the guest receives, as in
    `Nic`."""
    limits = {"inbound": nic.inbound_mbps, "outbound": nic.outbound_mbps}
    elements = [E(direction, average=str(mbps * 125)) for direction, mbps in limits.items() if mbps]
    return [E.bandwidth(*elements)] if elements else []


def build_vnc_elements(machine: Machine) -> Iterable[etree._Element]:
    """Yield a VNC server at the address of the node's settings (libvirt's default is 127.0.0.1). Without a password
    libvirt would accept everybody, so a machine without one has no VNC."""
    if machine.vnc and machine.vnc_password:
        yield E.graphics(type="vnc", port="-1", autoport="yes", passwd=machine.vnc_password[:VNC_LENGTH])
