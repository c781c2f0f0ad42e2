"""The profile page."""


def test_profile_page_saves_changes(browser_as, cast):
    sent = {"first_name": "Ada", "last_name": "", "company_name": "", "timezone": "Europe/Berlin"}
    assert browser_as("owner").post("/profile", data=sent).status_code == 303
    assert (cast.owner.name, cast.owner.company_name, cast.owner.timezone) == ("Ada", None, "Europe/Berlin")


def test_unknown_time_zone_is_refused(browser_as, cast):
    answer = browser_as("owner").post("/profile", data={"timezone": "localtime"})
    assert answer.status_code == 422
    assert "Choose a time zone" in answer.text
    assert cast.owner.timezone == "UTC"
