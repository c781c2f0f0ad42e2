"""A whole installation with a real hypervisor, set up by the command line and the admin API."""

import contextlib
import ipaddress
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import libvirt
import pytest

from tests.support.panel_processes import Customer, Installation
from tests.support.waiting import WAIT_TIMEOUT_SECONDS, wait_until

CUSTOMER_EMAIL, CUSTOMER_PASSWORD = "ada@example.com", "a long test password"
OPERATOR_EMAIL = "operator@example.com"
SAVED_HOSTNAME, SAVED_PASSWORD = "saved.example.com", "long enough 7"
"""The host name and root's password in the saved instance."""

BOOT_FINISHED_COMMAND = (
    "cd /var/lib/cloud/instance; [ -e boot-finished ] || sleep 1; [ -e boot-finished ] && sync && echo finished"
)
SAVED_MEMORY_PATH = "/var/lib/libvirt/saved-instance"
"""Where the node's daemon keeps the memory of the saved instance: in its directory `lib`."""


class InstallationClient(Customer):
    """API calls of the installation's customer and, by `call_admin`, of its operator."""

    def call_admin(self, method, path, body=None):
        status, answer = self.installation.call(method, f"/api/v1{path}", body, self.operator)
        assert status < 400, answer
        return answer.get("data")

    def add_hypervisor(self, name, hypervisor):
        """Add a real node to the location and return its id."""
        node = {
            "name": name,
            "hypervisor_group_id": self.location,
            "driver": "libvirt",
            "uri": hypervisor.uri,
            "storage_path": str(hypervisor.directory / "disks"),
        }
        return self.call_admin("POST", "/hypervisors", node)["hypervisor_id"]

    def wait_for_hypervisor(self, hypervisor_id):
        wait_until(lambda: self.call_admin("GET", f"/hypervisor/{hypervisor_id}")["status"] == "up", "the hypervisor")

    def create(self, **values):
        body = {"location_id": self.location, "plan_id": self.plan, **values}
        return self.call("POST", "/api/cloud-service/instances", body)["instance"]

    def install(self, instance, **values):
        """Deploy the tiny image and wait until the task has ended."""
        body = {"image_id": self.image, **values}
        answer = self.call("POST", f"/api/instance/{instance['id']}/deploy", body)
        self.wait_for_task(answer["task_id"])
        return answer

    def get_instance(self, instance):
        return self.call("GET", f"/api/instance/{instance['id']}")

    def run_power_action(self, instance, action):
        answer = self.call("POST", f"/api/instance/{instance['id']}/power/{action}")
        assert answer.get("task_id"), f"{action} started no task: {answer}"
        return self.wait_for_task(answer["task_id"])

    def wait_for_state(self, instance, state):
        return wait_until(lambda: self.get_instance(instance)["state"] == state, f"the state {state}")

    def wait_until_booted(self, instance):
        """Wait until the first boot has ended, and write everything to the disk."""
        ip = self.get_instance(instance)["primary_public_ip"]["ip"]
        wait_until(lambda: "finished" in self.ssh(ip, BOOT_FINISHED_COMMAND), "the end of the first boot")

    def switch_option(self, instance, option, action):
        """Enable or disable `tpm`, `vnc` or `secure-boot`. Before the deploy this starts no task."""
        answer = self.call("POST", f"/api/instance/{instance['id']}/{option}/{action}")
        if answer.get("task_id"):
            self.wait_for_task(answer["task_id"])

    def capture_image(self, instance, name, **values):
        """Make an image of the instance's disk and wait until it is available. Return its id."""
        body = {"instance_id": instance["id"], "name": name, **values}
        image = self.call("POST", "/api/images", body)["image"]["id"]
        wait_until(lambda: self.find_image(image)["status"] == "available", "the image")
        return image

    def find_image(self, image_id):
        image = next(
            listed_image for listed_image in self.call("GET", "/api/images")["data"] if listed_image["id"] == image_id
        )
        assert image["status"] != "error", self.call("GET", "/api/tasks")["data"][0]
        return image

    def read_boot_id(self, ip):
        """Return what the guest's kernel calls this boot."""
        return self.ssh(ip, "cat /proc/sys/kernel/random/boot_id").strip()

    def destroy(self, instance):
        self.wait_for_task(self.call("DELETE", f"/api/cloud-service/instances/{instance['id']}")["task_id"])

    def ssh(self, ip, command, *, stdin=None, wait_seconds=WAIT_TIMEOUT_SECONDS):
        """Return the output of a command in the guest. Tries again until SSH connects."""
        options = "StrictHostKeyChecking=no UserKnownHostsFile=/dev/null ConnectTimeout=5 BatchMode=yes LogLevel=ERROR"
        ssh_options = [f"-o{option}" for option in options.split()]
        until = time.monotonic() + wait_seconds
        while True:
            line = ["ssh", *ssh_options, "-i", self.key, f"root@{ip}", command]
            done = subprocess.run(line, input=stdin, capture_output=True, text=True, timeout=60)
            if done.returncode != 255:
                return done.stdout
            assert time.monotonic() < until, done.stderr
            time.sleep(0.3)


