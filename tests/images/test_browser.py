"""Images from URLs and from the upstream catalog."""

import hashlib
from datetime import date, timedelta

import pytest

from panel.core import clock, context
from panel.core.db import session
from panel.models import CatalogImage, Image, MediaDownload
from panel.services import image_catalog
from worker.tasks import media_downloads

QCOW2_CONTENT = b"QFI\xfb" + bytes(20) + (3 * 1024**3).to_bytes(8, "big") + bytes(400)
IMAGE_FIELDS = """
    name version publisher_version build_date label status size url filename distro release format purpose
    public enabled cloudinit variant type interface cloud_config user_id download_error download_error_at
    download_reset_at"""
IMAGE_BROWSER_PATH = "/api/v1/image-browser"


@pytest.fixture
def catalog_row(file_server):
    """The only row of the catalog, whose file can be downloaded."""
    catalog_image = CatalogImage(
        key="debian-12",
        label="Debian 12",
        distro="Debian",
        version="12",
        publisher_version="12.5",
        release="bookworm",
        variant="genericcloud",
        build_date=date(2026, 1, 2),
        url=file_server.put("/debian-12.qcow2", QCOW2_CONTENT),
        size=123456,
        sha256=hashlib.sha256(QCOW2_CONTENT).hexdigest(),
    )
    session.add(catalog_image)
    session.commit()
    return catalog_image


@pytest.fixture
def add_image(api_as):
    return lambda **body: api_as("admin", "POST", f"{IMAGE_BROWSER_PATH}/add", json=body)


@pytest.fixture
def get_image(api_as):
    return lambda image: api_as("admin", "GET", f"/api/v1/image/{image['id']}").json["data"]


def test_image_payload_has_all_fields(api_as, cast, get_image):
    """IMG-01, IMG-02, IMG-04"""
    [listed] = api_as("admin", "GET", "/api/v1/images").json["data"]
    assert set(IMAGE_FIELDS.split()) <= listed.keys()
    image = get_image(listed)
    assert image["hypervisors"] == []
    assert [image[name] for name in ("download_error", "download_error_at", "download_reset_at")] == [None] * 3
    assert image["status"] == "available"


def test_builtin_catalog_is_listed_and_filtered(api_as):
    rows = api_as("admin", "GET", IMAGE_BROWSER_PATH).json["data"]
    assert {"Debian", "Ubuntu", "AlmaLinux", "Rocky Linux"} <= {row["distro"] for row in rows}
    assert all(row["url"].startswith("https://") for row in rows)
    assert {row["distro"] for row in api_as("admin", "GET", f"{IMAGE_BROWSER_PATH}?distro=debian").json["data"]} == {
        "Debian"
    }
    assert [row["id"] for row in api_as("admin", "GET", f"{IMAGE_BROWSER_PATH}?search=noble").json["data"]] == [
        "ubuntu-24.04"
    ]


def test_catalog_image_is_added_and_deployed(api_as, cast, add_image, get_image, catalog_row, run_tasks):
    """IMG-03, IMG-16"""
    answer = add_image(catalog_id="debian-12")
    assert answer.status_code == 200
    created_image = answer.json["data"]
    assert (created_image["size"], created_image["status"], created_image["url"]) == (
        123456,
        "downloading",
        catalog_row.url,
    )
    assert (created_image["version"], created_image["publisher_version"], created_image["build_date"]) == (
        "12",
        "12.5",
        "2026-01-02",
    )
    instance = cast.instance()
    deploy = {"image_id": created_image["id"]}
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=deploy).json["errors"].keys() == {
        "image_id"
    }
    run_tasks()
    image = get_image(created_image)
    assert (image["status"], image["size"], image["min_disk"]) == ("available", len(QCOW2_CONTENT), 3)
    assert image["sha256"] == catalog_row.sha256
    assert (context.current().config.data_dir / "images" / image["filename"]).read_bytes() == QCOW2_CONTENT
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=deploy).status_code == 200
    run_tasks()
    assert [node["name"] for node in get_image(created_image)["hypervisors"]] == ["node-1"]


def test_catalog_size_applies_only_to_catalog_url(add_image, catalog_row, file_server):
    """IMG-16"""
    assert add_image(url=catalog_row.url, name="by-url", size=7).json["data"]["size"] == 123456
    other = file_server.put("/other.qcow2", QCOW2_CONTENT)
    facts = {"label": "Mine", "distro": "Debian", "version": "12"}
    assert add_image(url=other, name="a", size=7, **facts).json["data"]["size"] == 7
    assert add_image(url=other, name="b", **facts).json["data"]["size"] == len(QCOW2_CONTENT), (
        "the size that the server reports"
    )


