"""Every task of a machine, at every call of its node that changes something: the answer is lost after the node did it,
or the worker is killed then. When the node is back and the sweep went by, the rows tell the truth, nothing lies on the
node that no row knows, what the guest had written is there, and who asks once more gets what the task is for."""

from importlib import import_module
from pathlib import Path

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import catalog, forges, snapshots, ssh_keys
from tests.live_snapshots.conftest import GuestFile
from worker.engine.registry import TASK_TYPES
from worker.nodes.base import NodeDriver, Power
from worker.nodes.simulated import SimulatedNode
from worker.sync import node_sync as looks
from worker.tasks.machine_spec import seed_name
from worker.tasks.spec_rescue import is_in_rescue, rescue_disks

SSH_PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE3BPBvLBnIaEWOZcgHQcnIuQGCYaG3NV6ZyZnDGZsW1 ada@laptop"
READ_ONLY_CALLS = frozenset({"power", "has_image", "ping", "agent_ping"})
"""Calls that change nothing."""

REQUESTS = {
    "start": ("owner", "POST", "power/start", {}),
    "stop": ("owner", "POST", "power/stop", {}),
    "shutdown": ("owner", "POST", "power/shutdown", {}),
    "power off": ("owner", "POST", "power/poweroff", {}),
    "restart": ("owner", "POST", "power/restart", {}),
    "reinstall": ("owner", "POST", "reinstall", {"image_id": "image"}),
    "password": ("owner", "POST", "reset-password", {}),
    "keys": ("owner", "POST", "ssh-keys", {"ssh_keys": ["key"]}),
    "larger": ("owner", "POST", "change-plan", {"plan_id": "larger"}),
    "rescue": ("owner", "POST", "rescue", {"enable": True}),
    "leave rescue": ("owner", "POST", "rescue", {"enable": False}),
    "no VNC console": ("owner", "POST", "vnc/disable", {}),
    "suspend": ("admin", "POST", "state/suspend", {}),
    "unsuspend": ("admin", "POST", "state/resume", {}),
    "session": ("owner", "POST", "forge/enable", {}),
    "commit": ("owner", "POST", "forge/commit", {}),
    "discard": ("owner", "POST", "forge/discard", {}),
    "snapshot": ("owner", "POST", "snapshot", {"snapname": "one"}),
    "return": ("owner", "POST", "snapshot/rollback", {"snapname": "one"}),
    "forget": ("owner", "DELETE", "snapshot", {"snapname": "one"}),
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
    "instance_reset_password": (["password"], ["agent_set_password"]),
    "instance_ssh_key_inject": (["keys"], ["agent_run"]),
    "instance_change_plan": (["larger"], ["grow_disk", "agent_run"]),
    "instance_rescue_enable": (["power off", "rescue"], ["create_disk", "create_seed", "define", "start"]),
    "instance_rescue_disable": (
        ["power off", "rescue", "leave rescue"],
        ["shutdown", "delete_disk", "define", "start"],
    ),
    "instance_configure": (["no VNC console"], ["define"]),
    "forge_enable": (["session"], ["create_overlays"]),
    "forge_commit": (["session", "commit"], ["commit_overlay"]),
    "forge_discard": (["session", "discard"], ["power_off", "discard_overlay", "define", "start"]),
    "snapshot_create": (["snapshot"], ["create_snapshot"]),
    "snapshot_rollback": (["snapshot", "return"], ["revert_snapshot", "define", "start"]),
    "snapshot_delete": (["snapshot", "forget"], ["delete_snapshot"]),
    "disk_add": (["add disk"], ["create_disk", "attach_disk"]),
    "disk_resize": (["add disk", "grow disk"], ["grow_disk"]),
    "disk_detach": (["add disk", "detach disk"], ["detach_disk"]),
    "disk_attach": (["add disk", "detach disk", "attach disk"], ["attach_disk"]),
    "disk_delete": (["add disk", "delete disk"], ["detach_disk", "delete_disk"]),
}
"""What is asked for until a task of that kind comes, and the calls by which it changes something."""

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


