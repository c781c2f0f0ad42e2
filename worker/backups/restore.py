"""Restore disks of a backup repository without the panel.

    python -m worker.backups.restore DIRECTORY --key-file KEY                      lists the points
    python -m worker.backups.restore DIRECTORY --key-file KEY --point ID           shows a point
    python -m worker.backups.restore DIRECTORY --key-file KEY --point ID --disk NAME --output disk.raw

For a repository in a bucket DIRECTORY is `s3://BUCKET/FOLDER`; `--endpoint` is the server's URL, and the environment
has AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

It needs Python, the packages `cryptography` and `zstandard`, for a bucket `botocore`, and the folder `worker/backups`
of the panel's source.
"""

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from worker.backups.chunk_reading import read_chunks
from worker.backups.errors import StoreError
from worker.backups.keys import RepositoryKey
from worker.backups.manifests import DiskEntry
from worker.backups.repository import Repository
from worker.backups.targets import LocalTarget, Target


def main() -> str | None:
    """Run the command; return an error message, or None."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the directory of the repository, or s3://BUCKET/FOLDER")
    parser.add_argument("--endpoint", help="the URL of the S3 server")
    parser.add_argument("--region", default="us-east-1", help="its region (default: us-east-1)")
    parser.add_argument("--key-file", type=Path, required=True, help="a file with the exported key")
    parser.add_argument("--point", help="the id of a point")
    parser.add_argument("--disk", help="the name of one of its disks")
    parser.add_argument("--output", type=Path, help="a raw image to create, or a block device")
    options = parser.parse_args()
    if (options.disk is None) != (options.output is None) or (options.disk and not options.point):
        parser.error("--disk needs --point and --output.")
    try:
        run(options)
    except (StoreError, OSError) as error:
        return str(error)
    return None


def run(options: argparse.Namespace) -> None:
    key = RepositoryKey.from_text(options.key_file.read_text())
    repository = Repository(open_target(options), key)
    if options.point is None:
        for point in sorted(repository.list_points(), key=lambda point: repository.read_manifest(point).created_at):
            manifest = repository.read_manifest(point)
            names = ", ".join(f"{disk.name} ({disk.size} bytes)" for disk in manifest.disks)
            print(f"{point}  {manifest.created_at}  {manifest.consistency}  {names}")
        return
    manifest = repository.read_manifest(options.point)
    if options.disk is None:
        fields = asdict(manifest)
        for disk in fields["disks"]:
            del disk["tables"]
        fields["firmware"] = sorted(manifest.firmware)
        print(json.dumps(fields, indent=2))
        return
    disk = manifest.find_disk(options.disk)
    if disk is None:
        raise StoreError(f"The point has no disk {options.disk}.")
    write_raw_image(repository, disk, options.output)


def open_target(options: argparse.Namespace) -> Target:
    if not options.directory.startswith("s3://"):
        return LocalTarget(Path(options.directory))
    from worker.backups.s3 import Bucket, S3Target  # needs a package that directories do not need

    name, _, folder = options.directory.removeprefix("s3://").strip("/").partition("/")
    access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not (options.endpoint and access_key and secret_key):
        raise StoreError("A bucket needs --endpoint, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    bucket = Bucket(options.endpoint, name, access_key, secret_key, region=options.region)
    return S3Target(bucket, f"{folder}/" if folder else "")


def write_raw_image(repository: Repository, disk: DiskEntry, path: Path) -> None:
    """Write the disk to a sparse file or a block device, which must be blank."""
    is_new = not path.exists()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        if path.is_file():
            os.ftruncate(handle, 0)
            os.ftruncate(handle, disk.size)
        for offset, data in read_chunks(repository, disk):
            remaining = memoryview(data)[: disk.size - offset]
            while remaining:
                written = os.pwrite(handle, remaining, offset)
                offset, remaining = offset + written, remaining[written:]
        os.fsync(handle)
    except BaseException:
        if is_new:
            path.unlink()
        raise
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