@dataclass(frozen=True)
class InstallationTemplate:
    """A data directory that has never run: a customer, an operator, a token of each, and the tiny image."""

    data_dir: Path
    customer_token: str
    operator_token: str


def create_template(data_dir, cache):
    """Set up a data directory. Takes a dozen processes and an image build, so installations copy it."""
    (data_dir / "cache").symlink_to(cache)
    run_panel = Installation(data_dir).run_panel
    run_panel("db", "upgrade")
    for email, *role in ((CUSTOMER_EMAIL,), (OPERATOR_EMAIL, "--operator")):
        run_panel("user", "create", "--email", email, "--password", CUSTOMER_PASSWORD, *role)
    run_panel("image", "build", "tiny")
    customer_token = run_panel("token", "user", "--email", CUSTOMER_EMAIL).strip()
    options = ("--ip", "127.0.0.1", "--name", "lab", "--description", "guest tests")
    return InstallationTemplate(data_dir, customer_token, run_panel("token", "admin", *options).strip())


@contextlib.contextmanager
def run_installation(data_dir, hypervisor, template, **settings):
    """Run an installation with one real node until the block ends. `settings` are environment variables."""
    shutil.copytree(template.data_dir, data_dir, symlinks=True, dirs_exist_ok=True)
    installation = Installation(data_dir, PANEL_WEB_WORKERS="1", **settings)
    try:
        installation.start_all()
        lab = InstallationClient(installation, template.customer_token)
        lab.operator = template.operator_token
        create_resources(lab, hypervisor)
        yield lab
        for instance in lab.call("GET", "/api/instances")["data"]:
            lab.destroy(instance)
    finally:
        installation.kill_processes()


def create_resources(lab, hypervisor):
    """Create a location with a real node, a plan, subnets of its bridge and an SSH key. Backups have no speed limit."""
    lab.call_admin("POST", "/system/settings", {"backup_bandwidth_per_hypervisor": 0})
    lab.location = lab.call_admin("POST", "/hypervisor/groups", {"name": "lab", "display_name": "Laboratory"})["id"]
    lab.node = lab.add_hypervisor("node-1", hypervisor)
    group = {"name": "standard", "display_name": "Standard", "hypervisor_groups": [lab.location]}
    group_id = lab.call_admin("POST", "/cloud-service/plan-groups", group)["id"]
    plan = {"name": "Tiny", "plan_group_id": group_id, "cpu_cores": 1, "ram": 256, "storage": 1}
    lab.plan = lab.call_admin("POST", "/instance/plans", plan)["id"]
    for gateway in map(ipaddress.ip_interface, (hypervisor.network.gateway4, hypervisor.network.gateway6)):
        subnet = {"name": f"v{gateway.version}", "cidr": str(gateway.network), "gateway": str(gateway.ip)}
        lab.call_admin("POST", "/subnets", {**subnet, "hypervisor_group_id": lab.location})
    lab.image = lab.call("GET", "/api/images/search")["results"][0]["children"][0]["id"]
    key_pair = lab.call("POST", "/api/ssh-key/generate", {"name": "lab", "algorithm": "ed25519"})
    lab.key, lab.key_id = Path(lab.installation.data_dir) / "key", key_pair["ssh_key"]["id"]
    lab.key.write_text(key_pair["private_key"])
    lab.key.chmod(0o600)
    lab.wait_for_hypervisor(lab.node)


