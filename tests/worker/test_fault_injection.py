"""A lost answer and a killed worker at every changing node call of every task of an instance. After the node recovers
and the reaper runs, the rows agree with the node, no unknown files are left, the guest's data is intact, and a repeated
request succeeds."""

from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import catalog, forges, snapshots, ssh_keys
from tests.support.running_machine import GuestFile
from worker.engine.registry import TASK_TYPES
from worker.nodes.base import NodeDriver, Power
from worker.nodes.simulated import SimulatedNode
from worker.sync import node_sync
from worker.tasks.machine_spec import get_seed_name
from worker.tasks.spec_rescue import build_rescue_disks, is_in_rescue

SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE3BPBvLBnIaEWOZcgHQcnIuQGCYaG3NV6ZyZnDGZsW1 ada@laptop"
READ_ONLY_CALLS = frozenset({"power", "has_image", "ping", "agent_ping"})
"""Node calls that change nothing."""

API_REQUESTS = {
    "start": ("owner", "POST", "power/start", {}),
    "stop": ("owner", "POST", "power/stop", {}),
    "shutdown": ("owner", "POST", "power/shutdown", {}),
    "power off": ("owner", "POST", "power/poweroff", {}),
    "restart": ("owner", "POST", "power/restart", {}),
    "reinstall": ("owner", "POST", "reinstall", {"image_id": "image"}),
    "reset password": ("owner", "POST", "reset-password", {}),
    "inject keys": ("owner", "POST", "ssh-keys", {"ssh_keys": ["key"]}),
    "change plan": ("owner", "POST", "change-plan", {"plan_id": "larger"}),
    "enter rescue": ("owner", "POST", "rescue", {"enable": True}),
    "leave rescue": ("owner", "POST", "rescue", {"enable": False}),
    "disable VNC": ("owner", "POST", "vnc/disable", {}),
    "suspend": ("admin", "POST", "state/suspend", {}),
    "unsuspend": ("admin", "POST", "state/resume", {}),
    "begin session": ("owner", "POST", "forge/enable", {}),
    "commit session": ("owner", "POST", "forge/commit", {}),
    "discard session": ("owner", "POST", "forge/discard", {}),
    "create snapshot": ("owner", "POST", "snapshot", {"snapname": "one"}),
    "roll back": ("owner", "POST", "snapshot/rollback", {"snapname": "one"}),
    "delete snapshot": ("owner", "DELETE", "snapshot", {"snapname": "one"}),
    "add disk": ("admin", "POST", "disks", {"size": 2}),
    "grow disk": ("admin", "PATCH", "disk/{disk}", {"size": 3}),
    "attach disk": ("owner", "POST", "disk/{disk}/attach", {}),
    "detach disk": ("owner", "POST", "disk/{disk}/detach", {}),
    "delete disk": ("owner", "POST", "disk/{disk}/delete", {}),
}
TASK_CASES = {
    "instance_start": (["power off", "start"], ["define", "start"]),
    "instance_stop": (["stop"], ["shutdown"]),
    "instance_shutdown": (["shutdown"], ["shutdown"]),
    "instance_poweroff": (["power off"], ["power_off"]),
    "instance_restart": (["restart"], ["restart"]),
    "instance_suspend": (["suspend"], ["shutdown"]),
    "instance_unsuspend": (["suspend", "unsuspend"], ["define", "start"]),
    "instance_reinstall": (
        ["reinstall"],
        ["create_disk", "create_seed", "power_off", "define", "start", "delete_disk"],
    ),
    "instance_reset_password": (["reset password"], ["agent_set_password"]),
    "instance_ssh_key_inject": (["inject keys"], ["agent_run"]),
    "instance_change_plan": (["change plan"], ["grow_disk", "agent_run"]),
    "instance_rescue_enable": (["power off", "enter rescue"], ["create_disk", "create_seed", "define", "start"]),
    "instance_rescue_disable": (
        ["power off", "enter rescue", "leave rescue"],
        ["shutdown", "delete_disk", "define", "start"],
    ),
    "instance_configure": (["disable VNC"], ["define"]),
    "forge_enable": (["begin session"], ["create_overlays"]),
    "forge_commit": (["begin session", "commit session"], ["commit_overlay"]),
    "forge_discard": (["begin session", "discard session"], ["power_off", "discard_overlay", "define", "start"]),
    "snapshot_create": (["create snapshot"], ["create_snapshot"]),
    "snapshot_rollback": (["create snapshot", "roll back"], ["revert_snapshot", "define", "start"]),
    "snapshot_delete": (["create snapshot", "delete snapshot"], ["delete_snapshot"]),
    "disk_add": (["add disk"], ["create_disk", "attach_disk"]),
    "disk_resize": (["add disk", "grow disk"], ["grow_disk"]),
    "disk_detach": (["add disk", "detach disk"], ["detach_disk"]),
    "disk_attach": (["add disk", "detach disk", "attach disk"], ["attach_disk"]),
    "disk_delete": (["add disk", "delete disk"], ["detach_disk", "delete_disk"]),
}
"""The requests up to a task of that kind, and the changing node calls of the task."""

