"""Requests to guest agents and their reports in the API."""

from marshmallow import fields

from panel.schemas.base import In, Out, Text, Time, describe
from panel.schemas.instances import EXAMPLE_ID, DeployIn, key_ids_field


class ResetPasswordIn(In):
    password = Text(
        maximum=128,
        minimum=8,
        load_default=None,
        allow_none=True,
        **describe("The new password of root; by default one is made up.", "correct horse battery"),
    )


class PushKeysIn(In):
    ssh_keys = key_ids_field(**describe("Ids of the SSH keys.", [EXAMPLE_ID]))
    ssh_key_id = fields.Raw(
        **describe("One id or several: the same as `ssh_keys`, which wins when both are sent.", EXAMPLE_ID)
    )
    merge_key_lists = DeployIn.merge_key_lists


class GuestAddressOut(Out):
    ip = fields.String(**describe("The address.", "203.0.113.10"))
    family = fields.Integer(**describe("4 or 6.", 4))
    type = fields.String(**describe("The same in words: `ipv4` or `ipv6`.", "ipv4"))
    nic = fields.String(**describe("Which of the instance's cards that is; null for one the guest made.", "net0"))
    mac = fields.String(**describe("The card that has it.", "52:54:0a:1b:2c:3d"))
    reported_at = Time(**describe("When the guest said so.", "2026-01-02T03:04:05.678Z"))


class GuestFilesystemOut(Out):
    mountpoint = fields.String(**describe("Where the guest has it.", "/"))
    kind = fields.String(**describe("What it is.", "ext4"))
    size = fields.Integer(**describe("Bytes it can hold.", 21474836480))
    used = fields.Integer(**describe("Bytes in use.", 5368709120))
    reported_at = Time(**describe("When the guest said so.", "2026-01-02T03:04:05.678Z"))
