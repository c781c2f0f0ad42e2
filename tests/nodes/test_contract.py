"""What every driver promises (`worker/nodes/base.py`), tested with each of them by the same tests."""

import itertools
import queue
import socket
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.nodes.driver_lab import (
    POOL,
    MiB,
    build_nic,
    disk_sizes,
    find_status,
    get_agreed_power,
    is_agent_answering,
    read_boot_id,
    wait_for_agent,
    wait_until,
)
from worker.nodes.base import AgentUnavailable, Disk, FirewallRule, GiB, Machine, NotOnNode, Power, Refused, Seed

# --- the node itself


def test_capabilities_describe_node_and_leave_nothing_behind(node):
    node.ping()
    before = {machine.id for machine in node.machines()}, disk_sizes(node)
    capabilities = node.capabilities()
    assert capabilities.version
    assert capabilities.cpu_cores > 0
    assert capabilities.memory > GiB / 4
    assert capabilities.acceleration_note
    [pool] = [pool for pool in capabilities.pools if pool.name == POOL]
    assert 0 < pool.free <= pool.capacity
    assert ({machine.id for machine in node.machines()}, disk_sizes(node)) == before


def test_host_usage_counts_work_and_time_of_all_processors(node):
    capabilities = node.capabilities()
    cores, started_at = capabilities.cpu_cores, time.monotonic()
    before = node.host_usage()
    assert 0 < before.memory_used < capabilities.memory
    assert 0 <= before.busy_seconds <= before.total_seconds
    wait_until(lambda: node.host_usage().total_seconds - before.total_seconds > 0.2 * cores, 30)
    after, elapsed = node.host_usage(), time.monotonic() - started_at
    assert 0 <= after.busy_seconds - before.busy_seconds <= after.total_seconds - before.total_seconds
    assert after.total_seconds - before.total_seconds <= (elapsed + 1) * cores * 1.1


def test_closed_node_reconnects(lab, new_disk):
    disk = new_disk()
    other = lab.open_node()
    other.close()
    other.ping()
    assert disk_sizes(other)[disk.name] == disk.size
    other.close()
    other.close()


# --- pools, images, disks


def test_pool_prepared_again_keeps_its_disks(lab, new_disk):
    disk = new_disk()
    pool = lab.node.prepare_pool(POOL, lab.pool_path)
    assert (pool.name, pool.path) == (POOL, lab.pool_path)
    assert 0 < pool.free <= pool.capacity
    assert disk in lab.node.disks(POOL)


def test_pool_can_be_prepared_by_concurrent_processes(lab):
    """As workers do that are notified of a new node at the same time."""
    nodes = [lab.open_node() for _ in range(4)]
    for node in nodes:
        node.ping()
    for name in ("first", "second", "third"):
        with ThreadPoolExecutor(len(nodes)) as threads:
            pools = list(threads.map(lambda node: node.prepare_pool(name, f"{lab.pool_path}-{name}"), nodes))  # noqa: B023
        assert all(pool.capacity > 0 for pool in pools)
    for node in nodes:
        node.close()


def test_image_is_uploaded_once_and_listed_with_its_virtual_size(lab):
    assert lab.node.has_image(POOL, lab.image)
    assert disk_sizes(lab.node)[lab.image.name] == read_virtual_size(lab.image.path)
    progress = []
    lab.node.put_image(POOL, lab.image, lambda *step: progress.append(step))
    assert progress == []


def test_image_exists_only_when_complete(lab):
    image = replace(lab.image, name="cut-off.qcow2")

    def interrupt(done, total):
        assert 0 <= done <= total == image.size
        assert not lab.node.has_image(POOL, image)
        raise ConnectionError("the cable is out")

    with pytest.raises(ConnectionError):
        lab.node.put_image(POOL, image, interrupt)
    assert not lab.node.has_image(POOL, image)
    with pytest.raises(NotOnNode):
        lab.node.create_disk(Disk(POOL, "of-half-an-image", 2 * GiB), image)
    assert "of-half-an-image" not in disk_sizes(lab.node)

    progress = []
    lab.node.put_image(POOL, image, lambda *step: progress.append(step))
    assert lab.node.has_image(POOL, image)
    assert progress == sorted(progress)
    assert progress[-1] == (image.size, image.size)

    lab.node.delete_image(POOL, image.name)
    lab.node.delete_image(POOL, image.name)
    assert not lab.node.has_image(POOL, image)
    assert image.name not in disk_sizes(lab.node)