KINDS_TESTED_ELSEWHERE = {
    "instance_deploy",
    "instance_destroy",  # test_faults.py, test_task.py
    "instance_self_deploy",
    "instance_ssh_session",
    "instance_repair",
    "iso_mount",
    "iso_unmount",
    "media_download",
    "media_delete",
    "image_capture",
    "image_delete",
    "volume_create",
    "volume_attach",
    "volume_detach",
    "volume_resize",
    "volume_delete",
    "volume_forget",
    "firewall_apply",
    "volume_snapshot",
    "volume_snapshot_delete",
    "volume_restore",
    "migration_live",
    "migration_cold",
    "migration_cleanup",
    "hypervisor_discover",
    "hypervisor_remove_orphan",
    "hypervisor_adopt",
    "hypervisor_evacuate",
    "certificate_order",
    "docker_install",
    "docker_deploy",
    "docker_control",
    "docker_remove",
    "docker_probe",  # tests/docker_deployments
}

for path in sorted(Path(__file__).parents[1].glob("*/task_cases.py")):
    KINDS_TESTED_ELSEWHERE |= import_module(f"tests.{path.parent.name}.task_cases").KINDS_TESTED_HERE


class FaultScenario:
    """A deployed instance whose guest has written a file, and the requests that are sent for it."""

    def __init__(self, api_as, cast, node, run_tasks, larger, key):
        self.api_as, self.cast, self.node, self.run_tasks = api_as, cast, node, run_tasks
        self.image, self.larger, self.key, self.instance = cast.image, larger, key, cast.instance()
        api_as("owner", "POST", f"/api/instance/{self.instance.id}/deploy", json={"image_id": cast.image.id})
        run_tasks()
        self.guest = GuestFile(node, self.instance)
        self.guest.write("kept")

    def send_request(self, name):
        account, method, path, body = API_REQUESTS[name]
        body = {field: self.resolve_ids(value) for field, value in body.items()}
        path = path.format(disk=next((disk.id for disk in self.instance.disks if not disk.is_primary), None))
        prefix = "/api/v1" if account == "admin" else "/api"
        return self.api_as(account, method, f"{prefix}/instance/{self.instance.id}/{path}", json=body)

    def resolve_ids(self, value):
        if isinstance(value, list):
            return [self.resolve_ids(item) for item in value]
        return getattr(self, value).id if value in ("image", "larger", "key") else value

    def prepare_task(self, kind):
        """Run all tasks before the task of that kind. Return the name of its request."""
        *before, last = TASK_CASES[kind][0]
        for name in before:
            assert self.send_request(name).status_code == 200
            self.run_tasks()
        return last

    def read_facts(self):
        instance = session.get(Instance, self.instance.id, populate_existing=True)
        forge = forges.find_latest(instance)
        return {
            "state": instance.state,
            "disks": [(disk.size, disk.attached) for disk in instance.disks],
            "plan": instance.plan.name,
            "screen": instance.enable_vnc,
            "rescue": is_in_rescue(instance),
            "snapshots": [(snapshot.name, snapshot.status) for snapshot in snapshots.listing(instance)],
            "session": forge and forge.status,
        }

    def recover(self, manual_reaper):
        """Clear the faults, run the reaper and the waiting tasks, and reconcile the node."""
        self.node.clear()
        self.node.ping()
        manual_reaper.advance(100)
        self.run_tasks()
        node_sync.reconcile(self.cast.node.id)
        session.commit()

    def assert_consistent(self):
        instance = session.get(Instance, self.instance.id, populate_existing=True)
        tasks = session.scalars(select(Task).where(Task.resource_id == instance.id)).all()
        assert not [
            (task.kind, task.status, task.rollback_steps)
            for task in tasks
            if task.status in OPEN_STATUSES or task.rollback_pending
        ]
        assert (instance.power == "on", instance.missing_on_node) == (self.node.power(instance.id) is Power.on, False)
        disk_names = {disk.name for disk in self.node.disks("default") if disk.name.startswith(instance.name)}
        expected_names = {get_seed_name(instance)} | {disk.name for disk in instance.disks}
        expected_names |= (
            {rescue_disk.name for rescue_disk in build_rescue_disks(instance)} if is_in_rescue(instance) else set()
        )
        expected_names |= {f"{disk.name}.forge" for disk in instance.disks} if forges.is_active(instance) else set()
        assert disk_names <= expected_names

    def repeat_request(self, name, expected):
        """An instance that is off by its row must be started by a request of its own."""
        if self.read_facts() != {**expected, "state": "stopped"}:
            answer = self.send_request(name)
            if answer.json.get("reason") == "not_running":
                self.start()
                answer = self.send_request(name)
            assert answer.status_code == 200, answer.json
            self.run_tasks()
        if (self.read_facts()["state"], expected["state"]) == ("stopped", "running"):
            self.start()

    def start(self):
        assert self.send_request("start").status_code == 200
        self.run_tasks()

    def read_guest_file(self):
        """Return the content of the guest's file, after the instance runs its own system."""
        if is_in_rescue(self.instance):
            self.send_request("leave rescue")
            self.run_tasks()
        if self.read_facts()["state"] == "suspended":
            self.send_request("unsuspend")
            self.run_tasks()
        if self.read_facts()["state"] == "stopped":
            self.start()
        return self.guest.read()


