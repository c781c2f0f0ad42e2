"""User scripts in the API."""

from marshmallow import fields

from panel.schemas.base import In, Name, Out, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
MAX_SCRIPT_LENGTH = 65536
"""Maximum number of characters of a script."""


class Script(Text):
    """Text whose line endings are converted to Unix ones; otherwise stored exactly, including the last line ending."""

    def _deserialize(self, value, attr, data, **kwargs):
        return super()._deserialize(value, attr, data, **kwargs).replace("\r\n", "\n")


def make_fields(required):
    return {
        "name": Name(required=required, **describe("Name.", "web server")),
        "type": Text(
            maximum=50,
            minimum=1,
            required=required,
            **describe("Type: `bash`, `sh`, `python` or `cloud-init`. Determines how it is run.", "bash"),
        ),
        "content": Script(
            maximum=MAX_SCRIPT_LENGTH,
            minimum=1,
            lines=True,
            required=required,
            **describe("The script, or a cloud-init configuration that starts with `#cloud-config`.", "echo ready"),
        ),
        "description": Text(allow_none=True, **describe("Description. An empty string clears it.", "Installs nginx")),
        "shebang": Text(
            allow_none=True,
            **describe(
                "Interpreter, unless the first line of the script names one. Defaults to that of `type`.", "/bin/bash"
            ),
        ),
    }


UserScriptIn = In.from_dict(make_fields(required=True), name="UserScriptIn")
UserScriptPatch = Patch.from_dict(make_fields(required=False), name="UserScriptPatch")


class UserScriptOut(Out):
    id = fields.String(**describe("Script id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "web server"))
    type = fields.String(**describe("Type.", "bash"))
    content = fields.String(**describe("The script.", "echo ready"))
    description = fields.String(**describe("Description, or empty.", "Installs nginx"))
    shebang = fields.String(**describe("Interpreter, or empty.", "/bin/bash"))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminUserScriptOut(Out):
    """A script for operators: with its owner, without its content."""

    id = fields.String(**describe("Script id.", EXAMPLE_ID))
    account_id = fields.String(**describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))
    name = fields.String(**describe("Name.", "web server"))
    type = fields.String(**describe("Type.", "bash"))
    description = fields.String(**describe("Description, or empty.", "Installs nginx"))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))
