"""A customer's lists of backups in an installation with a million of them, against one with a thousand.

The customer has a hundred, and each other customer a thousand. Both installations are requested in turn. Target: the
API's lists (the customer's, and that of operators with all of them) and the page take at most 1.3 times as long
beside a million.
"""

import tempfile
from pathlib import Path

from sqlalchemy import func, insert, select, text

from panel.app import create_app
from panel.auth import permissions
from panel.core.config import Config
from panel.core.db import db, generate_id, session
from panel.models import InstanceBackup
from panel.services import accounts, backup_destinations, settings, tokens
from panel.services.instance_backups.create import get_or_create_repository
from tests.bench import rows
from tests.bench.microvms import EMAIL, PASSWORD, measure_lists, sign_in
from tests.support import postgres

OWN_BACKUPS, FEW_BACKUPS, MANY_BACKUPS, ACCOUNT_BACKUPS, ROUNDS = 100, 1000, 1_000_000, 1000, 200
QUICK_SIZES = {"OWN_BACKUPS": 10, "FEW_BACKUPS": 20, "MANY_BACKUPS": 100, "ACCOUNT_BACKUPS": 40, "ROUNDS": 3}
INSTANCES_PER_ACCOUNT = 10


def bench(report):
    with tempfile.TemporaryDirectory() as directory, postgres.run_server() as one, postgres.run_server() as other:
        for (name, few_url), (_name, many_url) in zip(
            rows.list_databases(one), rows.list_databases(other), strict=True
        ):
            few = Site(Path(directory) / f"{name}-few", few_url, FEW_BACKUPS)
            many = Site(Path(directory) / f"{name}-many", many_url, MANY_BACKUPS)
            with rows.PanelServer(few.config) as few_port, rows.PanelServer(many.config) as many_port:
                label = f"{{}} of backups, {name}, with a million of them against a thousand"
                measure_lists(report, label, (few, few_port), (many, many_port), ROUNDS)


class Site:
    """An installation with a customer's backups and those of others, `count` in total."""

    def __init__(self, folder, url, count):
        folder.mkdir()
        self.config = Config(data_dir=folder, database_url=url, secret_key="bench", redis_url="redis://127.0.0.1:1")
        app = create_app(self.config)
        with app.app_context(), rows.suppress_jobs():
            db.create_all()
            account = accounts.create(email=EMAIL, password=PASSWORD)
            place = backup_destinations.create(name="local", storage_type="local", config={"path": str(folder)})
            settings.update({"rate_limit_requests": 10**6})
            session.flush()
            self.token = tokens.issue("user", name="bench", account=account, scopes=permissions.USER_SCOPES)[1]
            self.platform_token = tokens.issue("admin", name="bench")[1]
            self.add(account, place, OWN_BACKUPS)
            for first in range(OWN_BACKUPS, count, ACCOUNT_BACKUPS):
                other = accounts.create(email=f"other-{first}@example.com")
                self.add(other, place, min(ACCOUNT_BACKUPS, count - first))
                session.commit()
            session.execute(text("analyze"))
            session.commit()
            assert session.scalar(select(func.count()).select_from(InstanceBackup)) == count
            db.engine.dispose()

    def add(self, account, place, count):
        common = {
            "account_id": account.id,
            "destination_id": place.id,
            "repository_id": get_or_create_repository(place, account.id).id,
            "recorded_name": "Shop",
            "recorded_hostname": "shop.example.com",
            "name": "nightly",
            "backup_type": "incremental",
            "status": "complete",
            "size": 10**6,
            "statistics": dict.fromkeys(
                ("bytes_read", "bytes_stored", "bytes_used", "chunks_stored", "chunks_shared"), 1
            ),
            "disks": [
                {
                    "id": account.id,
                    "name": "disk",
                    "position": 0,
                    "size": 10**9,
                    "read_mode": "incremental",
                    "full_read_reason": None,
                }
            ],
        }
        instances = [generate_id() for _number in range(-(-count // INSTANCES_PER_ACCOUNT))]
        session.execute(
            insert(InstanceBackup),
            [
                common | {"id": generate_id(), "instance_id": instances[number % len(instances)]}
                for number in range(count)
            ],
        )

    def build_requests(self, port):
        """Return (path, headers) of the lists by name."""
        return {
            "the list": ("/api/backups?per_page=100", {"Authorization": f"Bearer {self.token}"}),
            "the operators' list": (
                "/api/v1/instance-backups?per_page=100",
                {"Authorization": f"Bearer {self.platform_token}"},
            ),
            "the page": ("/backups", {"Cookie": sign_in(port)}),
        }
