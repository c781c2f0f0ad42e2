"""Fields and schemas for all resources. Input is validated strictly; output contains only declared fields."""

import re
import unicodedata
from functools import cache, cached_property
from itertools import chain
from operator import attrgetter, itemgetter

from marshmallow import RAISE, Schema, ValidationError, fields, validate
from sqlalchemy import Row

from panel.core.messages import message

CONTROL_PATTERN = re.compile(r"[\x00-\x1f\x7f]")
CONTROL_IN_TEXT_PATTERN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
NOT_IN_NAMES_PATTERN = re.compile(
    r"[\x80-\x9f"  # control characters beyond ASCII
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional formatting
    "\u2028\u2029"  # line and paragraph separator
    "\u200b\u2060\ufeff]"  # spaces without width
)
QUERY_INTEGER_PATTERN = re.compile(r"-?[0-9]{1,18}", re.ASCII)
HOST_LABEL_PATTERN = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_]|-(?!-))*", re.ASCII)


class Text(fields.String):
    """One line of text: no control characters, at most `maximum` characters."""

    def __init__(self, *, maximum=255, minimum=0, lines=False, **options):
        self.pattern = CONTROL_IN_TEXT_PATTERN if lines else CONTROL_PATTERN
        rules = [validate.Length(min=minimum, max=maximum), *options.pop("rules", [])]
        super().__init__(validate=rules, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if self.pattern.search(text):
            raise ValidationError(message("Must not contain control characters."))
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValidationError(message("Must be valid Unicode text.")) from None
        return text


class Name(Text):
    """A name from a person: `Text` without spaces at its ends.

    It must contain a visible character and must not change the direction of the text around it.
    """

    def __init__(self, *, minimum=1, **options):
        super().__init__(minimum=minimum, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        name = text.strip()
        if NOT_IN_NAMES_PATTERN.search(name):
            raise ValidationError(message("Must not contain invisible control or direction characters."))
        if text and not any(unicodedata.category(character)[0] in "LNPS" for character in name):
            raise ValidationError(message("Must not be blank."))
        return name


class Bool(fields.Boolean):
    """A JSON boolean. Other values that look like one are refused."""

    def _deserialize(self, value, attr, data, **kwargs):
        if value is not True and value is not False:
            raise ValidationError(message("Must be true or false."))
        return value


class Int(fields.Integer):
    """A JSON integer in a range. `error`: the message for a number that is none of them."""

    def __init__(self, minimum=0, maximum=2**31 - 1, *, error=None, **options):
        if error:  # also for numbers so large that they are no integers of JSON
            options["error_messages"] = {"invalid": error}
        super().__init__(strict=True, validate=validate.Range(minimum, maximum, error=error), **options)

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, bool | str):
            raise ValidationError(message("Must be a whole number."))
        return super()._deserialize(value, attr, data, **kwargs)


class Number(fields.Float):
    """A JSON number in a range."""

    def __init__(self, minimum=0, maximum=10**9, *, error=None, **options):
        super().__init__(validate=validate.Range(minimum, maximum, error=error), **options)

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, bool | str):
            raise ValidationError(message("Must be a number."))
        return super()._deserialize(value, attr, data, **kwargs)


