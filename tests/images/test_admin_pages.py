"""Images on the operators' pages."""

import pytest

from panel.core.db import session
from panel.models import Image
from panel.services import catalog
from tests.test_pages import PARTIAL_HEADERS

IMAGES = "/admin/images"


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def image(cast):
    return session.get(Image, cast.image.id)


def test_what_customers_see_of_it_is_changed(operator, image):
    page = operator.get(f"{IMAGES}/{image.id}").text
    assert image.sha256 in page
    sent = {
        "label": "Debian",
        "description": "Small.\r\nFast.",
        "min_disk": "3",
        "public": "false",
        "purpose": "general",
    }
    assert operator.post(f"{IMAGES}/{image.id}", data=sent).status_code == 303
    assert (image.label, image.description, image.min_disk, image.public) == ("Debian", "Small.\nFast.", 3, False)
    assert operator.post(f"{IMAGES}/{image.id}", data={"description": ""}).status_code == 303
    assert (image.description, image.label) == (None, "Debian")


def test_mistakes_stand_beside_their_fields(operator, image):
    answer = operator.post(f"{IMAGES}/{image.id}", data={"min_disk": "0", "label": "x" * 300})
    assert answer.status_code == 422
    assert 'id="wrong-min_disk"' in answer.text
    assert 'id="wrong-label"' in answer.text


def test_a_captured_image_keeps_its_purpose(operator, image, cast):
    image.purpose, image.account_id = "user", cast.owner.id
    session.commit()
    assert "not available for captured images" in operator.get(f"{IMAGES}/{image.id}").text
    answer = operator.post(f"{IMAGES}/{image.id}", data={"purpose": "general"})
    assert (answer.status_code, 'id="wrong-purpose"' in answer.text) == (422, True)


def test_it_is_turned_off_and_on(operator, image):
    for word, on in (("off", False), ("on", True)):
        assert operator.post(f"{IMAGES}/{image.id}/{word}", headers=PARTIAL_HEADERS).headers["HX-Trigger"] == "changed"
        assert image.enabled is on


def test_the_list_is_narrowed_and_costs_the_same_for_many(operator, image, queries):
    assert image.id not in operator.get(f"{IMAGES}?purpose=load_balancer").text
    assert image.id in operator.get(f"{IMAGES}?search=debian").text
    queries.clear()
    operator.get(IMAGES)
    few = len(queries)
    for number in range(29):
        catalog.register_image(
            name=f"i{number}", label="I", distro="X", version="1", filename="x", size=1, sha256="ab" * 32
        )
    session.commit()
    queries.clear()
    assert operator.get(IMAGES).text.count('<tr id="') == 25
    assert len(queries) == few
