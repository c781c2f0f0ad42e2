"""What sandboxes may leave behind on a real node, in the router, the workers and the database."""

import contextlib
import json
import socket
import sqlite3
import subprocess
from pathlib import Path

import libvirt
import psutil
import redis

from panel.models.tasks import OPEN_STATUSES
from tests.guests.sandbox_router import find_router
from worker.nodes.libvirt.daemon import find_processes
from worker.nodes.libvirt.private_daemon import get_host_uuid

LOG_FOLDERS = ("log", "cache")
"""Folders of the node that outlive machines: libvirt keeps a log for each name."""
OPEN_ROWS = {
    "microvms": "ended_at is null",
    "microvm_pool_members": "true",
    "microvm_log_entries": "true",
    "microvm_guest_samples": "true",
    "metering_records": "ended_at is null",
    "tasks": f"kind like 'microvm%' and status in {OPEN_STATUSES}",
}


def take_inventory(lab, hypervisor):
    """Return names of everything that a sandbox has while it runs."""
    return {
        *list_node_files(hypervisor),
        *list_libvirt_objects(hypervisor),
        *list_network_parts(),
        *(f"process {pid}" for pid in find_processes(hypervisor.directory)),
        *list_groups(hypervisor),
        *list_router_parts(lab),
        *list_rows(lab),
        *list_redis_keys(lab),
        f"capacity {lab.call_admin('GET', f'/hypervisor/{lab.node}')['promised']}",
    }


def list_node_files(hypervisor):
    """List disks, overlays, saved states, sockets, definitions."""
    root = hypervisor.directory
    folders = [path for path in root.iterdir() if path.is_dir() and path.name not in (*LOG_FOLDERS, "dev", "sys")]
    return [f"file {path.relative_to(root)}" for folder in folders for path in folder.rglob("*")]


def list_libvirt_objects(hypervisor):
    with contextlib.closing(libvirt.open(hypervisor.uri)) as connection:
        lists = {
            "machine": connection.listAllDomains(),
            "network": connection.listAllNetworks(),
            "filter": connection.listAllNWFilters(),
        }
        names = [f"{kind} {item.name()}" for kind, items in lists.items() for item in items]
        return names + [f"binding {binding.portDev()}" for binding in connection.listAllNWFilterBindings()]


def list_network_parts():
    """List interfaces and the chains of all filters: the tests have a network namespace of their own."""
    chains = json.loads(subprocess.check_output(["nft", "--json", "list", "chains"]))["nftables"]
    rows = [row["chain"] for row in chains if "chain" in row]
    return [
        *(f"interface {name}" for _index, name in socket.if_nameindex()),
        *(f"chain {row['family']} {row['table']} {row['name']}" for row in rows),
    ]


def list_groups(hypervisor):
    host = get_host_uuid(hypervisor.directory)
    return [f"control group {path}" for path in Path("/sys/fs/cgroup").glob(f"*/{host}/**/")]


def list_router_parts(lab):
    """List what clients and channels occupy."""
    router = find_router(lab)
    log = lab.installation.read_log("sandbox")
    open_channels = log.count("sandbox_channel_opened") - log.count("sandbox_channel_closed")
    connections = [connection.status for connection in router.net_connections("inet")]
    return [f"router {connections} channels {open_channels} processes {len(router.children())}"]


def list_rows(lab):
    path = f"file:{lab.installation.data_dir / 'panel.db'}?mode=ro"
    with contextlib.closing(sqlite3.connect(path, uri=True, timeout=60)) as database:
        statements = {
            table: f"select count(*) from {table} where {condition}" for table, condition in OPEN_ROWS.items()
        }
        return [f"rows of {table}: {database.execute(text).fetchone()[0]}" for table, text in statements.items()]


def list_redis_keys(lab):
    """List the keys that name a sandbox or a micro VM."""
    with contextlib.closing(redis.Redis(unix_socket_path=str(lab.installation.data_dir / "redis.sock"))) as server:
        return [f"key {key.decode()}" for key in server.scan_iter() if b"sandbox" in key or b"microvm" in key]


def count_open_files(lab, hypervisor):
    """Return the open files of router, workers and the node's daemon."""
    (daemon,) = find_processes(hypervisor.directory, guests=False)
    processes = [find_router(lab), *lab.installation.list_children("worker"), psutil.Process(daemon)]
    return {process: process.num_fds() for process in processes}
