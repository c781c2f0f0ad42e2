"""Labels of the causes of failed tasks: what operators read instead of the name of an error class."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from panel.services.failed_jobs import UNKNOWN_ERROR_CLASS, FailedJobGroup
from panel.web.translation import lazy_gettext

BACKUP_STORAGE_LABEL = lazy_gettext("The backup destination failed")
BACKUP_DATA_LABEL = lazy_gettext("Backup data is missing or damaged")
REQUEST_LABEL = lazy_gettext("The request could not be carried out")
HYPERVISOR_REFUSED_LABEL = lazy_gettext("The hypervisor rejected the request")
GUEST_LABEL = lazy_gettext("The guest did not answer")
SERVICE_LABEL = lazy_gettext("It was not available at that moment")
INTERNAL_LABEL = lazy_gettext("Internal error of the panel")
FAILURE_LABELS = {
    "NodeError": lazy_gettext("The hypervisor reported an error"),
    "Unreachable": lazy_gettext("The hypervisor did not answer in time"),
    "Refused": HYPERVISOR_REFUSED_LABEL,
    "NoTicket": HYPERVISOR_REFUSED_LABEL,
    "NoCapacity": lazy_gettext("Too little storage or memory on the hypervisor"),
    "NotOnNode": lazy_gettext("The machine, disk or image is not on the hypervisor"),
    "AgentUnavailable": GUEST_LABEL,
    "GuestNotReady": GUEST_LABEL,
    "Interrupted": lazy_gettext("The program in the guest was interrupted"),
    "WorkerLost": lazy_gettext("The worker stopped during the task"),
    "FetchError": lazy_gettext("The download failed"),
    "Superseded": lazy_gettext("A newer attempt replaced it"),
    "PredecessorFailed": lazy_gettext("The task before it failed"),
    "BuildFailed": lazy_gettext("The image could not be built"),
    "StorageFailed": BACKUP_STORAGE_LABEL,
    "CopyFailed": BACKUP_STORAGE_LABEL,
    "DestinationFailed": BACKUP_STORAGE_LABEL,
    "Problem": REQUEST_LABEL,
    "Invalid": REQUEST_LABEL,
    "Conflict": lazy_gettext("The state of the resource did not allow it"),
    "NotFound": lazy_gettext("Something that it needs no longer exists"),
    "Forbidden": lazy_gettext("It was not permitted"),
    "Unauthenticated": lazy_gettext("It was not permitted"),
    "ConfirmationRequired": REQUEST_LABEL,
    "PartlyRefused": REQUEST_LABEL,
    "Unavailable": SERVICE_LABEL,
    "TooMany": SERVICE_LABEL,
    "StoreError": BACKUP_STORAGE_LABEL,
    "TargetFailed": BACKUP_STORAGE_LABEL,
    "ServerFailed": BACKUP_STORAGE_LABEL,
    "ServerUnanswered": BACKUP_STORAGE_LABEL,
    "FingerprintMismatch": lazy_gettext("The backup server has another certificate"),
    "RcloneFailed": BACKUP_STORAGE_LABEL,
    "RequestFailed": BACKUP_STORAGE_LABEL,
    "AnswerIncomplete": BACKUP_STORAGE_LABEL,
    "NothingFound": BACKUP_DATA_LABEL,
    "ObjectNotFound": BACKUP_DATA_LABEL,
    "Damaged": BACKUP_DATA_LABEL,
    "LeaseLost": lazy_gettext("The backup took too long between two signs of life"),
    UNKNOWN_ERROR_CLASS: lazy_gettext("No cause was recorded"),
}
"""{name of an error class: label}. Other classes are internal errors."""
LABELS_OF_KINDS = {("certificate_order", "Refused"): lazy_gettext("The certificate authority rejected the order")}
"""{(task kind, name of an error class): label} where the class means something else."""


@dataclass
class FailureGroup:
    kind: str
    label: str
    count: int
    first_failed_at: datetime | None
    """None when no task of the group has the time of its end, which the column permits."""
    last_failed_at: datetime | None
    error_classes: list[str]


def label_failure(kind: str, error_class: str) -> str:
    label = LABELS_OF_KINDS.get((kind, error_class)) or FAILURE_LABELS.get(error_class, INTERNAL_LABEL)
    return str(label)


def group_failures(jobs: Iterable[FailedJobGroup]) -> list[FailureGroup]:
    """Merge the groups of a task kind whose causes have the same label, and keep the order of the first of each."""
    groups: dict[tuple[str, str], FailureGroup] = {}
    for job in jobs:
        label = label_failure(job.job, job.exception_class)
        times = job.first_failed_at, job.last_failed_at
        group = groups.setdefault((job.job, label), FailureGroup(job.job, label, 0, *times, []))
        group.count += job.count
        group.first_failed_at = min(filter(None, (group.first_failed_at, job.first_failed_at)), default=None)
        group.last_failed_at = max(filter(None, (group.last_failed_at, job.last_failed_at)), default=None)
        group.error_classes.append(job.exception_class)
    return list(groups.values())
