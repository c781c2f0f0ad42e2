"""Translation of messages of services, workers and rows on pages and in mails."""

from panel.core import languages, mail
from panel.core.db import session
from panel.core.messages import message
from panel.models import Task
from panel.services import brands
from tests.support.pseudo_language import bracket, pseudo_language  # noqa: F401

CHANGE_FACTS = {
    "email": "a@example.com",
    "browser": "Firefox",
    "ip": "192.0.2.1",
    "at": "2026-05-03T10:30:00Z",
    "zone": "UTC",
    "link": "https://x/y",
}


def test_form_errors_are_translated(browser_as, pseudo_language):
    key = {"name": "a key", "public_key": "ssh-rsa nonsense"}
    page = browser_as("owner").post("/ssh-keys/new", data=key, headers=pseudo_language)
    assert page.status_code == 422
    assert bracket("Paste one line in OpenSSH format.") in page.text


def test_form_error_parameters_are_inserted_after_translation(browser_as, cast, pseudo_language):
    page = browser_as("owner").post("/ssh-keys/new", data={"name": "x" * 300}, headers=pseudo_language)
    assert "⟦Length must be between 1 and " in page.text


def test_task_stage_and_error_are_translated(browser_as, cast, pseudo_language):
    instance = cast.instance()
    facts = {"resource_type": "instance", "resource_id": instance.id, "account_id": cast.owner.id}
    stage = message(
        "Waiting for another task: {stage}", stage=message("Copying the image {image:.100}", image="<Debian>")
    )
    error = message("The image needs {size} GiB of disk.", size=7)
    waiting = Task(kind="instance_deploy", status="running", stage=stage, **facts)
    failed = Task(kind="instance_deploy", status="failed", stage=message("Stopped"), error=error, **facts)
    session.add_all([waiting, failed])
    session.commit()
    session.expire_all()
    browser = browser_as("owner")
    task_page = browser.get(f"/tasks/{waiting.id}", headers=pseudo_language).text
    assert bracket("Waiting for another task: ⟦Copying the image &lt;Debian&gt;⟧") in task_page
    assert bracket("The image needs 7 GiB of disk.") in browser.get(f"/tasks/{failed.id}", headers=pseudo_language).text
    assert "The image needs 7 GiB of disk." in browser.get(f"/tasks/{failed.id}").text


def test_api_answers_are_english(api_as, pseudo_language):
    answer = api_as("owner", "GET", "/api/instance/00000000-0000-0000-0000-000000000000", headers=pseudo_language)
    assert answer.json["message"] == "No such instance."
    assert "⟦" not in answer.text


def test_mail_translates_message_in_its_facts(app, cast, pseudo_language):
    languages.current_language.set("eo")
    row = mail.send("ada@example.com", "security_changed", what=message("Your password was changed"), **CHANGE_FACTS)
    session.expire(row)
    assert row.facts["what"].template == "Your password was changed"
    assert mail.compose(row, row.facts, "eo", brands.build_builtin())["Subject"] == bracket("Your password was changed")
