"""What an instance may be made from, and that a deploy takes exactly that."""

import pytest

from panel.core.db import session
from panel.models import Image, Iso


@pytest.fixture
def choosable_media(cast):
    """Images and ISOs of which some do not fit, or belong to others."""
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


def names(answer):
    assert answer.status_code == 200
    return {row["name"] for row in answer.json["data"]}


def test_a_deploy_takes_the_images_that_are_offered_and_no_other(api_as, cast, choosable_media, run_tasks):
    for image in session.query(Image).all():
        path = f"/api/instance/{cast.instance().id}/deploy"
        offered = names(api_as("owner", "GET", f"{path}/images"))
        assert offered == {"tiny", "signed", "own"}
        answer = api_as("owner", "POST", path, json={"image_id": image.id})
        assert answer.status_code == (200 if image.name in offered else 422), image.name


def test_with_secure_boot_only_signed_images_are_offered(api_as, cast, choosable_media):
    instance = cast.instance()
    instance.secure_boot_enabled = True
    session.commit()
    path = f"/api/instance/{instance.id}/deploy"
    assert names(api_as("owner", "GET", f"{path}/images")) == {"signed"}
    unsigned = api_as("owner", "POST", path, json={"image_id": cast.image.id})
    assert (unsigned.status_code, list(unsigned.json["errors"])) == (422, ["image_id"])


def test_a_self_deploy_takes_the_isos_that_are_offered_and_no_other(api_as, cast, choosable_media):
    for iso in session.query(Iso).all():
        instance = cast.instance()
        offered = names(api_as("owner", "GET", f"/api/instance/{instance.id}/deploy/iso"))
        assert offered == {"disc", "mine"}
        answer = api_as("owner", "POST", f"/api/instance/{instance.id}/self-deploy", json={"iso_id": iso.id})
        assert answer.status_code == (200 if iso.name in offered else 422), iso.name


def test_the_lists_are_searched_and_paged_in_a_constant_number_of_queries(api_as, cast, choosable_media, queries):
    path = f"/api/instance/{cast.instance().id}/deploy/images"
    api_as("owner", "GET", path)
    queries.clear()
    assert api_as("owner", "GET", f"{path}?per_page=1").json["total"] == 3
    few = len(queries)
    queries.clear()
    assert len(api_as("owner", "GET", path).json["data"]) == 3
    assert len(queries) == few
    assert names(api_as("owner", "GET", f"{path}?search=own")) == {"own"}


def test_others_instances_have_no_lists(api_as, cast):
    path = f"/api/instance/{cast.instance().id}/deploy"
    for kind in ("images", "iso"):
        assert api_as("outsider", "GET", f"{path}/{kind}").status_code == 404
