"""HTML forms, validated by the schemas of the API, so that pages and the API accept the same input.

    form = Form(SshKeyIn)
    if form.submit(lambda **data: ssh_keys.create(get_current_access(), **data)):
        return redirect_to(url_for(".index"))
    return render("customer/ssh_keys/new.html", "form", status=form.status, form=form)

Errors of the schema and of the service are in `form.errors`, by field; `form.errors[""]` is for no particular field.
"""

import re
from functools import partial
from typing import Any

from flask import after_this_request, request
from marshmallow import Schema, ValidationError, fields, validate
from werkzeug.datastructures import MultiDict

from panel.core.db import session
from panel.core.errors import Problem, TooMany
from panel.core.formatting import read_number
from panel.schemas.base import Patch
from panel.web.translation import get_request_language, gettext, lazy_gettext, translate

NUMBER_PATTERN = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,9})?")

MARSHMALLOW_MESSAGES = [
    (re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(source)), re.DOTALL), template)
    for source, template in (
        ("Missing data for required field.", lazy_gettext("This field is required.")),
        ("Field may not be null.", lazy_gettext("This field is required.")),
        ("Not a valid string.", lazy_gettext("Enter text.")),
        ("Not a valid integer.", lazy_gettext("Enter a whole number.")),
        ("Not a valid number.", lazy_gettext("Enter a number.")),
        ("Not a valid boolean.", lazy_gettext("Must be true or false.")),
        ("Not a valid datetime.", lazy_gettext("Enter a date and time.")),
        ("Not a valid email address.", lazy_gettext("Enter an email address.")),
        ("Unknown field.", lazy_gettext("Unknown field.")),
        ("Length must be between {min} and {max}.", lazy_gettext("Length must be between {min} and {max}.")),
        ("Shorter than minimum length {min}.", lazy_gettext("Shorter than minimum length {min}.")),
        ("Longer than maximum length {max}.", lazy_gettext("Longer than maximum length {max}.")),
        ("Must be one of: {choices}.", lazy_gettext("Must be one of: {choices}.")),
        (
            "Must be greater than or equal to {min} and less than or equal to {max}.",
            lazy_gettext("Enter a number from {min} to {max}."),
        ),
        ("Must be greater than or equal to {min}.", lazy_gettext("Enter a number of at least {min}.")),
        ("Must be less than or equal to {max}.", lazy_gettext("Enter a number of at most {max}.")),
    )
]
"""(pattern of marshmallow's English text, text for the page). Specific patterns stand before general ones."""


