"""Templates of mass mails in the admin API."""

from marshmallow import fields

from panel.schemas.base import In, Name, Out, Patch, Text, Time, describe
from panel.schemas.mass_mails import EXAMPLE_ID, EXAMPLE_TIME, MAX_SUBJECT, MAX_TEXT, SUBJECT, TEXT

MAX_NAME = 100
NAME = describe("Name by which operators choose it. Each exists once.", "Price change")


class MassMailTemplateIn(In):
    name = Name(required=True, maximum=MAX_NAME, **NAME)
    subject = Name(required=True, maximum=MAX_SUBJECT, **SUBJECT)
    text = Text(required=True, minimum=1, maximum=MAX_TEXT, lines=True, **TEXT)


class MassMailTemplatePatch(Patch):
    name = Name(maximum=MAX_NAME, **NAME)
    subject = Name(maximum=MAX_SUBJECT, **SUBJECT)
    text = Text(minimum=1, maximum=MAX_TEXT, lines=True, **TEXT)


class MassMailTemplateOut(Out):
    id = fields.String(**describe("Id of the template.", EXAMPLE_ID))
    name = fields.String(**NAME)
    subject = fields.String(**SUBJECT)
    text = fields.String(**TEXT)
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))
