"""Texts of mails in the admin API."""

from marshmallow import fields

from panel.schemas.base import In, Name, Out, Text, Time, describe

EXAMPLE_ID = "0b0de5ab-1b0e-5d0e-8f8a-0d2f8a5b6c7d"
MAX_TEXT = 20_000
SUBJECT = describe("Subject, with placeholders.", "Your new password for {brand}")
TEXT = describe(
    "Plain text with placeholders. A paragraph like `Choose a password: {link}` becomes a button.",
    "Choose a password: {link}",
)


class MailTemplatePatch(In):
    subject = Name(maximum=200, allow_none=True, **SUBJECT)
    text = Text(minimum=1, maximum=MAX_TEXT, lines=True, allow_none=True, **TEXT)


class MailTemplateOut(Out):
    id = fields.String(**describe("Id of the template.", EXAMPLE_ID))
    kind = fields.String(**describe("Kind of mail.", "password_reset"))
    language = fields.String(**describe("Language of the mail.", "en"))
    subject = fields.String(**SUBJECT)
    text = fields.String(**TEXT)
    placeholders = fields.List(fields.String(), **describe("Possible placeholders.", ["email", "link", "brand"]))
    is_custom = fields.Boolean(**describe("Whether an operator has changed the built-in text.", True))
    updated_at = Time(allow_none=True, **describe("When it was changed, or null.", "2026-01-02T03:04:05.678Z"))
