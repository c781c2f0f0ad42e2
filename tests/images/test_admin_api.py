"""Images in the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Image, ImageCopy
from panel.schemas.constants import IMAGE_PURPOSES
from panel.services import catalog
from tests.support.cast import UNKNOWN_ID

IMAGES_PATH = "/api/v1/images"


@pytest.fixture
def path(cast):
    return f"/api/v1/image/{cast.image.id}"


def register_image_row(name, **facts):
    given = {"label": name, "distro": "Debian", "version": "12", "filename": name, "size": 1, "sha256": "ab" * 32}
    return catalog.register_image(name=name, **{**given, **facts})


def test_image_list_filters_by_purpose(api_as, cast):
    """IMG-06"""
    register_image_row("db", purpose="managed_database")
    session.commit()
    for purpose in IMAGE_PURPOSES:
        images = api_as("admin", "GET", f"{IMAGES_PATH}?purpose={purpose}").json["data"]
        expected = {"general": ["tiny"], "managed_database": ["db"]}.get(purpose, [])
        assert [image["name"] for image in images] == expected
    assert len(api_as("admin", "GET", IMAGES_PATH).json["data"]) == 2


@pytest.mark.parametrize("purpose", ["bad", "", "GENERAL"])
def test_unknown_purpose_filter_is_refused(api_as, purpose):
    """IMG-07, ERR-06"""
    answer = api_as("admin", "GET", f"{IMAGES_PATH}?purpose={purpose}")
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"purpose"})


def test_partial_image_update_keeps_other_fields(api_as, path):
    """IMG-08"""
    before = api_as("admin", "GET", path).json["data"]
    answer = api_as("admin", "PUT", path, json={"label": "x"})
    assert answer.status_code == 200
    after = answer.json["data"]
    assert {k for k in after if after[k] != before[k]} == {"label", "updated_at"}


@pytest.mark.parametrize("field", ["size", "sha256", "filename", "name", "download_error", "url", "user_id", "id"])
def test_system_managed_image_fields_are_refused(api_as, path, field):
    """IMG-09, IMG-11"""
    answer = api_as("admin", "PUT", path, json={field: 1, "label": "x"})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {field})
    assert "managed by the system" in answer.json["errors"][field][0]
    assert api_as("admin", "GET", path).json["data"]["label"] != "x"


def test_image_purpose_accepts_only_known_values(api_as, path):
    """IMG-05: `user` is only for captured images."""
    for purpose in IMAGE_PURPOSES:
        if purpose != "user":
            assert api_as("admin", "PUT", path, json={"purpose": purpose}).json["data"]["purpose"] == purpose
    for purpose in ("other", "user"):
        answer = api_as("admin", "PUT", path, json={"purpose": purpose, "label": "y"})
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {"purpose"})
    assert api_as("admin", "GET", path).json["data"]["label"] != "y"


def test_captured_image_purpose_cannot_be_changed(api_as, cast):
    """IMG-10, IMG-11"""
    facts = {"name": "own", "label": "own", "distro": "Debian", "version": "12"}
    image = Image(account_id=cast.owner.id, purpose="user", **facts)
    session.add(image)
    session.commit()
    path = f"/api/v1/image/{image.id}"
    answer = api_as("admin", "PUT", path, json={"purpose": "general", "label": "y"})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"purpose"})
    assert api_as("admin", "GET", path).json["data"]["label"] == "own"
    assert api_as("admin", "PUT", path, json={"purpose": "user", "label": "y"}).status_code == 200
    image.purpose = "general"  # as rows of versions without this check
    session.commit()
    assert api_as("admin", "PUT", path, json={"purpose": "user"}).json["data"]["purpose"] == "user"


def test_platform_image_with_user_purpose_can_be_restored(api_as, cast, path):
    """Earlier versions accepted `user`, after which the image could not be deployed."""
    session.get(Image, cast.image.id).purpose = "user"
    session.commit()
    instance = cast.instance()
    deploy = lambda: api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})  # noqa: E731
    assert deploy().status_code == 422
    assert api_as("admin", "PUT", path, json={"purpose": "general"}).status_code == 200
    assert deploy().status_code == 200


def test_disabled_image_cannot_be_deployed(api_as, cast, path):
    instance = cast.instance()
    assert api_as("admin", "PUT", path, json={"enabled": False}).status_code == 200
    answer = api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json={"image_id": cast.image.id})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"image_id"})
    assert api_as("admin", "PUT", path, json={"enabled": 0}).status_code == 422


def test_image_lists_hypervisors_with_copies(api_as, cast, path):
    """IMG-02"""
    assert api_as("admin", "GET", path).json["data"]["hypervisors"] == []
    storage = session.merge(cast.node).storages[0]
    session.add(ImageCopy(image_id=cast.image.id, storage_id=storage.id))
    session.commit()
    assert api_as("admin", "GET", path).json["data"]["hypervisors"] == [{"id": cast.node.id, "name": "node-1"}]


def test_image_list_query_count_is_constant(api_as, queries):
    api_as("admin", "GET", IMAGES_PATH)
    queries.clear()
    api_as("admin", "GET", IMAGES_PATH)
    few = len(queries)
    for number in range(30):
        register_image_row(f"image-{number}")
    session.commit()
    queries.clear()
    assert len(api_as("admin", "GET", IMAGES_PATH).json["data"]) == 31
    assert len(queries) == few


def test_unknown_image_id_returns_404(api_as):
    """ENV-10"""
    assert api_as("admin", "GET", f"/api/v1/image/{UNKNOWN_ID}").status_code == 404
    assert api_as("admin", "PUT", f"/api/v1/image/{UNKNOWN_ID}", json={"label": "x"}).status_code == 404
    assert session.query(Image).count() == 1