class Hostname(Text):
    """A host name: labels of letters, digits, `_` and single inner hyphens, 253 characters in all (LIM-04, LIM-07).

    With `empty` an empty string is accepted too.
    """

    def __init__(self, *, empty=False, **options):
        self.accepts_empty = empty
        super().__init__(maximum=254, minimum=0 if empty else 1, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        name = fields.String._deserialize(self, value, attr, data, **kwargs)
        if self.accepts_empty and name == "":
            return name
        labels = name.removesuffix(".").split(".")
        is_valid = all(
            len(label) <= 63 and HOST_LABEL_PATTERN.fullmatch(label) and label[-1] != "-" for label in labels
        )
        if not is_valid or len(name.removesuffix(".")) > 253:
            raise ValidationError(message("The value must be a valid hostname."))
        return name


class Time(fields.DateTime):
    """An ISO 8601 time in UTC. It is formatted when the JSON is written."""

    def _serialize(self, value, attr, obj, **kwargs):
        return value


class In(Schema):
    """A request body. Unknown fields are refused by name."""

    class Meta:
        unknown = RAISE


class Shape(fields.Nested):
    """A nested object built from attributes of the same row. None when the first of them is None."""

    def __init__(self, name, parts, **options):
        nested = {key: fields.String(attribute=attribute, **text) for key, (attribute, text) in parts.items()}
        super().__init__(Schema.from_dict(nested, name=name), **options)

    def attributes(self):
        return {key: field.attribute for key, field in self.schema.dump_fields.items()}


class Patch(In):
    """Changes of a row; missing fields stay as they are.

    A read-only field is refused with a list of the changeable ones.
    """

    def handle_error(self, error, data, **options):
        if isinstance(error.messages, dict):
            for field in error.messages.keys() - self.fields.keys() - {"_schema"}:
                error.messages[field] = [
                    message("Unknown or read-only field. Writable: {fields}.", fields=", ".join(self.fields))
                ]


class Out(Schema):
    """A response. Objects and rows, also long lists of them, are serialized by a `Writer`, not by marshmallow."""

    def dump(self, obj, *, many=None):
        many = self.many if many is None else many
        if not many:
            return super().dump(obj, many=False) if isinstance(obj, dict) else self.writer.write_object(obj)
        if obj and isinstance(obj[0], Row):
            width = len(self.writer.columns)
            if obj[0]._fields[:width] == self.writer.columns:
                write = self.writer.write_values
                return [write(row[:width]) for row in obj]
        return list(map(self.writer.write_object, obj))

    @classmethod
    @cache
    def columns(cls):
        """Return the attributes that the fields read. Rows whose first columns are these are serialized fastest."""
        return cls().writer.columns

    @cached_property
    def writer(self):
        return Writer(self)


class Writer:
    """Serializes objects and rows by the fields of a schema, several times faster than marshmallow. It supports only
    fields whose values need little conversion."""

    def __init__(self, schema):
        attributes = {name: list_attributes(name, field) for name, field in schema.dump_fields.items()}
        self.columns = tuple(dict.fromkeys(chain.from_iterable(attributes.values())))
        """The attributes that the fields read."""
        positions = {column: number for number, column in enumerate(self.columns)}
        self.names = tuple(attributes)
        self.floats = [name for name, field in schema.dump_fields.items() if isinstance(field, fields.Float)]
        self.conversions = [
            (name, convert)
            for name, field in schema.dump_fields.items()
            if (convert := find_conversion(schema, name, field, positions))
        ]
        # Both return a tuple only for several names, so each gets one more.
        self.read = attrgetter(*self.columns, self.columns[0])
        self.pick = itemgetter(*(positions[names[0]] if names else 0 for names in attributes.values()), 0)

    def write_object(self, item):
        return self.write_values(self.read(item))

    def write_values(self, values):
        """Return the JSON object for the values of `columns`, in their order."""
        result = dict(zip(self.names, self.pick(values), strict=False))
        for name in self.floats:
            if (value := result[name]) is not None:
                result[name] = float(value)
        for name, convert in self.conversions:
            result[name] = convert(values)
        return result


def list_attributes(name, field):
    """Return the attributes of an object that the field reads."""
    if isinstance(field, fields.Constant):
        return []
    return list(field.attributes().values()) if isinstance(field, Shape) else [field.attribute or name]


def find_conversion(schema, name, field, positions):
    """Return the function from all values to the field's JSON value, or None when its own value stays as it is."""
    if isinstance(field, fields.Constant):
        return lambda _: field.constant
    position = positions[list_attributes(name, field)[0]]
    if isinstance(field, Shape):
        keys, attributes = zip(*field.attributes().items(), strict=True)
        if len(keys) == 1:  # the usual case, without building tuples
            (key,) = keys
            return lambda values: None if (value := values[position]) is None else {key: value}
        pick = itemgetter(*(positions[attribute] for attribute in attributes))
        return lambda values: None if values[position] is None else dict(zip(keys, pick(values), strict=True))
    if isinstance(field, fields.Nested) and not field.many:
        writer = field.schema.writer
        return lambda values: (value := values[position]) and writer.write_object(value)
    if isinstance(field, fields.Nested) or (isinstance(field, fields.List) and isinstance(field.inner, fields.Nested)):
        writer = (field if isinstance(field, fields.Nested) else field.inner).schema.writer
        return lambda values: [writer.write_object(item) for item in values[position]]
    if isinstance(field, fields.Float) or type(field)._serialize in PLAIN_SERIALIZERS:
        return None
    raise TypeError(f"{type(schema).__name__}.{name}: no way to dump {type(field).__name__}")


PLAIN_SERIALIZERS = {
    kind._serialize
    for kind in (fields.Raw, fields.String, fields.Boolean, fields.Dict, fields.Integer, fields.List, Time)
}
"""Serializers of fields whose values need no conversion for JSON."""


class QueryInt(fields.Integer):
    """An integer in a query string, in ASCII digits."""

    def _deserialize(self, value, attr, data, **kwargs):
        if not (isinstance(value, str) and QUERY_INTEGER_PATTERN.fullmatch(value)):
            raise ValidationError(message("Must be a whole number."))
        return int(value)


class PageQuery(Schema):
    page = QueryInt(load_default=1, validate=validate.Range(1, 10**6), metadata={"description": "Page number."})
    per_page = QueryInt(
        load_default=100, validate=validate.Range(1, 100), metadata={"description": "Rows per page, 1 to 100."}
    )


class Empty(In):
    """No body, an empty one or `null`."""


def describe(description, *example):
    """Return the field's description and example for the API reference and agents' tools.

    Nested fields need no example.
    """
    return {"metadata": {"description": description} | ({"example": example[0]} if example else {})}
