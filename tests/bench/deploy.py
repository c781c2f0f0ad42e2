"""From the request to a running guest and to its first SSH answer, against a script that calls only libvirt.

The script clones the disk, writes the seed, defines and starts the machine, with the panel's definition and an open
connection. Both are timed in turn on the same hypervisor. Targets: at most 1.25 times the script's time, to the state
`running` and to SSH.
"""

import contextlib
import http.client
import json
import socket
import statistics
import tempfile
import time
from pathlib import Path

import libvirt

from panel.core.config import ROOT
from tests.support.installation import create_template, run_installation
from tests.support.local_hypervisor import LocalHypervisor, claim_network
from worker.nodes.libvirt import private_daemon

WARM_UP_ROUNDS = 1
"""Rounds that do not count: the first machine of a node waits for its image."""
ROUNDS = 8
QUICK_SIZES = {"WARM_UP_ROUNDS": 0, "ROUNDS": 1}


def bench(report):
    directory = Path(tempfile.mkdtemp(prefix="bench"))
    network = claim_network()
    cache = ROOT / "var" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    try:
        hypervisor = LocalHypervisor(private_daemon.start(directory / "hv", network), directory / "hv", network)
        (directory / "template").mkdir()
        template = create_template(directory / "template", cache)
        with run_installation(directory / "lab", hypervisor, template) as lab:
            measure(report, lab, hypervisor)
    finally:
        private_daemon.stop(directory / "hv")


def measure(report, lab, hypervisor):
    panel_times, script_times = measure_in_turn(lab, hypervisor)
    for number, what in enumerate(("running", "the first SSH answer")):
        panel_time = statistics.median(times[number] for times in panel_times)
        script_time = statistics.median(times[number] for times in script_times)
        print(f"  {what}: panel {panel_time:.2f} s, script {script_time:.2f} s", flush=True)
        report(f"create to {what}, against a libvirt script", panel_time / script_time, 1.25)


def measure_in_turn(lab, hypervisor):
    panel, script = PanelDeployment(lab), ScriptDeployment(lab, hypervisor)
    rounds = [[deployment.create_machine() for deployment in (panel, script)] for _ in range(WARM_UP_ROUNDS + ROUNDS)]
    return zip(*rounds[WARM_UP_ROUNDS:], strict=True)


def wait_for_ssh(ip, timeout=120):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection((ip, 22), 0.5) as connection:
            connection.settimeout(5)
            if connection.recv(4) == b"SSH-":
                return
        time.sleep(0.02)
    raise TimeoutError(ip)


class PanelDeployment:
    """Creates machines through the API, as a client that polls fast."""

    def __init__(self, lab):
        self.lab = lab

    def call(self, method, path, body=None):
        headers = {"Authorization": f"Bearer {self.lab.token}"}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self.connection.getresponse()
        body = answer.read()
        assert answer.status < 400, body
        return json.loads(body)

    def create_machine(self):
        self.connection = http.client.HTTPConnection(self.lab.installation.bind)
        start = time.perf_counter()
        order = {"location_id": self.lab.location, "plan_id": self.lab.plan}
        instance = self.call("POST", "/api/cloud-service/instances", order)["instance"]
        body = {"image_id": self.lab.image, "ssh_keys": [self.lab.key_id]}
        path = f"/api/instance/{instance['id']}"
        task = self.call("POST", f"{path}/deploy", body)["task_id"]
        while self.call("GET", f"{path}/task/{task}")["task"]["status"] != "completed":
            time.sleep(0.01)
        running = time.perf_counter() - start
        wait_for_ssh(instance["primary_public_ip"]["ip"])
        reachable = time.perf_counter() - start
        self.lab.destroy(instance)
        return running, reachable


class ScriptDeployment:
    """Creates the same machine with libvirt calls only. Definition and seed are copied from a machine of the panel."""

    def __init__(self, lab, hypervisor):
        self.connection = libvirt.open(hypervisor.uri)
        instance = lab.create()
        lab.install(instance, ssh_keys=[lab.key_id])
        self.ip = lab.get_instance(instance)["primary_public_ip"]["ip"]
        domain = self.connection.lookupByUUIDString(instance["id"])
        self.pool = self.connection.storagePoolLookupByName("default")
        self.definition = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        self.names = f"{instance['name']}-0.qcow2", f"{instance['name']}-seed.iso"
        self.volumes = [self.pool.storageVolLookupByName(name).XMLDesc() for name in self.names]
        self.seed = self.download(self.names[1])
        self.id = instance["id"]
        domain.destroy()
        domain.undefine()
        self.delete_volumes()

    def download(self, name):
        volume = self.pool.storageVolLookupByName(name)
        stream = self.connection.newStream()
        volume.download(stream, 0, 0)
        chunks = []
        stream.recvAll(lambda _, data, __: chunks.append(data), None)
        stream.finish()
        return b"".join(chunks)

    def delete_volumes(self):
        for name in self.names:
            with contextlib.suppress(libvirt.libvirtError):
                self.pool.storageVolLookupByName(name).delete()

    def create_machine(self):
        start = time.perf_counter()
        self.pool.createXML(self.volumes[0])
        seed = self.pool.createXML(self.volumes[1])
        stream = self.connection.newStream()
        seed.upload(stream, 0, len(self.seed))
        stream.send(self.seed)
        stream.finish()
        domain = self.connection.defineXML(self.definition)
        domain.create()
        running = time.perf_counter() - start
        wait_for_ssh(self.ip)
        reachable = time.perf_counter() - start
        domain.destroy()
        domain.undefine()
        self.delete_volumes()
        return running, reachable
