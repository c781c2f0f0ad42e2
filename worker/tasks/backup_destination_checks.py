"""The steps of the check of a backup destination, up to the first that fails."""

import os
import uuid
from contextlib import suppress
from pathlib import Path

from panel.core.messages import message
from worker.backups.errors import ObjectNotFound, StoreError, TargetFailed
from worker.backups.repository import DESCRIPTION_OBJECT
from worker.tasks.backup_targets import build_target
from worker.tasks.rbs_checks import check_server

REACHABILITY, AUTHENTICATION, BUCKET, WRITE_ACCESS = "reachability", "authentication", "bucket", "write_access"
CHECK_FOLDER = "check"
"""Folder in the destination with the objects of checks."""

BUCKET_LIMITS = {"read_timeout": 3.0, "attempts": 1}
REMOTE_LIMITS = {"command_timeout": 8.0}
"""Shorter than those of backups, because a request waits for the result."""

AUTHENTICATION_CODES = {
    "AuthorizationHeaderMalformed",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
}
BACKUPS_MISSING = "the stored backups are not there"


def check_storage(storage_type, config, repository_id, *, has_copies=False):
    """Return the steps, and the sizes of the file system if there is one. `repository_id` is a repository that the
    storage should have, or None. `has_copies`: backups of another destination are copied there."""
    if storage_type == "local":
        return check_folder(config, repository_id)
    if storage_type == "rbs":
        return check_server(config)
    if storage_type == "s3":
        return check_bucket(config, repository_id, has_copies), {}
    return check_remote(config, repository_id), {}


def check_folder(config, repository_id):
    folder = Path(config["path"])
    if repository_id and not (folder / repository_id).is_dir():  # a disk that is not mounted
        return [build_failed_step(REACHABILITY, BACKUPS_MISSING, is_folder=True)], {}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.statvfs(folder)
    except OSError as error:
        return [build_failed_step(REACHABILITY, error.strerror, is_folder=True)], {}
    sizes = {"capacity": status.f_blocks * status.f_frsize, "free": status.f_bavail * status.f_frsize}
    reason = find_write_failure(build_target("local", config, CHECK_FOLDER))
    last = build_failed_step(WRITE_ACCESS, reason, is_folder=True) if reason else build_passed_step(WRITE_ACCESS)
    return [build_passed_step(REACHABILITY), last], sizes


def check_bucket(config, repository_id, has_copies):
    try:
        target = build_target("s3", config, CHECK_FOLDER, **BUCKET_LIMITS)
        target.check_bucket()
        if repository_id:
            build_target("s3", config, repository_id, **BUCKET_LIMITS).stat(DESCRIPTION_OBJECT)
    except TargetFailed as error:
        return build_steps_until(find_failed_step(error), error.reason)
    except ObjectNotFound:
        return build_steps_until(BUCKET, BACKUPS_MISSING)
    if reason := find_write_failure(target):
        return build_steps_until(WRITE_ACCESS, reason)
    steps = [build_passed_step(name) for name in (REACHABILITY, AUTHENTICATION, BUCKET, WRITE_ACCESS)]
    with suppress(TargetFailed):
        steps[-1]["message"] = describe_object_lock(target.has_object_lock(), has_copies)
    return steps


def describe_object_lock(has_object_lock, has_copies):
    """Return what the operator should know about the bucket's object lock, or None."""
    if has_object_lock:
        return str(message("The bucket has object lock: what is deleted uses space until its retention has ended."))
    if has_copies:
        return str(
            message("The bucket has no object lock, or the key may not see it: only the panel protects copies there.")
        )
    return None


def check_remote(config, repository_id):
    target = build_target("rclone", config, CHECK_FOLDER, **REMOTE_LIMITS)
    try:
        target.check_access()
        if repository_id:
            build_target("rclone", config, repository_id, **REMOTE_LIMITS).stat(DESCRIPTION_OBJECT)
    except TargetFailed as error:
        return [build_failed_step(REACHABILITY, error.reason)]
    except ObjectNotFound:
        return [build_failed_step(REACHABILITY, BACKUPS_MISSING)]
    reason = find_write_failure(target)
    last = build_failed_step(WRITE_ACCESS, reason) if reason else build_passed_step(WRITE_ACCESS)
    return [build_passed_step(REACHABILITY), last]


def find_failed_step(error):
    """Return what the server's answer is about."""
    if error.status is None or error.status >= 500:
        return REACHABILITY
    return AUTHENTICATION if error.status == 401 or error.code in AUTHENTICATION_CODES else BUCKET


def find_write_failure(target):
    """Store, read and delete an object. Return why that is not possible, or None."""
    name, content = uuid.uuid4().hex, os.urandom(32)
    try:
        target.put(name, content)
        is_intact = target.get(name) == content
        target.delete(name)
    except StoreError as error:
        return getattr(error, "reason", None) or getattr(error.__cause__, "strerror", None) or str(error)
    return None if is_intact else "it returns other content than was stored"


def build_steps_until(failed, reason):
    names = (REACHABILITY, AUTHENTICATION, BUCKET, WRITE_ACCESS)
    passed = [build_passed_step(name) for name in names[: names.index(failed)]]
    return [*passed, build_failed_step(failed, reason)]


def build_passed_step(name):
    return {"name": name, "success": True, "message": None}


def build_failed_step(name, reason, *, is_folder=False):
    labels = {
        REACHABILITY: message("The storage cannot be used: {reason}.", reason=reason),
        AUTHENTICATION: message("The storage does not accept the access key: {reason}.", reason=reason),
        BUCKET: message("The bucket cannot be used: {reason}.", reason=reason),
        WRITE_ACCESS: message("Nothing can be stored there: {reason}.", reason=reason),
    }
    folder_labels = {
        REACHABILITY: message("The directory cannot be used: {reason}.", reason=reason),
        WRITE_ACCESS: message("Nothing can be stored in the directory: {reason}.", reason=reason),
    }
    return {"name": name, "success": False, "message": str((folder_labels if is_folder else labels)[name])}