@pytest.mark.parametrize("answer", [404, b"", "unknown"])
def test_image_with_unknown_size_is_refused(api_as, add_image, catalog_row, file_server, answer):
    """IMG-17"""

    def send_without_length(handler):
        handler.send_response(200)
        handler.end_headers()

    file_server.files["/nothing.qcow2"] = send_without_length if answer == "unknown" else answer
    before = api_as("admin", "GET", "/api/v1/images").json["meta"]["total"]
    facts = {"label": "Mine", "distro": "Debian", "version": "12"}
    answer = add_image(url=file_server.url("/nothing.qcow2"), **facts)
    assert (answer.status_code, answer.json["reason"]) == (400, "size_unknown")
    assert api_as("admin", "GET", "/api/v1/images").json["meta"]["total"] == before


def test_invalid_image_additions_are_refused(add_image, catalog_row, file_server):
    assert add_image(catalog_id="nosuch").status_code == 404
    assert add_image().json["errors"].keys() == {"url"}
    assert add_image(url="http://127.0.0.1/x", size=1).json["errors"].keys() == {"url"}
    assert add_image(url="https://10.0.0.1/x", size=1).json["errors"].keys() == {"url"}
    assert add_image(url=file_server.url("/x"), size=1).json["errors"].keys() == {"label"}
    assert add_image(catalog_id="debian-12", name="tiny").json["errors"].keys() == {"name"}
    assert add_image(catalog_id="debian-12", purpose="user").json["errors"].keys() == {"purpose"}


def test_release_update_fetches_catalog_version(api_as, add_image, get_image, catalog_row, file_server, run_tasks):
    """IMG-12"""
    created_image = add_image(catalog_id="debian-12").json["data"]
    run_tasks()
    newer = QCOW2_CONTENT + b"newer"
    catalog_row = session.query(CatalogImage).one()
    catalog_row.publisher_version, catalog_row.build_date = "12.6", date(2026, 2, 3)
    catalog_row.url, catalog_row.sha256, catalog_row.size = (
        file_server.put("/newer.qcow2", newer),
        hashlib.sha256(newer).hexdigest(),
        len(newer),
    )
    session.commit()
    answer = api_as("admin", "POST", f"/api/v1/image/{created_image['id']}/update/release", json={})
    assert answer.status_code == 200
    assert (answer.json["data"]["publisher_version"], answer.json["data"]["build_date"]) == ("12.6", "2026-02-03")
    assert answer.json["data"]["status"] == "available", "the old file is used until then"
    run_tasks()
    image = get_image(created_image)
    assert (image["sha256"], image["size"]) == (hashlib.sha256(newer).hexdigest(), len(newer))


@pytest.mark.parametrize("change", [{"distro": "Ubuntu"}, {"version": "13"}, {"version": "13.1"}])
def test_release_update_refuses_other_distribution_or_version(
    api_as, add_image, get_image, catalog_row, run_tasks, change
):
    """IMG-13, IMG-14, IMG-15"""
    image = add_image(catalog_id="debian-12").json["data"]
    run_tasks()
    for name, value in change.items():
        setattr(session.query(CatalogImage).one(), name, value)
    session.commit()
    before = get_image(image)
    for body in ({}, {"catalog_id": "debian-12"}):
        answer = api_as("admin", "POST", f"/api/v1/image/{image['id']}/update/release", json=body)
        assert (answer.status_code, answer.json["reason"]) == (400, "catalog_mismatch")
    assert get_image(image) == before


def test_release_update_matches_image_by_distribution(api_as, cast, catalog_row):
    """IMG-12: by distribution and major version."""
    cast.image.name = "debian-12"
    session.commit()
    answer = api_as("admin", "POST", f"/api/v1/image/{cast.image.id}/update/release", json={})
    assert answer.json["data"]["publisher_version"] == "12.5"
    image_catalog.replace("[]")
    session.commit()


