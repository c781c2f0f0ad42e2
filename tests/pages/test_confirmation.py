"""Names that are typed to confirm an action: errors are shown at the field."""

import json

import pytest

from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.instances import create_deployed_instance


@pytest.mark.parametrize(
    ("caller", "path"),
    [
        ("owner", "/instances/{instance}/destroy"),
        ("admin", "/admin/instances/{instance}/destroy"),
        ("admin", "/admin/hypervisors/{node}/evacuate"),
        ("admin", "/admin/customers/{outsider}/delete"),
    ],
)
def test_wrong_confirmation_name_is_a_field_error(browser_as, cast, run_tasks, caller, path):
    instance = create_deployed_instance(cast, run_tasks)
    path = path.format(instance=instance.id, node=cast.node.id, outsider=cast.outsider.id)
    answer = browser_as(caller).post(path, data={"typed": "nonsense"}, headers=PARTIAL_HEADERS)
    error = json.loads(answer.headers["HX-Trigger"])["field-error"]
    assert list(error) == ["typed"]
    assert "toast-line" not in answer.text
    page = browser_as(caller).post(path, data={"typed": "nonsense"})
    assert page.status_code == 422
    assert error["typed"] in page.text.replace("&#39;", "'")


def test_api_hints_show_routes_of_the_current_area(browser_as, cast, run_tasks):
    """Operators were shown the customers' route."""
    instance = create_deployed_instance(cast, run_tasks)
    for caller, area, route in (("owner", "", "/api/instance/"), ("admin", "/admin", "/api/v1/instance/")):
        page = browser_as(caller).get(f"{area}/instances/{instance.id}/apps").text
        assert f"<code>POST {route}{instance.id}/docker" in page
