"""The catalog of an instance's actions."""

import re

import pytest

from panel.schemas.team import PERMISSION_EXAMPLE
from panel.services import instances
from panel.services.instances import action_catalog
from panel.services.instances.action_catalog import ACTIONS
from tests.support.instances import create_deployed_instance


def test_customer_bulk_actions_have_permissions_and_exclude_suspend():
    assert set(action_catalog.OPERATOR_BULK_ACTIONS) - set(action_catalog.CUSTOMER_BULK_ACTIONS) == {
        "suspend",
        "unsuspend",
    }
    assert {ACTIONS[name].permission for name in action_catalog.CUSTOMER_BULK_ACTIONS} <= set(PERMISSION_EXAMPLE)


def test_pages_of_customers_and_operators_have_the_same_power_buttons(browser_as, cast, run_tasks):
    instance = create_deployed_instance(cast, run_tasks)
    for caller, area in (("owner", ""), ("admin", "/admin")):
        page = browser_as(caller).get(f"{area}/instances/{instance.id}").text
        buttons = set(re.findall(rf'action="{area}/instances/{instance.id}/power/(\w+)', page))
        assert "shutdown" in buttons, caller
        assert "stop" not in buttons, caller


@pytest.mark.parametrize("name", ["start", "stop", "shutdown", "poweroff"])
def test_noop_power_action_is_disabled_with_result_message(rolled_back_app, cast, name):
    instance, action = cast.instance(), ACTIONS[name]
    instance.deployed, instance.power = True, action.noop_power
    assert action_catalog.disabled_reason(instance, action) == action.result_message(None) != ""
    assert instances.run_power_action(instance, name, actor="somebody") is None


def test_confirmations_name_instance_and_owner(rolled_back_app, cast):
    instance = cast.instance()
    assert instance.display_name in ACTIONS["restart"].get_confirmation(instance)
    assert instance.account.email in ACTIONS["suspend"].get_confirmation(instance)