def test_disk_is_blank_or_based_on_image(lab, new_disk):
    blank, child = new_disk(), new_disk(2 * GiB, lab.image)
    assert {blank, child} <= set(lab.node.disks(POOL))
    assert {blank, child} <= set(lab.open_node().disks(POOL))


def test_disk_created_again_is_replaced(lab, new_disk):
    disk = new_disk()
    again = replace(disk, size=2 * GiB)
    lab.node.create_disk(again, lab.image)
    assert disk_sizes(lab.node)[disk.name] == again.size
    lab.node.create_disk(disk)
    assert disk_sizes(lab.node)[disk.name] == disk.size


def test_disk_of_missing_image_is_not_created(lab):
    with pytest.raises(NotOnNode):
        lab.node.create_disk(Disk(POOL, "orphan", GiB), replace(lab.image, name="never-put.qcow2"))
    assert "orphan" not in disk_sizes(lab.node)


def test_disk_larger_than_pool_is_refused(node):
    with pytest.raises(Refused):
        node.create_disk(Disk(POOL, "huge", 2**62))
    assert "huge" not in disk_sizes(node)


def test_unprepared_pool_is_not_on_node(lab):
    for call in (
        lambda: lab.node.disks("nowhere"),
        lambda: lab.node.has_image("nowhere", lab.image),
        lambda: lab.node.put_image("nowhere", lab.image),
        lambda: lab.node.create_disk(Disk("nowhere", "lost", GiB)),
    ):
        with pytest.raises(NotOnNode):
            call()


def test_disk_grows_and_never_shrinks(node, new_disk):
    disk = new_disk()
    for requested_size in (128 * MiB, 128 * MiB, 64 * MiB):
        node.grow_disk(replace(disk, size=requested_size))
        assert disk_sizes(node)[disk.name] == 128 * MiB
    with pytest.raises(NotOnNode):
        node.grow_disk(Disk(POOL, "never-made", GiB))
    with pytest.raises(NotOnNode):
        node.grow_disk(replace(disk, size=GiB), str(uuid.uuid4()))
    assert disk_sizes(node)[disk.name] == 128 * MiB
    assert "never-made" not in disk_sizes(node)


def test_disk_can_be_deleted_twice(node, new_disk):
    disk = new_disk()
    node.delete_disk(POOL, disk.name)
    node.delete_disk(POOL, disk.name)
    assert disk.name not in disk_sizes(node)


def test_seed_is_a_disk_and_can_be_replaced(node):
    seed = Seed('{"instance-id": "a"}', "#cloud-config\n{}", "{}")
    first = node.create_seed(POOL, "a-seed", seed)
    assert first in node.disks(POOL)
    longer = node.create_seed(POOL, "a-seed", replace(seed, user_data="#cloud-config\n" + " " * MiB + "{}"))
    assert longer.size > first.size
    assert longer in node.disks(POOL)
    assert first not in node.disks(POOL)
    node.delete_disk(POOL, "a-seed")
    assert "a-seed" not in disk_sizes(node)


# --- machines


def test_definition_is_stored_and_can_be_replaced(lab, new_machine):
    machine = new_machine()
    for node in (lab.node, lab.open_node()):
        status = find_status(node, machine.id)
        assert (status.name, status.power) == (machine.name, Power.off)
        assert not any(status.received.values())
    lab.node.define(machine)
    lab.node.define(replace(machine, name=f"{machine.name}-renamed", memory_mb=96))
    assert find_status(lab.open_node(), machine.id).name == f"{machine.name}-renamed"


