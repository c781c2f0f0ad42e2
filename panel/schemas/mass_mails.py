"""Mass mails and the mail log in the admin API."""

from marshmallow import fields, validate

from panel.schemas.base import In, Int, Name, Out, PageQuery, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
MAX_SUBJECT = 200
MAX_TEXT = 20_000
MAX_MAILS_PER_MINUTE = 600
MAIL_STATUSES = ("sent", "failed", "unknown")
SUBJECT = describe("Subject. It may have the placeholders `{name}` and `{email}`.", "New prices")
TEXT = describe(
    "Plain text with the same placeholders. A paragraph like `Read more: https://…` becomes a button.", "Dear {name}, …"
)
RATE = describe("Mails a minute.", 60)
GROUP_ID = describe("Only customers with instances at this location. Null: all customers.", None)


class MassMailIn(In):
    subject = Name(required=True, attribute="name", maximum=MAX_SUBJECT, **SUBJECT)
    text = Text(required=True, minimum=1, maximum=MAX_TEXT, lines=True, **TEXT)
    mails_per_minute = Int(1, MAX_MAILS_PER_MINUTE, load_default=60, **RATE)
    group_id = fields.UUID(allow_none=True, load_default=None, **GROUP_ID)


class MassMailPatch(Patch):
    subject = Name(attribute="name", maximum=MAX_SUBJECT, **SUBJECT)
    text = Text(minimum=1, maximum=MAX_TEXT, lines=True, **TEXT)
    mails_per_minute = Int(1, MAX_MAILS_PER_MINUTE, **RATE)
    group_id = fields.UUID(allow_none=True, **GROUP_ID)


class MassMailOut(Out):
    id = fields.String(**describe("Id of the mass mail.", EXAMPLE_ID))
    subject = fields.String(attribute="name", **SUBJECT)
    text = fields.String(**TEXT)
    mails_per_minute = fields.Integer(**RATE)
    group_id = fields.String(allow_none=True, **GROUP_ID)
    status = fields.String(**describe("`draft`, `sending`, `paused` or `sent`.", "sending"))
    total = fields.Integer(**describe("Number of recipients; 0 until it is started.", 1200))
    queued = fields.Integer(**describe("Number of recipients whose mail was handed to the mail queue.", 60))
    started_at = Time(allow_none=True, **describe("When it was started, or null.", EXAMPLE_TIME))
    finished_at = Time(allow_none=True, **describe("When the last mail was in the mail queue, or null.", None))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))


class MailLogQuery(PageQuery):
    search = fields.String(
        validate=validate.Length(max=255), metadata={"description": "Part of the recipient or the subject."}
    )
    status = fields.String(validate=validate.OneOf(MAIL_STATUSES), metadata={"description": "Only this status."})


class MailLogEntryOut(Out):
    id = fields.String(**describe("Id of the entry.", EXAMPLE_ID))
    recipient = fields.String(**describe("Email address.", "ada@example.com"))
    template = fields.String(**describe("Name of the mail's template.", "invitation"))
    subject = fields.String(**describe("Subject; empty if the mail could not be composed.", "Your invitation"))
    status = fields.String(
        **describe(
            "`sent`, `failed`, or `unknown` if a worker was lost while it sent a mail that is never sent twice.", "sent"
        )
    )
    attempts = fields.Integer(**describe("Number of attempts.", 1))
    error = fields.String(allow_none=True, **describe("The mail server's last answer, or null.", None))
    created_at = Time(**describe("When the mail was sent or the last attempt failed.", EXAMPLE_TIME))
