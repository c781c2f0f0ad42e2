"""Images on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import Image
from panel.services import catalog
from tests.support.html_pages import PARTIAL_HEADERS

IMAGES_PATH = "/admin/images"


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def image(cast):
    return session.get(Image, cast.image.id)


def test_image_page_saves_customer_visible_fields(operator_browser, image):
    page = operator_browser.get(f"{IMAGES_PATH}/{image.id}").text
    assert image.sha256 in page
    sent = {
        "label": "Debian",
        "description": "Small.\r\nFast.",
        "min_disk": "3",
        "public": "false",
        "purpose": "general",
    }
    assert operator_browser.post(f"{IMAGES_PATH}/{image.id}", data=sent).status_code == 303
    assert (image.label, image.description, image.min_disk, image.public) == ("Debian", "Small.\nFast.", 3, False)
    assert operator_browser.post(f"{IMAGES_PATH}/{image.id}", data={"description": ""}).status_code == 303
    assert (image.description, image.label) == (None, "Debian")


def test_form_errors_appear_at_fields(operator_browser, image):
    answer = operator_browser.post(f"{IMAGES_PATH}/{image.id}", data={"min_disk": "0", "label": "x" * 300})
    assert answer.status_code == 422
    assert 'id="wrong-min_disk"' in answer.text
    assert 'id="wrong-label"' in answer.text


def test_captured_image_purpose_cannot_be_changed(operator_browser, image, cast):
    image.purpose, image.account_id = "user", cast.owner.id
    session.commit()
    assert "not available for captured images" in operator_browser.get(f"{IMAGES_PATH}/{image.id}").text
    answer = operator_browser.post(f"{IMAGES_PATH}/{image.id}", data={"purpose": "general"})
    assert (answer.status_code, 'id="wrong-purpose"' in answer.text) == (422, True)


def test_image_is_disabled_and_enabled(operator_browser, image):
    for value, on in (("off", False), ("on", True)):
        assert (
            operator_browser.post(f"{IMAGES_PATH}/{image.id}/{value}", headers=PARTIAL_HEADERS).headers["HX-Trigger"]
            == "changed"
        )
        assert image.enabled is on


def test_image_list_filters_with_constant_query_count(operator_browser, image, queries):
    assert image.id not in operator_browser.get(f"{IMAGES_PATH}?purpose=load_balancer").text
    assert image.id in operator_browser.get(f"{IMAGES_PATH}?search=debian").text
    queries.clear()
    operator_browser.get(IMAGES_PATH)
    few = len(queries)
    for number in range(29):
        catalog.register_image(
            name=f"i{number}", label="I", distro="X", version="1", filename="x", size=1, sha256="ab" * 32
        )
    session.commit()
    queries.clear()
    assert operator_browser.get(IMAGES_PATH).text.count('<tr id="') == 25
    assert len(queries) == few