def test_invalid_definition_keeps_previous_one(node, new_machine):
    machine = new_machine()
    for impossible in (machine, replace(machine, id=str(uuid.uuid4()))):
        with pytest.raises(Refused):
            node.define(replace(impossible, name="impossible", cpu_cores=0))
        with pytest.raises(NotOnNode):
            node.define(replace(impossible, name="impossible", disks=(Disk(POOL, "never-made", GiB),)))
    assert find_status(node, machine.id).name == machine.name
    assert "impossible" not in [machine.name for machine in node.machines()]


def test_start_and_power_off_can_be_repeated(lab, blank_machine):
    for _ in range(2):
        lab.node.start(blank_machine.id)
        assert get_agreed_power(lab.open_node(), blank_machine.id) == Power.on
    for _ in range(2):
        lab.node.power_off(blank_machine.id)
        assert get_agreed_power(lab.open_node(), blank_machine.id) == Power.off
    lab.node.shutdown(blank_machine.id)
    assert not any(find_status(lab.node, blank_machine.id).received.values())


def test_machine_without_its_disk_stays_off(node, new_machine):
    machine = new_machine()
    node.delete_disk(POOL, machine.disks[0].name)
    with pytest.raises((NotOnNode, Refused)):
        node.start(machine.id)
    assert get_agreed_power(node, machine.id) == Power.off


def test_suspended_machine_can_be_resumed(node, blank_machine):
    node.start(blank_machine.id)
    for _ in range(2):
        node.suspend(blank_machine.id)
        assert get_agreed_power(node, blank_machine.id) == Power.paused
    node.start(blank_machine.id)
    for _ in range(2):
        node.resume(blank_machine.id)
        assert get_agreed_power(node, blank_machine.id) == Power.on
    node.suspend(blank_machine.id)
    node.power_off(blank_machine.id)
    assert get_agreed_power(node, blank_machine.id) == Power.off


def test_running_machine_uses_new_definition_at_next_start(lab, new_machine):
    machine = new_machine(vnc_password="sesame")
    lab.node.start(machine.id)
    other = replace(machine, nics=(build_nic(lab),), vnc=False)
    lab.node.define(other)
    assert list(find_status(lab.node, machine.id).received) == [machine.nics[0].mac]
    lab.node.console(machine.id, "newcomer")
    lab.node.power_off(machine.id)
    lab.node.start(machine.id)
    assert list(find_status(lab.node, machine.id).received) == [other.nics[0].mac]
    with pytest.raises(Refused):
        lab.node.console(machine.id, "newcomer")


def test_nics_can_be_updated_whether_machine_runs_or_not(lab, new_machine):
    machine = new_machine()
    firewall = (
        FirewallRule("in", 4, "tcp", (80, 443), "10.0.0.0/8"),
        FirewallRule("in", 6, "icmp"),
        FirewallRule("out", 4),
    )
    nic = replace(machine.nics[0], addresses=("10.96.0.20", "fd96::20"), prefixes=("fd97::/64",), allowed=firewall)
    for _ in range(2):
        lab.node.update_nics(machine.id, (nic,))
        lab.node.update_nics(machine.id, (replace(nic, inbound_mbps=10, outbound_mbps=5, mail=False), build_nic(lab)))
        lab.node.update_nics(machine.id, (replace(nic, allowed=(), connected=False),))
        lab.node.update_nics(machine.id, (replace(nic, allowed=None),))
        lab.node.start(machine.id)
        assert list(find_status(lab.node, machine.id).received) == [nic.mac]
    lab.node.update_nics(machine.id, ())
    with pytest.raises(NotOnNode):
        lab.node.update_nics(str(uuid.uuid4()), (nic,))


def test_deleted_machine_is_gone_and_its_disks_stay(node, new_machine):
    machine = new_machine()
    node.start(machine.id)
    node.delete(machine.id)
    assert find_status(node, machine.id) is None
    assert machine.disks[0] in node.disks(POOL)
    node.delete(machine.id)


