"""While billing is disabled, pages show no prices and offer no billed resources."""

import pytest

from panel.core.db import session
from panel.services import settings
from tests.support.instances import create_deployed_instance


@pytest.fixture
def switch_billing(rolled_back_app):
    def switch(is_enabled):
        settings.update({"billing_enabled": is_enabled})
        session.commit()

    return switch


@pytest.mark.parametrize("is_enabled", [True, False])
def test_prices_are_shown_only_while_billing_is_enabled(browser_as, cast, run_tasks, switch_billing, is_enabled):
    instance = create_deployed_instance(cast, run_tasks)
    switch_billing(is_enabled)
    for path in ("/", "/instances/new", f"/instances/{instance.id}", f"/instances/{instance.id}/change-plan"):
        page = browser_as("owner").get(path).text
        assert ("€" in page) == is_enabled, path
    assert ("Free of charge" in browser_as("owner").get("/instances/new").text) != is_enabled


def test_unbilled_account_sees_no_prices(browser_as, cast, switch_billing):
    switch_billing(True)
    cast.owner.self_provisioning = True
    session.commit()
    assert "€" not in browser_as("owner").get("/instances/new").text


@pytest.mark.parametrize("is_enabled", [True, False])
def test_volumes_are_offered_only_while_billing_is_enabled(browser_as, cast, run_tasks, switch_billing, is_enabled):
    instance = create_deployed_instance(cast, run_tasks)
    switch_billing(is_enabled)
    browser = browser_as("owner")
    assert ('href="/volumes"' in browser.get("/").text) == is_enabled
    assert ('href="/volumes"' in browser.get("/search?q=volu").text) == is_enabled
    assert ('value="volumes.view" aria-label' in browser.get("/team/roles/new").text) == is_enabled
    assert ("Attach a volume" in browser.get(f"/instances/{instance.id}/storage").text) == is_enabled


def test_volume_pages_explain_that_billing_is_disabled(browser_as, switch_billing):
    switch_billing(False)
    for path in ("/volumes", "/volumes/new"):
        page = browser_as("owner").get(path).text
        assert "Volumes are not available at the moment" in page
        assert "Billing is disabled" in page
    assert "Create volume" not in browser_as("owner").get("/volumes").text
    assert 'name="volume_plan_id"' not in browser_as("owner").get("/volumes/new").text