def test_operator_adds_image_by_url(api_as, cast, get_image, file_server, run_tasks):
    body = {"name": "mine", "url": file_server.put("/mine.qcow2", QCOW2_CONTENT), "distro": "Debian", "version": "12"}
    image = api_as("admin", "POST", "/api/v1/images", json=body).json["data"]
    assert (image["label"], image["status"]) == ("mine", "downloading")
    run_tasks()
    assert get_image(image)["status"] == "available"
    assert api_as("admin", "POST", "/api/v1/images", json=body).json["errors"].keys() == {"name"}
    path = context.current().config.data_dir / "images" / get_image(image)["filename"]
    assert path.exists()
    assert api_as("admin", "DELETE", f"/api/v1/image/{image['id']}").status_code == 200
    run_tasks()
    assert not path.exists()
    assert api_as("admin", "GET", f"/api/v1/image/{image['id']}").status_code == 404


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"x" * 1000, "qcow2"),
        (QCOW2_CONTENT[:8] + b"\1" * 8 + QCOW2_CONTENT[16:], "based on another file"),
        (QCOW2_CONTENT[:79] + b"\4" + QCOW2_CONTENT[80:], "based on another file"),
        (404, "404"),
        (b"", "empty"),
    ],
)
def test_failed_download_backs_off_and_is_retried(
    api_as, get_image, file_server, run_tasks, monkeypatch, content, text
):
    """IMG-18, IMG-19"""
    file_server.files["/bad.qcow2"] = content
    body = {"name": "bad", "url": file_server.url("/bad.qcow2"), "distro": "Debian", "version": "12"}
    created_image = api_as("admin", "POST", "/api/v1/images", json=body).json["data"]
    run_tasks()
    image = get_image(created_image)
    assert (image["status"], text in image["download_error"]) == ("error", True)
    assert image["download_error_at"]
    assert not list((context.current().config.data_dir / "images").glob("*.part"))
    real, passed = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + passed[0])
    pause = timedelta(minutes=10)
    for attempt in range(2, 11):
        passed[0] += pause - timedelta(seconds=5)
        media_downloads.start_due()
        run_tasks()
        assert len(file_server.requested_paths) == attempt - 1
        passed[0] += timedelta(seconds=10)
        media_downloads.start_due()
        run_tasks()
        assert len(file_server.requested_paths) == attempt
        pause = min(2 * pause, timedelta(hours=24))
    file_server.put("/bad.qcow2", QCOW2_CONTENT)
    answer = api_as("admin", "POST", f"/api/v1/image/{created_image['id']}/retry")
    assert answer.json["data"]["download_reset_at"]
    run_tasks()
    image = get_image(created_image)
    assert (image["status"], image["download_error"]) == ("available", None)
    assert session.query(MediaDownload).one().attempts == 0


def test_retry_of_image_without_url_is_refused(api_as, cast):
    assert api_as("admin", "POST", f"/api/v1/image/{cast.image.id}/retry").json["reason"] == "no_url"


def test_image_deletion_keeps_its_instances(api_as, cast, run_tasks):
    instance = cast.instance()
    api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert api_as("admin", "DELETE", f"/api/v1/image/{cast.image.id}").status_code == 200
    path = context.current().config.data_dir / "images" / "tiny.qcow2"
    content = path.read_bytes()
    run_tasks()
    path.write_bytes(content)  # other tests use the file
    shown = api_as("owner", "GET", f"/api/instance/{instance.id}").json
    assert (shown["state"], shown["image_id"]) == ("running", None)
    assert session.query(Image).count() == 0


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"key": "a"}]', "null"])
def test_invalid_catalog_is_refused(text):
    from panel.core.errors import Invalid

    with pytest.raises(Invalid):
        image_catalog.parse_catalog(text)


@pytest.mark.parametrize("set_image_source", [{"purpose": "user"}, {"name": "tiny"}])
def test_release_update_refuses_captured_and_local_images(api_as, cast, catalog_row, set_image_source):
    """IMG-14, IMG-15: the distribution is in the catalog, but the content is not the catalog's."""
    for name, value in set_image_source.items():
        setattr(cast.image, name, value)
    session.commit()
    path = f"/api/v1/image/{cast.image.id}"
    before = api_as("admin", "GET", path).json["data"]
    for body in ({}, {"catalog_id": "debian-12"}):
        refused = api_as("admin", "POST", f"{path}/update/release", json=body)
        assert (refused.status_code, refused.json["reason"]) == (400, "catalog_mismatch")
    assert api_as("admin", "GET", path).json["data"] == before
