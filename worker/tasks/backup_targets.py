"""The targets of backup destinations, as their settings describe them."""

from pathlib import Path

from worker.backups.rclone import RcloneTarget
from worker.backups.targets import LocalTarget

BUCKET_SETTINGS = ("endpoint", "bucket", "access_key", "secret_key", "region", "path_style")


def build_target(storage_type, config, folder, **limits):
    """Return the target of a folder in the destination: a repository's, or that of checks."""
    if storage_type == "local":
        return LocalTarget(Path(config["path"]) / folder)
    path = "/".join(filter(None, (config.get("path_prefix"), folder)))
    if storage_type == "rclone":
        return RcloneTarget(config["remote"], path, **limits)
    from worker.backups.s3 import Bucket, S3Target  # 40 MB, which most workers do not need

    bucket = Bucket(**{name: config[name] for name in BUCKET_SETTINGS if name in config})
    return S3Target(bucket, f"{path}/", **limits)
