"""Sample things on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import SampleThing
from panel.services import sample_things


def create_sample_thing(account, name="first"):
    sample_thing = sample_things.create(
        account,
        # if task
        actor=account.email,
        # end if
        name=name,
    )
    session.commit()
    return sample_thing


def test_sample_thing_form_creates_changes_and_deletes(browser_as, cast):
    browser = browser_as("owner")
    assert "No sample thing yet" in browser.get("/sample-things").text
    assert browser.post("/sample-things/new", data={"name": "first", "description": "a note"}).status_code == 303
    sample_thing = session.scalars(select(SampleThing)).one()
    assert (sample_thing.name, sample_thing.account_id) == ("first", cast.owner.id)
    assert "a note" in browser.get("/sample-things").text
    address = f"/sample-things/{sample_thing.id}"
    assert 'value="first"' in browser.get(address).text
    assert browser.post(address, data={"name": "second", "description": ""}).status_code == 303
    assert sample_thing.name == "second"
    assert browser.post(f"{address}/delete").status_code == 303
    assert session.scalars(select(SampleThing)).all() == []


def test_form_error_is_shown_at_its_field(browser_as):
    answer = browser_as("owner").post("/sample-things/new", data={"name": ""})
    assert answer.status_code == 422
    assert 'id="wrong-name"' in answer.text


def test_foreign_sample_thing_page_is_not_found(browser_as, cast):
    sample_thing = create_sample_thing(cast.owner, "of the owner")
    outsider = browser_as("outsider")
    assert outsider.get(f"/sample-things/{sample_thing.id}").status_code == 404
    assert outsider.post(f"/sample-things/{sample_thing.id}", data={"name": "mine"}).status_code == 404
    assert outsider.post(f"/sample-things/{sample_thing.id}/delete").status_code == 404
    assert sample_thing.name not in outsider.get("/sample-things").text


def test_navigation_and_palette_list_sample_things(browser_as):
    browser = browser_as("owner")
    assert 'href="/sample-things"' in browser.get("/").text
    assert "/sample-things/new" in browser.get("/search?q=sample thing").text
