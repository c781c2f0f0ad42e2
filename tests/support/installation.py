"""A whole installation with a real hypervisor, set up by the command line and the admin API."""

import contextlib
import ipaddress
import subprocess
import time
from pathlib import Path

import pytest

from tests.processes.conftest import WAIT_TIMEOUT_SECONDS, Customer, Installation, wait_until

CUSTOMER_EMAIL, CUSTOMER_PASSWORD = "ada@example.com", "a long test password"


class InstallationClient(Customer):
    """API calls of the installation's customer and, by `admin`, of its operator."""

    def admin(self, method, path, body=None):
        status, answer = self.at.call(method, f"/api/v1{path}", body, self.operator)
        assert status < 400, answer
        return answer.get("data")

    def create(self, **values):
        body = {"location_id": self.location, "plan_id": self.plan, **values}
        return self.call("POST", "/api/cloud-service/instances", body)["instance"]

    def install(self, instance, **values):
        """Deploy the tiny image and wait until the task has ended."""
        body = {"image_id": self.image, **values}
        answer = self.call("POST", f"/api/instance/{instance['id']}/deploy", body)
        self.finished(answer["task_id"])
        return answer

    def show(self, instance):
        return self.call("GET", f"/api/instance/{instance['id']}")

    def power(self, instance, action):
        answer = self.call("POST", f"/api/instance/{instance['id']}/power/{action}")
        assert answer.get("task_id"), f"{action} started no task: {answer}"
        return self.finished(answer["task_id"])

    def reaches(self, instance, state):
        return wait_until(lambda: self.show(instance)["state"] == state, f"the state {state}")

    def destroy(self, instance):
        self.finished(self.call("DELETE", f"/api/cloud-service/instances/{instance['id']}")["task_id"])

    def ssh(self, ip, command, *, stdin=None, wait_seconds=WAIT_TIMEOUT_SECONDS):
        """Return the output of a command in the guest. Repeats until SSH connects."""
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


@contextlib.contextmanager
def run_installation(data_dir, hypervisor, cache, **settings):
    """Run an installation with one real node until the block ends. `settings` are environment variables."""
    (data_dir / "cache").symlink_to(cache)
    installation = Installation(data_dir, PANEL_WEB_WORKERS="1", **settings)
    try:
        installation.run_panel("db", "upgrade")
        for email, *role in ((CUSTOMER_EMAIL,), ("operator@example.com", "--operator")):
            installation.run_panel("user", "create", "--email", email, "--password", CUSTOMER_PASSWORD, *role)
        installation.up()
        lab = InstallationClient(
            installation, installation.run_panel("token", "user", "--email", CUSTOMER_EMAIL).strip()
        )
        options = ("--ip", "127.0.0.1", "--name", "lab", "--description", "guest tests")
        lab.operator = installation.run_panel("token", "admin", *options).strip()
        create_resources(lab, hypervisor)
        yield lab
        for instance in lab.call("GET", "/api/instances")["data"]:
            lab.destroy(instance)
    finally:
        installation.end()


def create_resources(lab, hypervisor):
    """Create a location with a real node, a plan, subnets of its bridge, an image and an SSH key."""
    lab.location = lab.admin("POST", "/hypervisor/groups", {"name": "lab", "display_name": "Laboratory"})["id"]
    node = {
        "name": "node-1",
        "hypervisor_group_id": lab.location,
        "driver": "libvirt",
        "uri": hypervisor.uri,
        "storage_path": str(hypervisor.directory / "disks"),
    }
    lab.node = lab.admin("POST", "/hypervisors", node)["hypervisor_id"]
    group = {"name": "standard", "display_name": "Standard", "hypervisor_groups": [lab.location]}
    group_id = lab.admin("POST", "/cloud-service/plan-groups", group)["id"]
    plan = {"name": "Tiny", "plan_group_id": group_id, "cpu_cores": 1, "ram": 256, "storage": 1}
    lab.plan = lab.admin("POST", "/instance/plans", plan)["id"]
    for gateway in map(ipaddress.ip_interface, (hypervisor.network.gateway4, hypervisor.network.gateway6)):
        subnet = {"name": f"v{gateway.version}", "cidr": str(gateway.network), "gateway": str(gateway.ip)}
        lab.admin("POST", "/subnets", {**subnet, "hypervisor_group_id": lab.location})
    lab.at.run_panel("image", "build", "tiny")
    lab.image = lab.call("GET", "/api/images/search")["results"][0]["children"][0]["id"]
    key_pair = lab.call("POST", "/api/ssh-key/generate", {"name": "lab", "algorithm": "ed25519"})
    lab.key, lab.key_id = Path(lab.at.data_dir) / "key", key_pair["ssh_key"]["id"]
    lab.key.write_text(key_pair["private_key"])
    lab.key.chmod(0o600)
    wait_until(lambda: lab.admin("GET", f"/hypervisor/{lab.node}")["status"] == "up", "the node")


@pytest.fixture(scope="session")
def lab(tmp_path_factory, hypervisor, guest_cache, file_server_authority):
    """The installation of this test run. It accepts loopback addresses, so nodes can use the tests' file server."""
    local = {"PANEL_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8", "PANEL_WEBHOOK_CA": file_server_authority.pem}
    with run_installation(tmp_path_factory.mktemp("lab"), hypervisor, guest_cache, **local) as client:
        yield client


@pytest.fixture(scope="session")
def debian_image(lab):
    """Build the panel's Debian image and add it to the catalog. Return its file."""
    lab.at.run_panel("image", "build", "debian")
    return Path(lab.at.data_dir) / "images" / "debian.qcow2"
