"""The server's API: listing, deleting, protecting and verifying snapshots; permissions; the switch to HTTP/2."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from worker.backups.rbs.errors import ServerFailed, expect_shape, make_refusal
from worker.backups.rbs.http1 import SWITCHING_PROTOCOLS, send_request
from worker.backups.rbs.http2 import JSON, Http2Connection
from worker.backups.rbs.snapshots import MANIFEST_BLOB, Snapshot, SnapshotState, build_group_parameters
from worker.backups.rbs.tls import connect

PROTOCOLS = {"backup": "proxmox-backup-protocol-v1", "reader": "proxmox-backup-reader-protocol-v1"}
TIMEOUT_SECONDS = 300.0
"""Without a byte from the server. The end of a backup may wait until its disks have stored everything."""

DEFAULT_PORT = 8007
NOT_FOUND_STATUSES = 400, 404


@dataclass(frozen=True)
class Server:
    """A datastore of a server, and how to reach it."""

    host: str
    datastore: str
    auth_id: str
    token_secret: str = field(repr=False)
    fingerprint: str
    port: int = DEFAULT_PORT
    namespace: str = ""
    """Of new snapshots; empty for the root."""
    timeout: float = TIMEOUT_SECONDS

    def read_certificate(self) -> None:
        """Connect only. Raises `ServerFailed` unless the server presents the pinned certificate."""
        connect(self.host, self.port, self.fingerprint, self.timeout).close()


class Api:
    """One connection for each call. Safe to use from several threads."""

    def __init__(self, server: Server) -> None:
        self.server, self.store_path = server, f"admin/datastore/{quote(server.datastore)}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        host = f"[{self.server.host}]" if ":" in self.server.host else self.server.host
        token = f"PBSAPIToken={self.server.auth_id}:{self.server.token_secret}"
        return [("host", f"{host}:{self.server.port}"), ("authorization", token)]

    def call(self, method: str, path: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Return the data of the answer. Raises `ServerFailed`."""
        target, headers, body = f"/api2/json/{path}", [*self.headers, ("connection", "close")], b""
        if method in ("GET", "DELETE"):
            target += f"?{urlencode(parameters)}" if parameters else ""
        else:
            headers.append(("content-type", JSON))
            body = json.dumps(parameters or {}).encode()
        with connect(self.server.host, self.server.port, self.server.fingerprint, self.server.timeout) as connection:
            answer = send_request(connection, method, target, headers, body)
        if answer.status != 200:
            raise make_refusal(path, answer.status, answer.body)
        with expect_shape(path):
            return json.loads(answer.body)["data"]

    def upgrade(self, kind: str, snapshot: Snapshot) -> Http2Connection:
        """Return a connection of the backup or reader protocol for a snapshot."""
        target = f"/api2/json/{kind}?" + urlencode(snapshot.parameters | {"store": self.server.datastore})
        headers = [*self.headers, ("connection", "upgrade"), ("upgrade", PROTOCOLS[kind])]
        connection = connect(self.server.host, self.server.port, self.server.fingerprint, self.server.timeout)
        try:
            answer = send_request(connection, "GET", target, headers)
            if answer.status != SWITCHING_PROTOCOLS:
                raise make_refusal(kind, answer.status, answer.body)
            return Http2Connection(connection, answer.body)
        except BaseException:
            connection.close()
            raise

    def fetch_snapshot_states(self, namespace: str, group: str) -> dict[int, SnapshotState]:
        """Return the states of the complete snapshots of a group, by their time."""
        try:
            rows = self.call("GET", f"{self.store_path}/snapshots", build_group_parameters(namespace, group))
        except ServerFailed as error:
            if error.status not in NOT_FOUND_STATUSES or self.has_group(namespace, group):
                raise
            return {}
        with expect_shape("the list of snapshots"):
            return {row["backup-time"]: read_state(row) for row in rows if is_complete(row)}

    def has_group(self, namespace: str, group: str) -> bool:
        parameters = {"ns": namespace} if namespace else {}
        groups = self.call("GET", f"{self.store_path}/groups", parameters)
        with expect_shape("the list of groups"):
            return any(row["backup-id"] == group for row in groups)

    def delete(self, snapshot: Snapshot) -> None:
        self.call("DELETE", f"{self.store_path}/snapshots", snapshot.parameters)

    def set_protected(self, snapshot: Snapshot, protected: bool) -> None:
        self.call("PUT", f"{self.store_path}/protected", snapshot.parameters | {"protected": protected})

    def start_verification(self, snapshot: Snapshot) -> None:
        """Have the server read the snapshot. The result is in its state later."""
        self.call("POST", f"{self.store_path}/verify", snapshot.parameters | {"ignore-verified": False})

    # --- what a check of the destination asks

    def get_version(self) -> str:
        answer = self.call("GET", "version")
        with expect_shape("its version"):
            return str(answer["version"])

    def list_groups(self) -> list[dict[str, Any]]:
        """Return the groups of the namespace. Raises `ServerFailed` without the datastore or the namespace."""
        parameters = {"ns": self.server.namespace} if self.server.namespace else {}
        return self.call("GET", f"{self.store_path}/groups", parameters)

    def list_privileges(self) -> set[str]:
        """Return what the token may do in the namespace."""
        path = "/".join(filter(None, ("/datastore", self.server.datastore, self.server.namespace)))
        permissions = self.call("GET", "access/permissions", {"path": path})
        with expect_shape("the permissions of the token"):
            return set(permissions.get(path, {}))

    def get_sizes(self) -> dict[str, int]:
        """Return the size of the datastore and what is free, in bytes."""
        status = self.call("GET", f"{self.store_path}/status")
        with expect_shape("the status of the datastore"):
            return {"capacity": status["total"], "free": status["avail"]}


def is_complete(row: Mapping[str, Any]) -> bool:
    """Return whether the listed snapshot was finished."""
    return MANIFEST_BLOB in map(get_name, row["files"])


def read_state(row: Mapping[str, Any]) -> SnapshotState:
    return SnapshotState(bool(row.get("protected")), (row.get("verification") or {}).get("state"))


def get_name(file: Any) -> str:
    """Return the name of a listed file, which some versions give alone."""
    return file["filename"] if isinstance(file, dict) else file
