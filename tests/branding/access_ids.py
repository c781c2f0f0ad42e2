"""Ids for the placeholders in paths, for tests/test_access.py."""

from panel.services import mail_templates


def create_ids(api_as):
    return {"email_template_id": mail_templates.list_all()[0].id}
