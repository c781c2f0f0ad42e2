"""The images and ISOs that are offered for a deploy, and that only these are accepted."""

import pytest

from panel.core.db import session
from panel.models import Image, Iso


@pytest.fixture
def images_and_isos(cast):
    """Images and ISOs, some of which do not fit or belong to other accounts."""
    facts = {"label": "x", "distro": "Debian", "version": "12", "sha256": "cd" * 32, "filename": "tiny.qcow2"}
    own = {"purpose": "user", "public": False}
    for name, more in {
        "large": {"min_disk": 1000},
        "hungry": {"min_ram": 65536},
        "off": {"enabled": False},
        "coming": {"status": "downloading"},
        "rescue": {"purpose": "rescue"},
        "signed": {"secure_boot": True},
        "own": {"account_id": cast.owner.id, **own},
        "foreign": {"account_id": cast.outsider.id, **own},
    }.items():
        session.add(Image(name=name, **facts, **more))
    for name, more in {
        "disc": {"public": True},
        "insecure": {"public": True, "url": "http://example.com/x.iso"},
        "hidden": {"public": True, "enabled": False},
        "mine": {"account_id": cast.owner.id},
        "theirs": {"account_id": cast.outsider.id},
    }.items():
        session.add(Iso(name=name, filename="x.iso", **{"url": f"https://example.com/{name}.iso", **more}))
    session.commit()


def get_names(answer):
    assert answer.status_code == 200
    return {row["name"] for row in answer.json["data"]}


def test_deploy_accepts_only_offered_images(api_as, cast, images_and_isos, run_tasks):
    for image in session.query(Image).all():
        path = f"/api/instance/{cast.instance().id}/deploy"
        offered = get_names(api_as("owner", "GET", f"{path}/images"))
        assert offered == {"tiny", "signed", "own"}
        answer = api_as("owner", "POST", path, json={"image_id": image.id})
        assert answer.status_code == (200 if image.name in offered else 422), image.name


def test_secure_boot_instance_is_offered_only_signed_images(api_as, cast, images_and_isos):
    instance = cast.instance()
    instance.secure_boot_enabled = True
    session.commit()
    path = f"/api/instance/{instance.id}/deploy"
    assert get_names(api_as("owner", "GET", f"{path}/images")) == {"signed"}
    unsigned = api_as("owner", "POST", path, json={"image_id": cast.image.id})
    assert (unsigned.status_code, list(unsigned.json["errors"])) == (422, ["image_id"])


def test_self_deploy_accepts_only_offered_isos(api_as, cast, images_and_isos):
    for iso in session.query(Iso).all():
        instance = cast.instance()
        offered = get_names(api_as("owner", "GET", f"/api/instance/{instance.id}/deploy/iso"))
        assert offered == {"disc", "mine"}
        answer = api_as("owner", "POST", f"/api/instance/{instance.id}/self-deploy", json={"iso_id": iso.id})
        assert answer.status_code == (200 if iso.name in offered else 422), iso.name


def test_deploy_image_list_has_constant_query_count(api_as, cast, images_and_isos, queries):
    path = f"/api/instance/{cast.instance().id}/deploy/images"
    api_as("owner", "GET", path)
    queries.clear()
    assert api_as("owner", "GET", f"{path}?per_page=1").json["total"] == 3
    few = len(queries)
    queries.clear()
    assert len(api_as("owner", "GET", path).json["data"]) == 3
    assert len(queries) == few
    assert get_names(api_as("owner", "GET", f"{path}?search=own")) == {"own"}


def test_deploy_options_of_other_account_are_not_found(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/deploy"
    for kind in ("images", "iso"):
        assert api_as("outsider", "GET", f"{path}/{kind}").status_code == 404
