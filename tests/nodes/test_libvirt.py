"""The XML that the libvirt driver writes, and how it translates libvirt's errors."""

import errno
import stat
import subprocess
import sys
import uuid
from dataclasses import replace
from pathlib import Path

import libvirt
import pytest
from lxml import etree

from worker.nodes.base import AgentUnavailable, Disk, Machine, Nic, NoCapacity, NotOnNode, Refused, Unreachable
from worker.nodes.libvirt import chipset, filters, firewall, hotplug, kvm, machines, nic_devices, xml
from worker.nodes.libvirt.capabilities import ProbedCapabilities
from worker.nodes.libvirt.connection import with_batch_mode
from worker.nodes.libvirt.errors import to_node_error

SYSTEM, SEED, ISO = Disk("pool", "system", 1), Disk("pool", "seed", 1), Disk("pool", "iso", 1)
PATHS = {disk: f"/pool/{disk.name}" for disk in (SYSTEM, SEED, ISO)}
NIC = Nic("52:54:00:00:00:01", "public", ("10.0.0.2", "fd00::2"), inbound_mbps=100, outbound_mbps=8)
MACHINE = Machine(
    id=str(uuid.uuid4()),
    name="web",
    cpu_cores=2,
    memory_mb=512,
    disks=(SYSTEM,),
    nics=(NIC,),
    media={"seed": SEED},
    vnc_password="sesame",
)


FACTS = ProbedCapabilities(False, "", bandwidth_limits=True, address_filters=True, io_threads=True)


def build_domain(facts=FACTS, **changes):
    return etree.fromstring(xml.build_domain_xml(replace(MACHINE, **changes), PATHS, facts))


EXIT_SCRIPT = """
import os
from worker.nodes.libvirt.connection import ConnectionPool
os.pool = ConnectionPool("test:///default")  # a module that the interpreter unloads after libvirt
with os.pool.borrow():
    pass
"""


def test_process_with_idle_connection_ends_without_traceback():
    process = subprocess.run([sys.executable, "-c", EXIT_SCRIPT], capture_output=True, text=True, check=True)
    assert "Traceback" not in process.stderr


# --- XML


def test_vnc_requires_password():
    assert build_domain().find("devices/graphics").get("passwd") == "sesame"
    assert build_domain(vnc_password="").find("devices/graphics") is None
    assert build_domain(vnc=False).find("devices/graphics") is None


def test_vnc_listen_address_is_left_to_node():
    screen = build_domain().find("devices/graphics")
    assert screen.get("listen") is None
    assert screen.find("listen") is None


def test_names_are_escaped():
    name = """a<b>&'c'"d" ]]>"""
    assert build_domain(name=name).findtext("name") == name
    assert etree.fromstring(xml.build_qcow2_xml(name, 1, name)).findtext("backingStore/path") == name


def test_drives_are_empty_without_media_and_seed_is_not_bootable():
    description = build_domain(media={"seed": SEED, "primary": ISO}, boot=("cdrom", "disk", "network"))
    drives = {d.find("target").get("dev"): d for d in description.iterfind("devices/disk[@device='cdrom']")}
    media = {dev: drive.find("source").get("file") for dev, drive in drives.items() if drive.find("source") is not None}
    assert media == {"sda": "/pool/seed", "sdb": "/pool/iso"}
    assert set(drives) == {"sda", "sdb", "sdc"}
    boots = sorted(description.iter("boot"), key=lambda boot: int(boot.get("order")))
    assert [boot.xpath("string(../target/@dev | ../mac/@address)") for boot in boots] == ["sdb", "sdc", "vda", NIC.mac]
    assert description.find("os/boot") is None


def test_new_machine_is_q35_with_spare_ports():
    """q35, root ports, optical drives on virtio-scsi, USB tablet, I/O thread, timers."""
    description = build_domain()
    assert description.find("os/type").get("machine") == "q35"
    ports = description.findall("devices/controller[@model='pcie-root-port']")
    assert len(ports) == chipset.FIXED_PORTS + chipset.SPARE_PORTS + len(MACHINE.disks) + len(MACHINE.nics)
    assert list_drive_buses(description) == ["scsi", "scsi", "scsi"]
    assert description.find("devices/controller[@type='scsi']").get("model") == "virtio-scsi"
    targets = description.xpath("devices/disk[@device='cdrom']/address/@target")
    assert targets == ["0", "1", "2"], "guests number units of one target backwards"
    assert description.find("devices/input[@type='tablet']").get("bus") == "usb"
    driver = description.find("devices/disk[@device='disk']/driver")
    assert dict(driver.attrib) == {**xml.DISK_DRIVER, "iothread": "1"}
    assert {"cache", "io", "discard", "detect_zeroes"} <= set(driver.keys())
    assert description.findtext("iothreads") == "1"
    timers = {timer.get("name"): timer for timer in description.iterfind("clock/timer")}
    assert timers["rtc"].get("tickpolicy") == "catchup"
    assert timers["hpet"].get("present") == "no"


