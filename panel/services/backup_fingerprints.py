"""Reading the fingerprint of a backup server: a task, whose arguments have the result."""

from types import SimpleNamespace

from panel.core import jobs
from panel.core.db import generate_id
from panel.core.task_kinds import task_kind
from panel.models import Task

task_kind("backup_fingerprint", "Fingerprint of a backup server")


def enqueue(host: str, port: int, *, actor: str) -> Task:
    resource, arguments = SimpleNamespace(id=generate_id(), name=host), {"host": host, "port": port}
    return jobs.enqueue("backup_fingerprint", "backup_server", resource, lock="light", actor=actor, arguments=arguments)
