"""Retrying a failed capture (POST /api/image/{id}/retry)."""

import pytest

from panel.core.db import session
from panel.models import Image, Task


@pytest.fixture
def failed_capture(cast):
    instance = cast.instance()
    instance.deployed, instance.power = True, "off"
    image = Image(account_id=cast.owner.id, instance_id=instance.id, name="mine", label="mine", distro="Debian")
    image.version, image.purpose, image.public, image.status = "12", "user", False, "error"
    session.add(image)
    session.commit()
    return image


def retry_capture(as_, image, caller="owner"):
    return as_(caller, "POST", f"/api/image/{image.id}/retry")


def test_failed_capture_is_retried_once(api_as, failed_capture):
    answer = retry_capture(api_as, failed_capture)
    assert (answer.status_code, answer.json["image"]["status"]) == (200, "creating")
    assert session.query(Task).filter_by(kind="image_capture").one().arguments == {"image_id": failed_capture.id}
    again = retry_capture(api_as, failed_capture)
    assert (again.status_code, again.json["reason"]) == (409, "not_failed")


def test_retry_without_instance_is_refused(api_as, failed_capture):
    failed_capture.instance_id = None
    session.commit()
    answer = retry_capture(api_as, failed_capture)
    assert (answer.status_code, answer.json["reason"], failed_capture.status) == (409, "instance_gone", "error")


def test_retry_of_suspended_instance_is_refused(api_as, cast, failed_capture):
    api_as("admin", "POST", f"/api/v1/instance/{failed_capture.instance_id}/state/suspend")
    answer = retry_capture(api_as, failed_capture)
    assert (answer.status_code, answer.json["reason"]) == (409, "suspended")


def test_retry_requires_permission(api_as, failed_capture):
    assert retry_capture(api_as, failed_capture, "outsider").status_code == 404
    assert retry_capture(api_as, failed_capture, "viewer").status_code == 403
