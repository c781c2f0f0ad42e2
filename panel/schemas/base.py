"""Fields and schemas that every resource uses: what may come in is checked strictly, what goes out is listed field by
field."""

import re
from datetime import UTC

from marshmallow import RAISE, Schema, ValidationError, fields, validate

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
CONTROL_IN_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_]|-(?!-))*", re.ASCII)


class Text(fields.String):
    """One line of text: no control characters, at most `most` characters."""

    def __init__(self, *, most=255, least=0, lines=False, **options):
        self.pattern = CONTROL_IN_TEXT if lines else CONTROL
        rules = [validate.Length(min=least, max=most), *options.pop("rules", [])]
        super().__init__(validate=rules, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if self.pattern.search(text):
            raise ValidationError("Must not contain control characters.")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValidationError("Must be text that can be encoded.") from None
        return text


class Bool(fields.Boolean):
    """A JSON boolean and nothing that only looks like one."""

    def _deserialize(self, value, attr, data, **kwargs):
        if value is not True and value is not False:
            raise ValidationError("Must be true or false.")
        return value


class Int(fields.Integer):
    """A JSON integer in a range."""

    def __init__(self, least=0, most=2**31 - 1, **options):
        super().__init__(strict=True, validate=validate.Range(least, most), **options)

    def _deserialize(self, value, attr, data, **kwargs):
        if isinstance(value, bool | str):
            raise ValidationError("Must be a whole number.")
        return super()._deserialize(value, attr, data, **kwargs)


class Hostname(Text):
    """A host name: labels of letters, digits, `_` and single inner hyphens, 253 characters in all (spec, section 8)."""

    def __init__(self, **options):
        super().__init__(most=254, least=1, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        name = fields.String._deserialize(self, value, attr, data, **kwargs)
        labels = name.removesuffix(".").split(".")
        right = all(len(label) <= 63 and LABEL.fullmatch(label) and label[-1] != "-" for label in labels)
        if not right or len(name.removesuffix(".")) > 253:
            raise ValidationError("The value must be a valid hostname.")
        return name


class Time(fields.DateTime):
    """A moment, ISO 8601 in UTC."""

    def _serialize(self, value, attr, obj, **kwargs):
        return moment(value)


def moment(value):
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if value else None


class In(Schema):
    """What a client sends. Unknown fields are refused by name."""

    class Meta:
        unknown = RAISE


class Out(Schema):
    """What a client gets. Rows are dumped by a function that is put together once from the fields: a list of a hundred
    machines costs what reading their attributes costs."""

    def dump(self, obj, *, many=None):
        many = self.many if many is None else many
        if not many and isinstance(obj, dict):
            return super().dump(obj, many=False)
        write = self.writer()
        return [write(each) for each in obj] if many else write(obj)

    def writer(self):
        if "write" not in self.__dict__:
            self.write = compiled(self)
        return self.write


def compiled(schema):
    """A function that turns one object into the dictionary of the schema's fields."""
    names, parts = {"schema": schema}, []
    for name, field in schema.dump_fields.items():
        read = f"o.{field.attribute or name}"
        if isinstance(field, fields.Nested) and isinstance(field.schema, Out):
            names[f"w_{name}"] = field.schema.writer()
            value = f"[w_{name}(x) for x in {read}]" if field.many else f"((v := {read}) and w_{name}(v))"
        elif isinstance(field, Time):
            names["moment"] = moment
            value = f"moment({read})"
        elif type(field)._serialize in PLAIN:
            value = read
        else:
            names[f"f_{name}"] = field
            value = f"f_{name}.serialize({name!r}, o)"
        parts.append(f"{name!r}: {value}")
    exec(f"def write(o):\n return {{{', '.join(parts)}}}", names)  # the names come from our own classes
    return names["write"]


PLAIN = {f._serialize for f in (fields.Raw, fields.String, fields.Boolean, fields.Dict)} | {fields.Integer._serialize}
"""Fields whose values in our objects already are what JSON shows."""


class PageQuery(Schema):
    page = fields.Integer(load_default=1, validate=validate.Range(1, 10**6), metadata={"description": "Page number."})
    per_page = fields.Integer(
        load_default=100, validate=validate.Range(1, 100), metadata={"description": "Rows a page, 1 to 100."}
    )


class Empty(In):
    """No body, an empty one or `null`."""


def about(description, example=None):
    """What the API reference and agents' tools say about a field."""
    return {"metadata": {"description": description, "example": example}}
