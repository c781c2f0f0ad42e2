"""The menu of an instance in a list loads its actions when it opens."""

import pytest

from tests.support.html_pages import HtmlOutline


def read_row_actions(browser, instance, area=""):
    return browser.get(f"{area}/instances/{instance.id}/row-actions")


@pytest.mark.parametrize(("who", "area", "action"), [("owner", "", "shutdown"), ("admin", "/admin", "poweroff")])
def test_row_menu_loads_console_shell_and_power(browser_as, cast, who, area, action):
    instance = cast.instance(deployed=True, power="on")
    page = browser_as(who).get(f"{area}/instances").text
    assert f'hx-get="{area}/instances/{instance.id}/row-actions"' in page
    assert f"{area}/instances/{instance.id}/settings" in page
    assert "/power/" not in page
    answer = read_row_actions(browser_as(who), instance, area)
    assert HtmlOutline(answer.text).open == []
    assert f'{area}/instances/{instance.id}/power/{action}"' in answer.text
    assert f"/instances/{instance.id}/shell" in answer.text


def test_row_menu_has_reason_that_all_actions_share_once(browser_as, cast):
    instance = cast.instance(deployed=True, power="on")
    answer = read_row_actions(browser_as("viewer"), instance)
    assert (answer.status_code, "/power/" in answer.text) == (200, False)
    assert answer.text.count("disabled") >= 5
    assert read_row_actions(browser_as("outsider"), instance).status_code == 404