def test_calls_for_unknown_machine_raise_not_on_node(node):
    nobody = str(uuid.uuid4())
    for call in (node.start, node.shutdown, node.power_off, node.restart, node.reset, node.suspend, node.resume):
        with pytest.raises(NotOnNode):
            call(nobody)
    for call in (node.agent_ping, node.agent_addresses):
        with pytest.raises(NotOnNode):
            call(nobody)
    with pytest.raises(NotOnNode):
        node.console(nobody, "newcomer")
    node.delete(nobody)


def test_machine_that_is_off_has_no_console_and_cannot_restart(node, new_machine):
    machine = new_machine(vnc_password="sesame")
    with pytest.raises(Refused):
        node.restart(machine.id)
    with pytest.raises(Refused):
        node.console(machine.id, "newcomer")
    assert get_agreed_power(node, machine.id) == Power.off


def test_machine_without_vnc_password_has_no_console(node, new_machine):
    machine = new_machine(vnc_password="")
    node.start(machine.id)
    with pytest.raises(Refused):
        node.console(machine.id, "newcomer")


def test_screenshot_is_a_png_of_a_running_machine(node, blank_machine, new_machine):
    off = new_machine()
    with pytest.raises(Refused):
        node.screenshot(off.id)
    with pytest.raises(NotOnNode):
        node.screenshot(str(uuid.uuid4()))
    node.start(blank_machine.id)
    image = node.screenshot(blank_machine.id)
    assert image.startswith(b"\x89PNG")
    width, height = (int.from_bytes(image[start : start + 4]) for start in (16, 20))
    assert (width > 0, height > 0) == (True, True)


def test_console_endpoint_accepts_connections(node, blank_machine):
    node.start(blank_machine.id)
    endpoint = node.console(blank_machine.id, "newcomer")
    assert (endpoint.password, endpoint.via) == ("newcomer", None)
    with socket.create_connection((endpoint.host, endpoint.port), timeout=10) as connection:
        assert connection.recv(8) == b"RFB 003."


def test_console_accepts_only_latest_password_also_when_suspended(lab, node, new_machine):
    machine = new_machine(vnc_password="sesame")
    node.start(machine.id)

    def accepted(endpoint, *passwords):
        return [password for password in passwords if lab.is_vnc_password(node, machine.id, endpoint, password)]

    endpoint = node.console(machine.id, "first&<'")
    assert accepted(endpoint, "sesame", "first&<'", "other", "") == ["first&<'"]
    node.suspend(machine.id)
    endpoint = lab.open_node().console(machine.id, "second")
    assert accepted(endpoint, "sesame", "first&<'", "second") == ["second"]
    assert accepted(lab.open_node().console(machine.id, "second"), "second") == ["second"]


def test_console_password_is_forgotten_at_power_off(lab, node, new_machine):
    machine = new_machine(vnc_password="sesame")
    node.start(machine.id)
    node.console(machine.id, "newcomer")
    node.reset(machine.id)
    endpoint = node.console(machine.id, "newcomer")
    assert lab.is_vnc_password(node, machine.id, endpoint, "newcomer")
    node.power_off(machine.id)
    node.start(machine.id)
    assert not lab.is_vnc_password(node, machine.id, endpoint, "newcomer")


def test_machine_without_guest_has_no_agent_and_ignores_shutdown(node, blank_machine, new_machine):
    node.start(blank_machine.id)
    for machine in (blank_machine, new_machine()):
        with pytest.raises(AgentUnavailable):
            node.agent_ping(machine.id)
    node.shutdown(blank_machine.id)
    assert get_agreed_power(node, blank_machine.id) == Power.on


def test_reset_machine_boots_again(node, blank_machine):
    """The firmware reads the disk again."""
    node.start(blank_machine.id)
    before = wait_until(lambda: (status := find_status(node, blank_machine.id)).disk_reads and status)
    assert before.disk_read > 0
    node.reset(blank_machine.id)
    wait_until(lambda: find_status(node, blank_machine.id).disk_read > before.disk_read)
    assert get_agreed_power(node, blank_machine.id) == Power.on


