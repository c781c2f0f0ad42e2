"""The checklist of a new platform: each step is tested, and operators can hide the list."""

import pytest
from lxml import html

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Address, BackupDestination, Hypervisor, Image, Mail, Plan
from panel.services import backup_destinations, platform_checklist, settings, workers


@pytest.fixture(autouse=True)
def prepared_platform(monkeypatch, rolled_back_app, cast, change_config):
    """Complete every step."""
    monkeypatch.setattr(workers, "count_alive", lambda: 2)
    change_config(mail_url="smtp://mail.example.com:25", public_url="https://panel.example.com")
    cast.node.seen_at, cast.node.accelerated = clock.now(), True
    destination = backup_destinations.create(name="b", storage_type="local", config={"path": "/srv/backups"})
    destination.status = "available"
    session.get(Account, cast.admin.id).two_factor_at = clock.now()
    settings.update({"billing_enabled": True})
    session.commit()


def list_open():
    session.flush()
    return [step.name for step in platform_checklist.list_steps() if not step.is_done]


def break_subnet():
    for address in session.query(Address).filter(Address.interface_id.is_(None)):
        address.reserved = True


BREAKS = {
    "hypervisor": lambda node: setattr(node, "status", "down"),
    "kvm": lambda node: setattr(node, "accelerated", False),
    "subnet": lambda node: break_subnet(),
    "image": lambda node: setattr(session.query(Image).filter_by(purpose="general").one(), "distro", "simulated"),
    "plan": lambda node: setattr(session.query(Plan).one(), "enabled", False),
    "mail": lambda node: session.add(Mail(recipient="a@b.c", template="x", encrypted_context="{}", error="550 no")),
    "backup_destination": lambda node: setattr(session.query(BackupDestination).one(), "status", "unavailable"),
    "second_factor": lambda node: session.query(Account).update({"two_factor_at": None}),
    "billing": lambda node: settings.update({"billing_enabled": False}),
}


@pytest.mark.parametrize("step", BREAKS)
def test_step_is_open_while_its_test_fails(cast, step):
    session.query(Image).update({"name": "debian-12"})
    assert list_open() == []
    BREAKS[step](session.get(Hypervisor, cast.node.id))
    assert list_open() == (["hypervisor", "kvm"] if step == "hypervisor" else [step])


@pytest.mark.parametrize(
    "url", ["http://panel.example.com", "https://localhost", "https://192.0.2.1", "https://p.local"]
)
def test_public_address_must_be_https_with_domain(cast, change_config, url):
    session.query(Image).update({"name": "debian-12"})
    change_config(public_url=url)
    assert list_open() == ["public_address"]


def test_operator_hides_checklist_and_shows_it_again(browser_as, cast):
    settings.update({"billing_enabled": False})
    session.query(Mail).delete()
    session.add(Mail(recipient="a@b.c", template="x", encrypted_context="{}", error="550 not here"))
    session.commit()
    browser = browser_as("admin")
    page = html.fromstring(browser.get("/admin").text)
    (card,) = page.xpath("//section[@aria-label='Set up your platform']")
    assert "550 not here" in card.text_content()
    assert card.xpath(".//a[@href='/admin/settings']")[0].text_content() == "Enable billing"
    browser.post("/admin/checklist/hide")
    assert "Set up your platform" not in browser.get("/admin").text
    assert "of the checklist are open." in browser.get("/admin").text
    browser.post("/admin/checklist/show")
    assert "Set up your platform" in browser.get("/admin").text


def test_complete_checklist_is_not_shown(browser_as):
    session.query(Image).update({"name": "debian-12"})
    session.commit()
    assert "checklist" not in browser_as("admin").get("/admin").text
