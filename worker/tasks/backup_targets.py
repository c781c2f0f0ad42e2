"""The targets of backup destinations, as their settings describe them."""

from pathlib import Path

from worker.backups.targets import LocalTarget

BUCKET_SETTINGS = ("endpoint", "bucket", "access_key", "secret_key", "region", "path_style")


def build_target(storage_type, config, folder, **limits):
    """Return the target of a folder in the destination: a repository's, or that of checks."""
    if storage_type == "local":
        return LocalTarget(Path(config["path"]) / folder)
    from worker.backups.s3 import Bucket, S3Target  # 40 MB, which most workers do not need

    bucket = Bucket(**{name: config[name] for name in BUCKET_SETTINGS if name in config})
    prefix = config.get("path_prefix")
    return S3Target(bucket, f"{prefix}/{folder}/" if prefix else f"{folder}/", **limits)
