"""Helpers for destinations in buckets."""

import pytest


@pytest.fixture
def create_bucket_destination(api_as):
    """Return a function that adds a destination in a bucket and returns the path of its operations."""

    def add(config, name="bucket-1"):
        body = {"name": name, "storage_type": "s3", "config": config}
        answer = api_as("admin", "POST", "/api/v1/hypervisor/backup-storages", json=body)
        assert answer.status_code == 200, answer.text
        return f"/api/v1/hypervisor/backup-storage/{answer.json['data']['storage_id']}"

    return add