def test_watch_events_reports_changes_of_every_client(lab, blank_machine, new_machine):
    events, stop, removed = queue.SimpleQueue(), threading.Event(), new_machine()
    watched = lab.open_node()
    watcher = threading.Thread(target=watched.watch_events, args=(lambda *event: events.put(event), stop.is_set))
    watcher.start()

    def is_watching():
        lab.node.suspend(blank_machine.id)
        lab.node.resume(blank_machine.id)
        return not events.empty()

    def wait_for_event(*expected):
        """Events may repeat, and those before the watcher was ready are lost."""
        while events.get(timeout=10) != expected:
            pass

    try:
        lab.node.start(blank_machine.id)
        wait_until(is_watching)
        lab.node.power_off(blank_machine.id)
        wait_for_event(blank_machine.id, Power.off)
        lab.node.start(blank_machine.id)
        wait_for_event(blank_machine.id, Power.on)
        lab.node.suspend(blank_machine.id)
        wait_for_event(blank_machine.id, Power.paused)
        lab.node.delete(removed.id)
        wait_for_event(removed.id, None)
    finally:
        stop.set()
        watcher.join(timeout=10)
    assert not watcher.is_alive()
    watched.close()


def test_node_can_be_called_by_concurrent_threads(lab):
    def create_and_delete(number):
        disk = Disk(POOL, f"contract-thread-{number}", 64 * MiB)
        machine = Machine(str(uuid.uuid4()), f"contract-thread-{number}", 1, 64, (disk,))
        for _ in range(3):
            lab.node.create_disk(disk)
            lab.node.define(machine)
            assert find_status(lab.node, machine.id).power == Power.off
            assert disk_sizes(lab.node)[disk.name] == disk.size
            lab.node.delete(machine.id)
            lab.node.delete_disk(POOL, disk.name)
        return machine.id

    with ThreadPoolExecutor(6) as threads:
        machine_ids = list(threads.map(create_and_delete, range(6)))
    assert not {machine.id for machine in lab.node.machines()} & set(machine_ids)
    assert not [name for name in disk_sizes(lab.node) if name.startswith("contract-thread-")]


# --- inside a guest


def test_guest_is_configured_by_its_seed(node, guest):
    assert node.agent_run(guest.id, ["hostname"]).output == "guest\n"
    [nic] = guest.nics
    assert set(nic.addresses) <= set(node.agent_addresses(guest.id)[nic.mac])
    assert "127.0.0.1" not in itertools.chain.from_iterable(node.agent_addresses(guest.id).values())


def test_agent_runs_programs_in_guest(node, guest):
    assert node.agent_run(guest.id, ["echo", "a  b", "ü"]).output == "a  b ü\n"
    assert node.agent_run(guest.id, ["cat"], stdin="line\nline ü\n").output == "line\nline ü\n"
    assert node.agent_run(guest.id, ["true"]).exit_code == 0
    assert node.agent_run(guest.id, ["false"]).exit_code == 1
    assert node.agent_run(guest.id, ["cat", "/no/such/file"]).exit_code == 1
    with pytest.raises(Refused):
        node.agent_run(guest.id, ["no-such-program"])
    with pytest.raises(AgentUnavailable):
        node.agent_run(guest.id, ["sleep", "3"], deadline=0.5)


def test_agent_sets_password(lab, guest):
    assert not lab.can_sign_in(lab.node, guest.id, "root", "correct horse")
    lab.node.agent_set_password(guest.id, "root", "correct horse")
    assert lab.can_sign_in(lab.node, guest.id, "root", "correct horse")
    assert not lab.can_sign_in(lab.node, guest.id, "root", "wrong horse")


def test_guest_sees_its_disk_grow(node, guest):
    disk = guest.disks[0]
    size = disk_sizes(node)[disk.name] + 64 * MiB
    for requested_size in (size, size, disk.size):
        node.grow_disk(replace(disk, size=requested_size), guest.id)
        assert disk_sizes(node)[disk.name] == size
        assert int(node.agent_run(guest.id, ["cat", "/sys/class/block/vda/size"]).output) * 512 == size