def test_machine_has_no_io_thread_where_qemu_is_too_old():
    description = build_domain(replace(FACTS, io_threads=False))
    assert description.find("iothreads") is None
    assert dict(description.find("devices/disk[@device='disk']/driver").attrib) == xml.DISK_DRIVER


def list_drive_buses(description):
    return [drive.find("target").get("bus") for drive in description.iterfind("devices/disk[@device='cdrom']")]


@pytest.mark.parametrize(
    ("existing", "secure_boot", "expected", "drives"),
    [
        ("", False, "q35", ["scsi", "scsi", "scsi"]),
        ("pc-i440fx-6.2", False, "pc-i440fx-6.2", ["ide", "ide", "ide"]),
        ("pc", False, "pc", ["ide", "ide", "ide"]),
        ("pc-q35-7.1", False, "pc-q35-7.1", ["scsi", "scsi", "scsi"]),
        ("pc-q35-7.1", True, "pc-q35-7.1", ["scsi", "sata", "sata"]),
        ("pc-i440fx-6.2", True, "q35", ["scsi", "sata", "sata"]),
        ("microvm", False, "q35", ["scsi", "scsi", "scsi"]),
    ],
)
def test_existing_machine_keeps_machine_type(existing, secure_boot, expected, drives):
    """Existing machines keep theirs. With secure boot only q35 will do."""
    description = xml.build_domain_xml(replace(MACHINE, secure_boot=secure_boot), PATHS, FACTS, existing=existing)
    description = etree.fromstring(description)
    assert description.find("os/type").get("machine") == expected
    assert list_drive_buses(description) == drives


class OffDomain:
    """A machine whose disk is on a file system without direct I/O."""

    def __init__(self):
        self.description, self.starts = xml.build_domain_xml(MACHINE, PATHS, FACTS), 0

    def XMLDesc(self, flags):
        return self.description

    def UUIDString(self):
        return MACHINE.id

    def isActive(self):
        return False

    def state(self):
        return [libvirt.VIR_DOMAIN_SHUTOFF, 0]

    def hasManagedSaveImage(self):
        return False

    def create(self):
        self.starts += 1
        if "cache='none'" in self.description.replace('"', "'"):
            raise libvirt.libvirtError("Could not open '/pool/system': filesystem does not support O_DIRECT")

    def attachDeviceFlags(self, description, flags):
        self.description = description
        self.create()

    def lookupByUUIDString(self, machine_id):
        return self

    def defineXML(self, description):
        self.description = description


def test_disk_without_direct_io_uses_page_cache(monkeypatch):
    monkeypatch.setattr(nic_devices, "list_macs", lambda domain: set())
    domain = OffDomain()
    machines.start(domain, MACHINE.id)
    driver = etree.fromstring(domain.description).find("devices/disk[@device='disk']/driver")
    assert (driver.get("cache"), driver.get("io"), driver.get("detect_zeroes")) == ("writeback", "threads", "unmap")
    assert domain.starts == 2
    hotplug.attach_device(domain, xml.build_disk(1, "/pool/more", {}, "more", iothread=False), 0)
    assert etree.fromstring(domain.description).find("driver").get("cache") == "writeback"


