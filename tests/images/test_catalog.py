"""The operators' own catalog."""

import json

import pytest

from panel.core.db import session
from panel.services import settings
from worker.tasks import image_catalog

ROW = {"key": "own", "label": "Ours", "distro": "Debian", "version": "12", "url": "https://example.com/own.qcow2"}


@pytest.fixture
def shown_catalog(api_as):
    return lambda: [row["id"] for row in api_as("admin", "GET", "/api/v1/image-browser").json["data"]]


@pytest.fixture
def read_catalog(file_server):
    def refresh(content):
        settings.update({"image_catalog_url": file_server.put("/catalog.json", content)})
        session.commit()
        image_catalog.refresh()

    return refresh


def test_it_takes_the_place_of_the_panel_s_own(api_as, shown_catalog, read_catalog):
    read_catalog(json.dumps([{**ROW, "size": 5, "build_date": "2026-01-02", "sha256": "ab" * 32}]).encode())
    [row] = api_as("admin", "GET", "/api/v1/image-browser").json["data"]
    assert (row["id"], row["size"], row["build_date"]) == ("own", 5, "2026-01-02")
    settings.update({"image_catalog_url": ""})
    session.commit()
    image_catalog.refresh()
    assert "debian-12" in shown_catalog()


@pytest.mark.parametrize("content", [b"{}", b"", b"[{}]", json.dumps([ROW, ROW]).encode(), b"\xff\xfe"])
def test_what_cannot_be_read_changes_nothing(shown_catalog, read_catalog, content):
    read_catalog(json.dumps([ROW]).encode())
    read_catalog(content)
    assert shown_catalog() == ["own"]


def test_an_address_inside_is_not_asked(shown_catalog, read_catalog):
    read_catalog(json.dumps([ROW]).encode())
    settings.update({"image_catalog_url": "https://10.0.0.1/catalog.json"})
    session.commit()
    image_catalog.refresh()
    assert shown_catalog() == ["own"]
