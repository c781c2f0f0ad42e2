"""The activity of an account, on its own page, the overview and the page of an instance."""

from panel.core.db import session
from panel.services import instances


def test_activity_shows_events_with_actor(browser_as, cast, run_tasks):
    instance = cast.instance(display_name="Shop front", actor="owner@example.com")
    instances.deploy(instance, image_id=cast.image.id, account=cast.owner, actor="owner@example.com")
    session.commit()
    run_tasks()
    for address in ("/activity", "/", f"/instances/{instance.id}/activity"):
        page = browser_as("owner").get(address).text
        assert "was created" in page
        assert "was deployed" in page
        assert "by owner@example.com" in page
    assert "Shop front" not in browser_as("outsider").get("/activity").text


def test_activity_query_count_is_constant(browser_as, cast, queries):
    browser = browser_as("owner")
    cast.instance()
    queries.clear()
    browser.get("/activity")
    query_count = len(queries)
    for _ in range(29):
        cast.instance()
    queries.clear()
    assert browser.get("/activity").text.count("was created") == 25
    assert len(queries) == query_count
