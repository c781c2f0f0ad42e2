"""Custom image catalogs of operators."""

import json

import pytest

from panel.core.db import session
from panel.services import settings
from worker.tasks import image_catalog

CATALOG_ROW = {
    "key": "own",
    "label": "Ours",
    "distro": "Debian",
    "version": "12",
    "url": "https://example.com/own.qcow2",
}


@pytest.fixture
def list_catalog_ids(api_as):
    return lambda: [row["id"] for row in api_as("admin", "GET", "/api/v1/image-browser").json["data"]]


@pytest.fixture
def refresh_catalog(file_server):
    def refresh(content):
        settings.update({"image_catalog_url": file_server.put("/catalog.json", content)})
        session.commit()
        image_catalog.refresh()

    return refresh


def test_custom_catalog_replaces_builtin_catalog(api_as, list_catalog_ids, refresh_catalog):
    refresh_catalog(json.dumps([{**CATALOG_ROW, "size": 5, "build_date": "2026-01-02", "sha256": "ab" * 32}]).encode())
    [row] = api_as("admin", "GET", "/api/v1/image-browser").json["data"]
    assert (row["id"], row["size"], row["build_date"]) == ("own", 5, "2026-01-02")
    settings.update({"image_catalog_url": ""})
    session.commit()
    image_catalog.refresh()
    assert "debian-12" in list_catalog_ids()


@pytest.mark.parametrize("content", [b"{}", b"", b"[{}]", json.dumps([CATALOG_ROW, CATALOG_ROW]).encode(), b"\xff\xfe"])
def test_unreadable_catalog_changes_nothing(list_catalog_ids, refresh_catalog, content):
    refresh_catalog(json.dumps([CATALOG_ROW]).encode())
    refresh_catalog(content)
    assert list_catalog_ids() == ["own"]


def test_catalog_url_with_private_address_is_not_fetched(list_catalog_ids, refresh_catalog):
    refresh_catalog(json.dumps([CATALOG_ROW]).encode())
    settings.update({"image_catalog_url": "https://10.0.0.1/catalog.json"})
    session.commit()
    image_catalog.refresh()
    assert list_catalog_ids() == ["own"]
