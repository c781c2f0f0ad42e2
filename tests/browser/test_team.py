"""A team in a real browser: somebody is invited by a real mail, joins, and sees and does what was chosen for them."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import open_window
from tests.browser.test_tokens import PASSWORD, sign_in
from tests.processes.conftest import Customer, fresh_installation, installation, wait_until  # noqa: F401
from tests.processes.test_mail import installation_settings, mail_server  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.processes]

OWNER, GRACE = "customer@example.com", "grace@example.com"


@pytest.fixture
def running(installation):
    installation.up()
    installation.run_panel("user", "password", "--email", OWNER, "--password", PASSWORD)
    return installation


@pytest.fixture
def machines(running, fresh_installation):
    """Two instances of the owner, not deployed: their names."""
    owner = Customer(running, fresh_installation[1])
    location = owner.call("GET", "/api/cloud-service/locations")["data"][0]["id"]
    groups = f"/api/cloud-service/location/{location}/plan-group"
    plan = owner.call("GET", f"{groups}/{owner.call('GET', groups + 's')[0]['id']}/plans")[0]["id"]
    for name in ("Shop front", "Payroll"):
        body = {"location_id": location, "plan_id": plan, "display_name": name}
        owner.call("POST", "/api/cloud-service/instances", body)
    return owner


@pytest.fixture
def newcomer(browser):
    """The browser of somebody else."""
    context = open_window(browser)
    yield context.new_page()
    context.close()


def test_somebody_is_invited_joins_and_sees_what_was_chosen(page, newcomer, running, machines, mail_server, screenshot):
    sign_in(page, running, OWNER)
    page.get_by_role("link", name="Team").first.click()
    page.get_by_role("link", name="Read only").click()
    expect(page.get_by_label("Name")).to_have_value("Read only")
    page.get_by_role("button", name="Add role").click()
    page.get_by_role("link", name="Invite member").first.click()
    page.get_by_label("Email address").fill(GRACE)
    expect(page.get_by_label("Payroll")).to_be_hidden()
    page.get_by_label("Single instances").check()
    page.get_by_label("Shop front").check()
    screenshot("invite")
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_text("Invitation sent")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile(GRACE))).to_contain_text("Invited")

    (letter,) = wait_until(lambda: [mail for mail in mail_server.mails if mail["To"] == GRACE], "the invitation")
    link = re.search(r"Accept the invitation: (\S+)", letter.get_body(("plain",)).get_content())[1]
    newcomer.goto(link)
    newcomer.get_by_label("First name").fill("Grace")
    newcomer.get_by_label("Password", exact=False).first.fill(PASSWORD)
    newcomer.get_by_label("Repeat password").fill(PASSWORD)
    newcomer.get_by_role("button", name="Join the team").click()
    expect(newcomer.get_by_text("You joined the team.")).to_be_visible()
    newcomer.get_by_role("link", name="Instances", exact=True).first.click()
    expect(newcomer.get_by_role("link", name="Shop front")).to_be_visible()
    expect(newcomer.get_by_text("Payroll")).to_have_count(0)

    newcomer.get_by_role("link", name="Shop front").click()
    deploy = newcomer.get_by_role("button", name=re.compile("Deploy"))
    expect(deploy).to_be_disabled()
    expect(deploy).to_contain_text("it needs instances.manage")
    newcomer.get_by_role("link", name="Settings").click()
    expect(newcomer.get_by_text("it needs instances.delete")).to_be_visible()
    newcomer.goto(f"{running.url}/team/invite")
    expect(newcomer.get_by_text("it needs team.manage")).to_be_visible()

    page.reload()
    row = page.get_by_role("row", name=re.compile(GRACE))
    expect(row).to_contain_text("Active")
    row.get_by_role("button", name=f"Actions for {GRACE}").click()
    row.get_by_role("button", name="Remove").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("removed from the team")).to_be_visible()
    newcomer.goto(f"{running.url}/instances")
    expect(newcomer.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