class SavedInstance:
    """A running instance that returns, in less than a second, to what it was after its first boot.

    libvirt keeps the memory in a file. The disk is copied back, so it must be the only one again, and without
    snapshots or a live session: what a test adds to the instance it takes away. Addresses, plan and firmware stay.
    """

    def __init__(self, lab, hypervisor):
        self.lab, self.hypervisor = lab, hypervisor
        self.instance = lab.create(display_name="Saved", hostname=SAVED_HOSTNAME)
        self.disk = hypervisor.directory / "disks" / f"{self.instance['name']}-0.qcow2"
        self.disk_copy = lab.installation.data_dir / "saved-disk"
        lab.install(self.instance, ssh_keys=[lab.key_id], password=SAVED_PASSWORD)
        lab.wait_until_booted(self.instance)
        wait_until(
            lambda: lab.call("GET", f"/api/instance/{self.instance['id']}/guest-ips")["data"], "the agent's report"
        )
        with contextlib.closing(libvirt.open(hypervisor.uri)) as connection:
            connection.lookupByUUIDString(self.instance["id"]).save(SAVED_MEMORY_PATH)
        lab.wait_for_state(self.instance, "stopped")
        shutil.copyfile(self.disk, self.disk_copy)

    def restore(self):
        """Return the instance, which runs as after its first boot, whatever it did until now."""
        self.power_off()
        shutil.copyfile(self.disk_copy, self.disk)  # the file stays the same one, with its owner
        with contextlib.closing(libvirt.open(self.hypervisor.uri)) as connection:
            connection.restore(SAVED_MEMORY_PATH)
        self.lab.wait_for_state(self.instance, "running")
        return self.lab.get_instance(self.instance)

    def power_off(self):
        if self.lab.get_instance(self.instance)["state"] != "stopped":
            self.lab.run_power_action(self.instance, "poweroff")


@pytest.fixture(scope="session")
def installation_template(tmp_path_factory, guest_cache):
    return create_template(tmp_path_factory.mktemp("template"), guest_cache)


@pytest.fixture(scope="session")
def lab(tmp_path_factory, hypervisor, installation_template, file_server_authority):
    """The installation of this test run. It accepts loopback addresses, so nodes can use the tests' file server."""
    local = {"PANEL_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "PANEL_WEBHOOK_CA": file_server_authority.pem}
    with run_installation(tmp_path_factory.mktemp("lab"), hypervisor, installation_template, **local) as client:
        yield client


@pytest.fixture(scope="session")
def saved_instance(lab, hypervisor):
    """The saved instance itself, for tests that restore it more than once."""
    return SavedInstance(lab, hypervisor)


@pytest.fixture(scope="module")
def guest(saved_instance):
    """A running instance as it is after its first boot, shared by the tests of a module. Modules whose instance must
    be deployed in another way define their own fixture of this name."""
    yield saved_instance.restore()
    saved_instance.power_off()


@pytest.fixture(scope="session")
def debian_image(lab):
    """Build the panel's Debian image and add it to the catalog. Return its file."""
    lab.installation.run_panel("image", "build", "debian")
    return Path(lab.installation.data_dir) / "images" / "debian.qcow2"