class Site:
    """A machine whose guest has written something, and who asks for things."""

    def __init__(self, as_, cast, node, work, larger, key):
        self.as_, self.cast, self.node, self.work = as_, cast, node, work
        self.image, self.larger, self.key, self.machine = cast.image, larger, key, cast.instance()
        as_("owner", "POST", f"/api/instance/{self.machine.id}/deploy", json={"image_id": cast.image.id})
        work()
        self.guest = GuestFile(node, self.machine)
        self.guest.write("kept")

    def ask(self, words):
        who, method, path, body = REQUESTS[words]
        body = {field: self.id_of(value) for field, value in body.items()}
        path = path.format(disk=next((disk.id for disk in self.machine.disks if not disk.is_primary), None))
        prefix = "/api/v1" if who == "admin" else "/api"
        return self.as_(who, method, f"{prefix}/instance/{self.machine.id}/{path}", json=body)

    def id_of(self, value):
        if isinstance(value, list):
            return [self.id_of(each) for each in value]
        return getattr(self, value).id if value in ("image", "larger", "key") else value

    def until(self, kind):
        """Everything that comes before the task of that kind; says how that is asked for."""
        *before, last = TASK_CASES[kind][0]
        for words in before:
            assert self.ask(words).status_code == 200
            self.work()
        return last

    def facts(self):
        machine = session.get(Instance, self.machine.id, populate_existing=True)
        forge = forges.find_latest(machine)
        return {
            "state": machine.state,
            "disks": [(disk.size, disk.attached) for disk in machine.disks],
            "plan": machine.plan.name,
            "screen": machine.enable_vnc,
            "rescue": is_in_rescue(machine),
            "snapshots": [(each.name, each.status) for each in snapshots.listing(machine)],
            "session": forge and forge.status,
        }

    def later(self, sweeping):
        """The node is well again, the sweep went by, and somebody looked at the node."""
        self.node.clear()
        self.node.ping()
        sweeping.advance(100)
        self.work()
        looks.reconcile(self.cast.node.id)
        session.commit()

    def tells_the_truth(self):
        machine = session.get(Instance, self.machine.id, populate_existing=True)
        tasks = session.scalars(select(Task).where(Task.resource_id == machine.id)).all()
        assert not [
            (task.kind, task.status, task.rollback_steps)
            for task in tasks
            if task.status in OPEN_STATUSES or task.rollback_pending
        ]
        assert (machine.power == "on", machine.missing_on_node) == (self.node.power(machine.id) is Power.on, False)
        there = {disk.name for disk in self.node.disks("default") if disk.name.startswith(machine.name)}
        known = {seed_name(machine)} | {disk.name for disk in machine.disks}
        known |= {part.name for part in rescue_disks(machine)} if is_in_rescue(machine) else set()
        known |= {f"{disk.name}.forge" for disk in machine.disks} if forges.is_active(machine) else set()
        assert there <= known

    def asks_once_more(self, words, wanted):
        """A machine that was turned off and not on again is turned on by hand: its row says that it is off."""
        if self.facts() != {**wanted, "state": "stopped"}:
            answer = self.ask(words)
            if answer.json.get("reason") == "not_running":
                self.start()
                answer = self.ask(words)
            assert answer.status_code == 200, answer.json
            self.work()
        if (self.facts()["state"], wanted["state"]) == ("stopped", "running"):
            self.start()

    def start(self):
        assert self.ask("start").status_code == 200
        self.work()

    def read(self):
        """What the guest has, once it runs its own system."""
        if is_in_rescue(self.machine):
            self.ask("leave rescue")
            self.work()
        if self.facts()["state"] == "suspended":
            self.ask("unsuspend")
            self.work()
        if self.facts()["state"] == "stopped":
            self.start()
        return self.guest.read()


@pytest.fixture
def site(api_as, cast, node, run_tasks):
    rescue = {"name": "rescue", "label": "Rescue", "distro": "Debian", "version": "12", "purpose": "rescue"}
    catalog.register_image(**rescue, filename="tiny.qcow2", size=64, sha256="ab" * 32)
    larger = {"name": "L", "cpu_cores": 1, "ram": 512, "storage": 20, "bandwidth": 1000, "price": 9}
    larger = catalog.create_plan(cast.plan.group, **larger)
    key = ssh_keys.create(cast.owner, name="key", public_key=SSH_PUBLIC_KEY)
    session.commit()
    return lambda: Site(api_as, cast, node, run_tasks, larger, key)


def test_every_kind_of_task_is_tried():
    assert TASK_CASES.keys() | KINDS_TESTED_ELSEWHERE == TASK_TYPES.keys()


@pytest.fixture
def calls(monkeypatch):
    """What the node is told to do."""
    told = []

    def spied(name, real):
        def call(*args, **more):
            told.append(name)
            return real(*args, **more)

        monkeypatch.setattr(SimulatedNode, name, call)

    for name in NodeDriver.__abstractmethods__:
        spied(name, getattr(SimulatedNode, name))
    return told


@pytest.mark.parametrize("kind", TASK_CASES)
def test_every_call_is_tried(site, kind, calls):
    site = site()
    last = site.until(kind)
    calls.clear()
    assert site.ask(last).status_code == 200
    site.work()
    assert set(calls) - READ_ONLY_CALLS == set(TASK_CASES[kind][1])


EXPECTED_FACTS: dict[str, dict] = {}


def expected_facts(site, kind):
    """What the facts are after a task of that kind."""
    if kind not in EXPECTED_FACTS:
        well = site()
        well.ask(well.until(kind))
        well.work()
        EXPECTED_FACTS[kind] = well.facts()
    return EXPECTED_FACTS[kind]


@pytest.mark.parametrize("fault", ["lost-answer", "killed"])
@pytest.mark.parametrize(("kind", "call"), [(kind, call) for kind, (_, calls) in TASK_CASES.items() for call in calls])
def test_task_survives_fault_at_every_node_call(site, kind, call, fault, kill_worker_at, manual_reaper):
    wanted = expected_facts(site, kind)
    site = site()
    last = site.until(kind)
    site.ask(last)
    asked = session.scalars(select(Task).order_by(Task.id.desc()).limit(1)).one()
    assert asked.kind == kind
    if fault == "killed":
        kill_worker_at(asked, call, after=call != "agent_run")  # which fails where the guest has no such program
    else:
        site.node.fault(call, fault, 1)
        site.work()
    site.later(manual_reaper)
    site.tells_the_truth()
    if site.facts() != wanted:
        site.asks_once_more(last, wanted)
        site.later(manual_reaper)
    assert site.facts() == wanted
    site.tells_the_truth()
    if kind != "instance_reinstall":
        assert site.read() == "kept"