def test_speed_limits_are_seen_from_guest_and_need_node_support():
    limits = build_domain().find("devices/interface/bandwidth")
    assert limits.find("inbound").get("average") == str(100 * 1000 // 8)
    assert limits.find("outbound").get("average") == str(8 * 1000 // 8)
    assert build_domain(replace(FACTS, bandwidth_limits=False)).find("devices/interface/bandwidth") is None
    assert (
        build_domain(nics=(replace(NIC, inbound_mbps=0, outbound_mbps=0),)).find("devices/interface/bandwidth") is None
    )


def test_nic_filter_is_bound_to_addresses():
    def bound(**facts):
        reference = etree.fromstring(firewall.build_filter(replace(NIC, **facts))).find("filterref")
        assert reference.get("filter") == filters.GUARD_NAME
        return sorted((p.get("name"), p.get("value")) for p in reference)

    assert build_domain().find("devices/interface/filterref").get("filter") == firewall.make_filter_name(NIC.mac)
    own = ("LINK_LOCAL", "fe80::5054:ff:fe00:1")
    assert bound() == [("IPV4", "10.0.0.2"), ("IPV6", "fd00::2"), own]
    assert bound(addresses=("10.0.0.2", "10.0.0.3")) == [
        ("IPV4", "10.0.0.2"),
        ("IPV4", "10.0.0.3"),
        ("IPV6", "::"),
        own,
    ]
    assert bound(addresses=()) == [("IPV4", "0.0.0.0"), ("IPV6", "::"), own]
    assert build_domain(replace(FACTS, address_filters=False)).find("devices/interface/filterref") is None


def test_kvm_is_used_where_it_works():
    fast, slow = build_domain(replace(FACTS, accelerated=True)), build_domain()
    assert (fast.get("type"), fast.find("cpu").get("mode")) == ("kvm", "host-passthrough")
    assert (slow.get("type"), slow.find("cpu").get("mode")) == ("qemu", "maximum")


def test_disk_names_are_unique():
    names = [xml.make_disk_name(number) for number in (0, 25, 26, 51, 52, 701, 702)]
    assert names == ["vda", "vdz", "vdaa", "vdaz", "vdba", "vdzz", "vdaaa"]


def test_ssh_connection_never_prompts():
    assert with_batch_mode("qemu+ssh://root@node/system") == "qemu+ssh://root@node/system?no_tty=1"
    assert with_batch_mode("qemu+ssh://node/system?keyfile=k") == "qemu+ssh://node/system?keyfile=k&no_tty=1"
    assert with_batch_mode("qemu+tls://node/system") == "qemu+tls://node/system"


# --- errors


def libvirt_error(code, domain=libvirt.VIR_FROM_QEMU, text="something in libvirt's words", number=-1):
    error = libvirt.libvirtError(text)
    error.err = (code, domain, text, 2, None, None, None, number, -1)
    return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (libvirt_error(libvirt.VIR_ERR_NO_DOMAIN), NotOnNode),
        (libvirt_error(libvirt.VIR_ERR_NO_STORAGE_VOL, libvirt.VIR_FROM_STORAGE), NotOnNode),
        (libvirt_error(libvirt.VIR_ERR_NO_STORAGE_POOL, libvirt.VIR_FROM_STORAGE), NotOnNode),
        (libvirt_error(libvirt.VIR_ERR_AGENT_UNRESPONSIVE), AgentUnavailable),
        (libvirt_error(libvirt.VIR_ERR_SYSTEM_ERROR, number=errno.ENOSPC), NoCapacity),
        (libvirt_error(libvirt.VIR_ERR_INTERNAL_ERROR, text="qemu-img: x: No space left on device"), NoCapacity),
        (
            libvirt_error(libvirt.VIR_ERR_INTERNAL_ERROR, text="cannot set up guest memory: Cannot allocate memory"),
            NoCapacity,
        ),
        (libvirt_error(libvirt.VIR_ERR_SYSTEM_ERROR, number=errno.EACCES), Refused),
        (libvirt_error(libvirt.VIR_ERR_OPERATION_INVALID), Refused),
        # the node's own trouble with a daemon beside it: the line to the node is fine
        (libvirt_error(libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_FROM_RPC), Refused),
    ],
)
def test_libvirt_error_is_translated(error, expected):
    translated = to_node_error(error, "start the machine", lost=False)
    assert type(translated) is expected
    assert str(error) in translated.detail
    assert str(error) not in str(translated)


def test_error_on_lost_connection_is_unreachable():
    translated = to_node_error(libvirt_error(libvirt.VIR_ERR_NO_DOMAIN), "start the machine", lost=True)
    assert type(translated) is Unreachable


# --- whether KVM works here


def write_program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_kvm_probe_fails_without_device(tmp_path):
    assert not kvm.probe(device=tmp_path / "kvm").works


def test_kvm_probe_fails_when_guest_hangs(tmp_path):
    verdict = kvm.probe(device="/dev/null", qemu=write_program(tmp_path / "qemu", "exec sleep 60"), deadline=0.2)
    assert not verdict.works
    assert "hung" in verdict.sentence


def test_kvm_probe_fails_when_qemu_fails(tmp_path):
    qemu = write_program(tmp_path / "qemu", "echo 'qemu: failed to set MSR' >&2; exit 1")
    verdict = kvm.probe(device="/dev/null", qemu=qemu)
    assert not verdict.works
    assert "failed to set MSR" in verdict.sentence


def test_kvm_probe_fails_when_qemu_exits_early(tmp_path):
    assert not kvm.probe(device="/dev/null", qemu=write_program(tmp_path / "qemu", "exit 0")).works


@pytest.mark.guest
def test_kvm_probe_guest_runs_under_emulation():
    """Under QEMU's own emulation, which works everywhere."""
    assert kvm.probe(device="/dev/null", accelerator="tcg", cpu="max", deadline=60).works


def test_kvm_verdict_is_valid_for_one_boot(tmp_path, monkeypatch):
    probes = []

    def probe():
        probes.append(True)
        return kvm.Verdict(True, "It works.")

    monkeypatch.setattr(kvm, "probe", probe)
    file = tmp_path / "kvm.json"
    assert kvm.find_saved_verdict(file) is None
    assert (
        kvm.get_verdict(file) == kvm.get_verdict(file) == kvm.find_saved_verdict(file) == kvm.Verdict(True, "It works.")
    )
    assert len(probes) == 1
    monkeypatch.setattr(kvm, "read_boot_id", lambda: "another boot")
    assert kvm.find_saved_verdict(file) is None
    kvm.get_verdict(file)
    assert len(probes) == 2
