"""Team members in a real browser: invitation by mail, joining, permissions and removal."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.running_installation import CUSTOMER, PASSWORD, sign_in
from tests.browser.windows import open_window
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.processes]

MEMBER = "grace@example.com"


@pytest.fixture
def member_page(browser):
    """Open a page in a second browser context."""
    context = open_window(browser)
    yield context.new_page()
    context.close()


def test_invited_member_sees_granted_instances_only(page, member_page, running_installation, screenshot):
    for name in ("Shop front", "Payroll"):
        running_installation.customer.create_instance(display_name=name)
    sign_in(page, running_installation, CUSTOMER)
    page.locator(".account-menu").click()
    page.get_by_role("link", name="Team").first.click()
    page.get_by_role("link", name="Read only").click()
    expect(page.get_by_label("Name")).to_have_value("Read only")
    page.get_by_role("button", name="Add role").click()
    page.get_by_role("link", name="Invite member").first.click()
    page.get_by_label("Email address").fill(MEMBER)
    expect(page.get_by_label("Payroll")).to_be_hidden()
    page.get_by_label("Single resources").check()
    page.get_by_label("Shop front").check()
    screenshot("invite")
    page.get_by_role("button", name="Send invitation").click()
    expect(page.get_by_text("Invitation sent")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile(MEMBER))).to_contain_text("Invited")

    mails = running_installation.mail_server.mails
    (invitation,) = wait_until(lambda: [mail for mail in mails if mail["To"] == MEMBER], "the invitation")
    link = re.search(r"Accept the invitation: (\S+)", invitation.get_body(("plain",)).get_content())[1]
    member_page.goto(link)
    member_page.get_by_label("First name").fill("Grace")
    member_page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    member_page.get_by_label("Repeat password").fill(PASSWORD)
    member_page.get_by_role("button", name="Join the team").click()
    expect(member_page.get_by_text("You joined the team.")).to_be_visible()
    member_page.get_by_role("link", name="Instances", exact=True).first.click()
    expect(member_page.get_by_role("link", name="Shop front")).to_be_visible()
    expect(member_page.get_by_text("Payroll")).to_have_count(0)

    member_page.get_by_role("link", name="Shop front").click()
    deploy = member_page.get_by_role("button", name=re.compile("Deploy"))
    expect(deploy).to_be_disabled()
    expect(deploy).to_contain_text("it needs instances.manage")
    member_page.get_by_role("navigation", name="Instance sections").get_by_role("link", name="Settings").click()
    expect(member_page.get_by_text("it needs instances.delete")).to_be_visible()
    member_page.goto(f"{running_installation.url}/team/invite")
    expect(member_page.get_by_text("it needs team.manage")).to_be_visible()

    page.reload()
    row = page.get_by_role("row", name=re.compile(MEMBER))
    expect(row).to_contain_text("Active")
    row.get_by_role("button", name=f"Actions for {MEMBER}").click()
    row.get_by_role("button", name="Remove").click()
    page.locator("#confirm-yes").click()
    expect(page.get_by_text("removed from the team")).to_be_visible()
    member_page.goto(f"{running_installation.url}/instances")
    expect(member_page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