def test_guest_sees_its_nic_disconnected_and_connected(node, guest):
    def carrier():
        return node.agent_run(guest.id, ["cat", "/sys/class/net/eth0/carrier"]).output.strip()

    [nic] = guest.nics
    assert carrier() == "1"
    node.update_nics(guest.id, (replace(nic, connected=False),))
    wait_until(lambda: carrier() == "0")
    node.update_nics(guest.id, (nic,))
    wait_until(lambda: carrier() == "1")


def test_counters_of_running_guest_grow(node, guest):
    before = find_status(node, guest.id)
    assert before.memory_used > 0
    assert set(before.received) == set(before.sent) == {guest.nics[0].mac}
    after = wait_until(lambda: (now := find_status(node, guest.id)).cpu_seconds > before.cpu_seconds and now)
    assert after.received[guest.nics[0].mac] >= before.received[guest.nics[0].mac]
    assert after.disk_read >= before.disk_read
    assert after.disk_reads >= before.disk_reads
    assert after.guest_memory is None or 0 < after.guest_memory < guest.memory_mb * MiB


def test_start_does_not_disturb_running_guest(node, guest):
    before = read_boot_id(node, guest.id)
    node.start(guest.id)
    assert read_boot_id(node, guest.id) == before


def test_suspended_guest_does_not_answer_until_resumed(node, guest):
    before = read_boot_id(node, guest.id)
    node.suspend(guest.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(guest.id)
    node.resume(guest.id)
    wait_for_agent(node, guest.id)
    assert read_boot_id(node, guest.id) == before


def test_restarting_guest_never_counts_as_off(node, guest):
    before = read_boot_id(node, guest.id)
    node.restart(guest.id)

    def has_restarted():
        assert get_agreed_power(node, guest.id) == Power.on
        return is_agent_answering(node, guest.id) and read_boot_id(node, guest.id) != before

    wait_until(has_restarted)


def test_guest_turns_itself_off_at_shutdown(node, guest):
    node.shutdown(guest.id)
    wait_until(lambda: get_agreed_power(node, guest.id) == Power.off)
    node.shutdown(guest.id)
    with pytest.raises(AgentUnavailable):
        node.agent_ping(guest.id)


def read_virtual_size(path):
    with path.open("rb") as file:
        return int.from_bytes(file.read(32)[24:], "big")


# --- guest agents


def test_ping_agents_pings_many_in_one_call(lab, node, guest, new_machine):
    silent, off = new_machine(), new_machine()
    node.start(silent.id)
    ids = [guest.id, silent.id, off.id, str(uuid.uuid4())]
    wait_until(lambda: node.ping_agents(ids) == {guest.id: True, silent.id: False})
    assert node.ping_agents([]) == {}
    assert node.ping_agents(ids, seconds=-1) in ({}, {guest.id: True, silent.id: False})
    node.power_off(silent.id)
    node.power_off(guest.id)
    assert node.ping_agents(ids) == {}
    lab.restore_guest()
    wait_until(lambda: node.ping_agents(ids) == {guest.id: True})


def test_agent_reports_file_systems(node, guest):
    [root] = [system for system in node.agent_filesystems(guest.id) if system.mountpoint == "/"]
    assert root.kind == "ext4"
    assert 0 < root.used < root.size <= disk_sizes(node)[guest.disks[0].name]
    node.power_off(guest.id)
    with pytest.raises(AgentUnavailable):
        node.agent_filesystems(guest.id)


def test_tpm_is_provided_or_refused(node, new_machine):
    """A node with TPMs starts the machine with one; another node keeps the previous definition."""
    machine = new_machine()
    node.define(machine)
    with_tpm = replace(machine, tpm=True)
    if not node.capabilities().tpm:
        with pytest.raises(Refused):
            node.define(with_tpm)
        node.start(machine.id)
    else:
        node.define(with_tpm)
        node.start(machine.id)
    assert find_status(node, machine.id).power is Power.on
