"""Making a failed image again (requirement 12: POST /api/image/{id}/retry)."""

import pytest

from panel.core.db import session
from panel.models import Image, Task


@pytest.fixture
def failed(cast):
    instance = cast.instance()
    instance.deployed, instance.power = True, "off"
    made = Image(account_id=cast.owner.id, instance_id=instance.id, name="mine", label="mine", distro="Debian")
    made.version, made.purpose, made.public, made.status = "12", "user", False, "error"
    session.add(made)
    session.commit()
    return made


def retry(as_, image, who="owner"):
    return as_(who, "POST", f"/api/image/{image.id}/retry")


def test_a_failed_image_is_made_again(as_, failed):
    answer = retry(as_, failed)
    assert (answer.status_code, answer.json["image"]["status"]) == (200, "creating")
    assert session.query(Task).filter_by(kind="image_capture").one().arguments == {"image_id": failed.id}
    again = retry(as_, failed)
    assert (again.status_code, again.json["reason"]) == (409, "not_failed")


def test_without_its_instance_it_cannot_be_made(as_, failed):
    failed.instance_id = None
    session.commit()
    answer = retry(as_, failed)
    assert (answer.status_code, answer.json["reason"], failed.status) == (409, "instance_gone", "error")


def test_the_reasons_of_an_image_hold(as_, cast, failed):
    as_("admin", "POST", f"/api/v1/instance/{failed.instance_id}/state/suspend")
    answer = retry(as_, failed)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")


def test_others_do_not_see_it(as_, failed):
    assert retry(as_, failed, "outsider").status_code == 404
    assert retry(as_, failed, "viewer").status_code == 403