class Form:
    """A form of one or several schemas. `initial` has the initial values: a row or a dictionary."""

    def __init__(self, *schemas: type[Schema], initial=None):
        self.schemas = [schema() for schema in schemas]
        self.initial = initial or {}
        self.sent: MultiDict[str, str] | None = None
        self.errors: dict[str, str] = {}
        self.status = 200
        self.reason: str | None = None
        self.result = None

    def submit(self, action) -> bool:
        """Validate the request's form and call `action` with the data as keywords. Return whether it succeeded;
        otherwise roll back and set `errors` and `status`."""
        self.sent = request.form
        data: dict[str, Any] = {}
        for schema in self.schemas:
            try:
                data |= schema.load(form_to_json(schema, request.form))
            except ValidationError as error:
                self.errors |= {
                    name: self.describe_errors(name, messages) for name, messages in error.normalized_messages().items()
                }
        if not self.errors:
            try:
                self.result = action(**data)
                session.flush()
            except Problem as error:
                self.status, self.reason = error.status, error.reason
                if isinstance(error, TooMany):
                    after_this_request(partial(set_retry_after, error.seconds))
                self.errors = {name: " ".join(map(translate_error, texts)) for name, texts in error.fields.items()}
                if not self.errors.keys() & self.fields.keys():
                    self.errors[""] = translate(error.message)
        if "_schema" in self.errors:
            self.errors[""] = self.errors.pop("_schema")
        if self.errors:
            session.rollback()
            self.status = max(self.status, 422) if self.status == 200 else self.status
        return not self.errors

    def show_again(self) -> None:
        """Show the request's values, without validating them: a button of the form changed what it offers."""
        self.sent = request.form

    def describe_errors(self, name, messages):
        """Return a field's messages as one text. Those of an entry of several lines begin with the line's number."""
        lines = number_lines(self.sent.getlist(name))
        if not isinstance(messages, dict) or len(lines) < 2:
            return flatten_errors(messages)
        numbers = [number for number, line in lines]
        return " ".join(
            gettext("Line %(number)s: %(error)s", number=numbers[index], error=flatten_errors(entry_messages))
            for index, entry_messages in messages.items()
        )

    @property
    def fields(self):
        return {name: field for schema in self.schemas for name, field in schema.fields.items()}

    def has(self, name):
        """Return whether the form was submitted or the field has an initial value."""
        return self.sent is not None or name in self.initial

    def get_value(self, name):
        """Return the value to show in the field: the submitted one, else the initial one, else an empty text."""
        if self.sent is not None:
            return self.sent.getlist(name)[-1] if name in self.sent else ""
        value = self.initial.get(name) if isinstance(self.initial, dict) else getattr(self.initial, name, None)
        return "" if value is None else value

    def get_values(self, name):
        """Return the same for a field with several values, as a list of texts."""
        if self.sent is not None:
            return self.sent.getlist(name)
        value = self.get_value(name) or []
        return [str(item) for item in (value if isinstance(value, (list, tuple, set)) else [value])]

    def get_chosen(self, name):
        """Return the values of a field with several values, to look up each of many options in them."""
        return set(self.get_values(name))

    def is_checked(self, name):
        return str(self.get_value(name)).lower() == "true"

    def is_required(self, name):
        return bool(name in self.fields and self.fields[name].required)

    def find_first_error(self):
        """Return the name of the first field with an error, to focus it; None when there is none."""
        return next((name for name in self.errors if name), None)


def set_retry_after(seconds, answer):
    """Set the Retry-After header, in seconds."""
    answer.headers["Retry-After"] = str(seconds)
    return answer


def form_to_json(schema, form_data):
    """Return the texts of an HTML form as the JSON that the schema expects. An empty field is left out, or is None if
    the schema allows None. An empty list stays an empty list, unless a new row needs an entry: then it is left out."""
    data = {}
    for name, field in schema.fields.items():
        if name not in form_data or field.dump_only:
            continue
        if isinstance(field, fields.List):
            items = [parse_scalar(field.inner, text) for text in split_lines(form_data.getlist(name))]
            if items or isinstance(schema, Patch) or not has_minimum_length(field):
                data[name] = items
        elif (text := form_data.getlist(name)[-1]) != "":
            data[name] = parse_scalar(field, text)
        elif field.allow_none:
            data[name] = None
    return data


def has_minimum_length(field):
    """Return whether an empty list is refused with marshmallow's own text, which is about lengths."""
    return any(isinstance(rule, validate.Length) and rule.min and not rule.error for rule in field.validators)


def split_lines(texts):
    """Return the stripped non-empty lines of all texts: several inputs, or one text area with an entry per line."""
    return [line for _number, line in number_lines(texts)]


def number_lines(texts):
    """Return (number, stripped line) of the non-empty lines of all texts."""
    lines = enumerate((line.strip() for text in texts for line in text.splitlines()), start=1)
    return [(number, line) for number, line in lines if line]


def parse_scalar(field, text):
    """Return the text as the boolean or number that the field expects. Other text is returned for the schema to
    refuse."""
    if isinstance(field, fields.Boolean):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(field, fields.Number):
        number = read_number(text.strip(), get_request_language())
        if NUMBER_PATTERN.fullmatch(number):
            return float(number) if "." in number else int(number)
    return text.replace("\r\n", "\n")


def flatten_errors(messages):
    """Return the schema's messages, nested at any depth, as one translated text."""
    if isinstance(messages, dict):
        messages = messages.values()
    return translate_error(messages) if isinstance(messages, str) else " ".join(map(flatten_errors, messages))


def translate_error(text):
    """Return a schema's message in the request's language: marshmallow's own, or a `Message`."""
    for pattern, template in MARSHMALLOW_MESSAGES:
        if match := pattern.fullmatch(text):
            return str(template).format(**match.groupdict())
    return translate(text)
