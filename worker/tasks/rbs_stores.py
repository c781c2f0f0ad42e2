"""The stores of accounts on remote backup servers."""

from panel.core.db import session
from panel.services import instance_backups
from worker.backups.keys import RepositoryKey
from worker.backups.rbs.api import Server
from worker.backups.rbs.snapshots import Snapshot
from worker.backups.rbs.store import RbsStore

SERVER_SETTINGS = ("host", "port", "datastore", "namespace", "auth_id", "token_secret", "fingerprint")


class RowSnapshots:
    """The snapshots as the rows of the backups record them. Each call commits, so that no transaction is open while the
    server works."""

    def __init__(self, repository_id, namespace):
        """`namespace` is that of new snapshots."""
        self.repository_id, self.namespace = repository_id, namespace

    def find(self, point):
        snapshot = instance_backups.find_snapshot(point)
        session.commit()
        return snapshot and Snapshot(*snapshot)

    def get_group(self, point):
        backup = instance_backups.find_by_id(point)
        group = backup.volume_id or backup.instance_id
        session.commit()
        return self.namespace, group

    def assign(self, point, snapshot):
        backup = instance_backups.find_by_id(point)
        instance_backups.record_snapshot(backup, snapshot.namespace, snapshot.group, snapshot.time)
        session.commit()

    def map_points(self):
        snapshots = instance_backups.map_snapshots(self.repository_id)
        session.commit()
        return {point: Snapshot(*snapshot) for point, snapshot in snapshots.items()}


def build_server(config, **limits):
    """Return the server that the settings of a destination describe."""
    return Server(**{name: config[name] for name in SERVER_SETTINGS if name in config}, **limits)


def build_store(config, key_text, repository_id):
    """Return the account's store. Nothing is sent to the server yet."""
    session.commit()
    snapshots = RowSnapshots(repository_id, config.get("namespace", ""))
    verifies_new = config.get("verify_after_backup", False)
    return RbsStore(build_server(config), RepositoryKey.from_text(key_text), snapshots, verifies_new=verifies_new)
