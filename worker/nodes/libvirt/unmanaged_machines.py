"""Describes machines that the panel did not define, and what a machine of the panel could not preserve of them."""

import contextlib
from collections.abc import Iterator

import libvirt
from lxml import etree

from panel.core.messages import message
from worker.nodes.base import DiskDescription, MachineDescription, Nic
from worker.nodes.libvirt import domain_stats
from worker.nodes.libvirt.errors import ignore_missing
from worker.nodes.libvirt.machines import get_domain

PASSTHROUGH_DEVICES = ("hostdev", "filesystem", "shmem", "lease", "interface[@type='hostdev']")
QEMU_COMMANDLINE_TAG = "{http://libvirt.org/schemas/domain/qemu/1.0}commandline"


def describe_machine(connection: libvirt.virConnect, machine_id: str) -> MachineDescription:
    domain = get_domain(connection, machine_id)
    tree = etree.fromstring(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
    disk_xpath = "devices/disk[not(@device) or @device='disk' or @device='lun']"
    disks = sorted(tree.xpath(disk_xpath), key=get_boot_position)
    return MachineDescription(
        id=machine_id,
        name=domain.name(),
        power=domain_stats.to_power(domain.state()[0]),
        cpu_cores=int(tree.findtext("vcpu")),
        memory_mb=-(-int(tree.findtext("memory")) // 1024),
        disks=tuple(describe_disk(connection, device) for device in disks),
        nics=tuple(describe_nic(device) for device in tree.iterfind("devices/interface")),
        tpm=tree.find("devices/tpm") is not None,
        secure_boot=has_secure_boot(tree),
        faults=tuple((*iter_definition_errors(tree), *iter_host_state_errors(domain))),
    )


def get_boot_position(device: etree._Element) -> int:
    """Return the boot position. Devices that are not booted from come last, in the order of the definition."""
    boot = device.find("boot")
    return int(boot.get("order")) if boot is not None else 1000


def describe_nic(device: etree._Element) -> Nic:
    source = device.find("source")
    network = "" if source is None else source.get("network") or source.get("bridge") or source.get("dev") or ""
    return Nic(device.find("mac").get("address"), network)


def describe_disk(connection: libvirt.virConnect, device: etree._Element) -> DiskDescription:
    name, source = device.find("target").get("dev"), device.find("source")
    path = "" if source is None else next(iter(source.attrib.values()), "")
    volume = find_volume(connection, device.get("type"), source)
    if volume is None:
        return DiskDescription(name, path, fault=disk_import_error(device, None))
    volume_format = etree.fromstring(volume.XMLDesc()).find("target/format")
    pool, size = volume.storagePoolLookupByVolume().name(), volume.info()[1]
    return DiskDescription(name, volume.name(), pool, size, disk_import_error(device, volume_format))


def find_volume(
    connection: libvirt.virConnect, kind: str | None, source: etree._Element | None
) -> libvirt.virStorageVol | None:
    """Return the volume in one of the node's pools, or None. Files that were placed there by hand are found as well."""
    if source is None:
        return None
    for attempt in ("as it was last read", "now"):
        if attempt == "now":
            refresh_pools(connection)
        with ignore_missing():
            if kind == "volume":
                return connection.storagePoolLookupByName(source.get("pool")).storageVolLookupByName(
                    source.get("volume")
                )
            return connection.storageVolLookupByPath(source.get("file") or source.get("dev") or "")
    return None


def refresh_pools(connection: libvirt.virConnect) -> None:
    for pool in connection.listAllStoragePools(libvirt.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE):
        with contextlib.suppress(libvirt.libvirtError):  # fails during a transfer
            pool.refresh()


def disk_import_error(device: etree._Element, volume_format: etree._Element | None) -> str | None:
    """Return the error, completing "the disk …", or None. `written` is the format element of the volume itself."""
    driver = device.find("driver")
    disk_format = "raw" if driver is None else driver.get("type", "raw")
    disk_format = volume_format.get("type") if disk_format == "qcow2" and volume_format is not None else disk_format
    bus = device.find("target").get("bus")
    if device.get("type") not in ("file", "volume"):
        return message("is no file ({type})", type=device.get("type"))
    if disk_format != "qcow2":
        return message("is {format}, and has to be qcow2", format=disk_format)
    if device.get("device") == "lun" or bus != "virtio":
        return message("is on the bus {bus}, and has to be on virtio", bus=bus)
    if device.find("encryption") is not None or device.find("source/encryption") is not None:
        return message("is encrypted by the host")
    for shared in ("shareable", "readonly", "transient"):
        if device.find(shared) is not None:
            return message("is {mode}", mode=shared)
    return None


def has_secure_boot(tree: etree._Element) -> bool:
    on = tree.xpath("os/loader[@secure='yes'] | os/firmware/feature[@name='secure-boot'][@enabled='yes']")
    return bool(on)


def iter_definition_errors(tree: etree._Element) -> Iterator[str]:
    """Yield what the definition has that a machine of the panel cannot have."""
    kind, system = tree.find("os/type"), tree.find("os")
    if kind.text != "hvm" or kind.get("arch") != "x86_64":
        yield message(
            "Its processor is not x86_64 ({architecture}, {type}).", architecture=kind.get("arch"), type=kind.text
        )
    if system.get("firmware") == "efi" or tree.find("os/loader[@type='pflash']") is not None:
        yield message("Its firmware is UEFI, whose variables would be lost.")
    if tree.find("os/kernel") is not None:
        yield message("It boots a kernel that is stored on its host.")
    for tag in PASSTHROUGH_DEVICES:
        if tree.find(f"devices/{tag}") is not None:
            yield message("It has a device of its host passed through ({tag}).", tag=tag.partition("[")[0])
    backend = tree.find("devices/tpm/backend")
    if backend is not None and (backend.get("type"), backend.get("version", "2.0")) != ("emulator", "2.0"):
        yield message("Its TPM is not an emulated TPM 2.0.")
    if tree.find(QEMU_COMMANDLINE_TAG) is not None:
        yield message("It uses QEMU options that libvirt does not know.")
    if tree.find("launchSecurity") is not None:
        yield message("Its memory is encrypted by the host (launchSecurity).")


def iter_host_state_errors(domain: libvirt.virDomain) -> Iterator[str]:
    """Yield what the host stores beside the definition and an import would lose."""
    if not domain.isPersistent():
        yield message("It is transient: its host deletes it when it stops.")
        return
    if domain.hasManagedSaveImage():
        yield message("Its memory is saved on the host. Start it and shut it down first.")
    if domain.snapshotNum():
        yield message("It has snapshots. Delete them first.")
    if domain.listAllCheckpoints():
        yield message("It has checkpoints of backups. Delete them first.")