@pytest.fixture
def create_scenario(api_as, cast, node, run_tasks):
    rescue = {"name": "rescue", "label": "Rescue", "distro": "Debian", "version": "12", "purpose": "rescue"}
    catalog.register_image(**rescue, filename="tiny.qcow2", size=64, sha256="ab" * 32)
    larger = {"name": "L", "cpu_cores": 1, "ram": 512, "storage": 20, "bandwidth": 1000, "price": 9}
    larger = catalog.create_plan(cast.plan.group, **larger)
    key = ssh_keys.create(cast.owner, name="key", public_key=SSH_PUBLIC_KEY)
    session.commit()
    return lambda: FaultScenario(api_as, cast, node, run_tasks, larger, key)


def test_every_task_kind_has_fault_cases():
    assert TASK_CASES.keys() | KINDS_TESTED_ELSEWHERE == TASK_TYPES.keys()


@pytest.fixture
def node_calls(monkeypatch):
    """The names of the node operations that were called."""
    names = []

    def record_calls(name, real):
        def call(*args, **options):
            names.append(name)
            return real(*args, **options)

        monkeypatch.setattr(SimulatedNode, name, call)

    for name in NodeDriver.__abstractmethods__:
        record_calls(name, getattr(SimulatedNode, name))
    return names


@pytest.mark.parametrize("kind", TASK_CASES)
def test_task_cases_list_all_changing_node_calls(create_scenario, kind, node_calls):
    scenario = create_scenario()
    last = scenario.prepare_task(kind)
    node_calls.clear()
    assert scenario.send_request(last).status_code == 200
    scenario.run_tasks()
    assert set(node_calls) - READ_ONLY_CALLS == set(TASK_CASES[kind][1])


EXPECTED_FACTS: dict[str, dict] = {}


def get_expected_facts(create_scenario, kind):
    """Return the facts after a task of that kind without faults."""
    if kind not in EXPECTED_FACTS:
        scenario = create_scenario()
        scenario.send_request(scenario.prepare_task(kind))
        scenario.run_tasks()
        EXPECTED_FACTS[kind] = scenario.read_facts()
    return EXPECTED_FACTS[kind]


@pytest.mark.parametrize("fault", ["lost-answer", "killed"])
@pytest.mark.parametrize(
    ("kind", "call"), [(kind, call) for kind, (_, node_calls) in TASK_CASES.items() for call in node_calls]
)
def test_task_survives_fault_at_every_node_call(create_scenario, kind, call, fault, kill_worker_at, manual_reaper):
    expected = get_expected_facts(create_scenario, kind)
    scenario = create_scenario()
    last = scenario.prepare_task(kind)
    scenario.send_request(last)
    task = session.scalars(select(Task).order_by(Task.id.desc()).limit(1)).one()
    assert task.kind == kind
    if fault == "killed":
        kill_worker_at(task, call, after=call != "agent_run")  # agent_run fails when the guest lacks the program
    else:
        scenario.node.fault(call, fault, 1)
        scenario.run_tasks()
    scenario.recover(manual_reaper)
    scenario.assert_consistent()
    if scenario.read_facts() != expected:
        scenario.repeat_request(last, expected)
        scenario.recover(manual_reaper)
    assert scenario.read_facts() == expected
    scenario.assert_consistent()
    if kind != "instance_reinstall":
        assert scenario.read_guest_file() == "kept"
