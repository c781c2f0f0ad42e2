"""The activity of an account, on its page and on the overview."""

from panel.core.db import session
from panel.services import instances


def test_what_happened_and_who_asked(browser_as, cast, run_tasks):
    made = cast.instance(display_name="Shop front", actor="owner@example.com")
    instances.deploy(made, image_id=cast.image.id, account=cast.owner, actor="owner@example.com")
    session.commit()
    run_tasks()
    for address in ("/activity", "/", f"/instances/{made.id}/activity"):
        page = browser_as("owner").get(address).text
        assert "was created" in page
        assert "was deployed" in page
        assert "by owner@example.com" in page
    assert "Shop front" not in browser_as("outsider").get("/activity").text


def test_the_list_takes_the_same_queries_for_many(browser_as, cast, queries):
    browser = browser_as("owner")
    cast.instance()
    queries.clear()
    browser.get("/activity")
    few = len(queries)
    for _ in range(29):
        cast.instance()
    queries.clear()
    assert browser.get("/activity").text.count("was created") == 25
    assert len(queries) == few
