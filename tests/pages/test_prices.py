"""While nothing is charged no page names a price, and what needs billing is not offered (findings M7, m0)."""

import pytest

from panel.core.db import session
from panel.services import settings
from tests.instances.test_pages import create_deployed_instance


@pytest.fixture
def billing(rolled_back_app):
    def switch(on):
        settings.update({"billing_enabled": on})
        session.commit()

    return switch


@pytest.mark.parametrize("on", [True, False])
def test_prices_are_shown_only_while_something_is_charged(browser_as, cast, run_tasks, billing, on):
    instance = create_deployed_instance(cast, run_tasks)
    billing(on)
    for path in ("/", "/instances/new", f"/instances/{instance.id}", f"/instances/{instance.id}/change-plan"):
        page = browser_as("owner").get(path).text
        assert ("€" in page) == on, path
    assert ("at the moment" in browser_as("owner").get("/instances/new").text) != on


def test_an_unbilled_account_sees_no_prices(browser_as, cast, billing):
    billing(True)
    cast.owner.self_provisioning = True
    session.commit()
    assert "€" not in browser_as("owner").get("/instances/new").text


@pytest.mark.parametrize("on", [True, False])
def test_volumes_are_offered_only_while_they_can_be_used(browser_as, cast, run_tasks, billing, on):
    instance = create_deployed_instance(cast, run_tasks)
    billing(on)
    browser = browser_as("owner")
    assert ('href="/volumes"' in browser.get("/").text) == on
    assert ('href="/volumes"' in browser.get("/search?q=volu").text) == on
    assert ('value="volumes.view" aria-label' in browser.get("/team/roles/new").text) == on
    assert ("Attach a volume" in browser.get(f"/instances/{instance.id}/storage").text) == on


def test_a_direct_visit_explains_why_volumes_cannot_be_used(browser_as, billing):
    billing(False)
    for path in ("/volumes", "/volumes/new"):
        page = browser_as("owner").get(path).text
        assert "Volumes are not available at the moment" in page
        assert "Billing is disabled" in page
    assert "Create volume" not in browser_as("owner").get("/volumes").text
    assert 'name="volume_plan_id"' not in browser_as("owner").get("/volumes/new").text
