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
        **describe("The new root password. If missing, one is generated.", "correct horse battery"),
    )


class PushKeysIn(In):
    ssh_keys = key_ids_field(**describe("Ids of the SSH keys.", [EXAMPLE_ID]))
    ssh_key_id = fields.Raw(
        **describe("One id or a list: same as `ssh_keys`, which takes precedence if both are sent.", EXAMPLE_ID)
    )
    merge_key_lists = DeployIn.merge_key_lists


class GuestAddressOut(Out):
    ip = fields.String(**describe("The address.", "203.0.113.10"))
    family = fields.Integer(**describe("4 or 6.", 4))
    type = fields.String(**describe("`ipv4` or `ipv6`.", "ipv4"))
    nic = fields.String(
        **describe("Network interface of the instance; null for an interface created in the guest.", "net0")
    )
    mac = fields.String(**describe("MAC address of the interface.", "52:54:0a:1b:2c:3d"))
    reported_at = Time(**describe("When the guest agent reported it.", "2026-01-02T03:04:05.678Z"))


class GuestFilesystemOut(Out):
    mountpoint = fields.String(**describe("Mount point.", "/"))
    kind = fields.String(**describe("File system type.", "ext4"))
    size = fields.Integer(**describe("Size in bytes.", 21474836480))
    used = fields.Integer(**describe("Used bytes.", 5368709120))
    reported_at = Time(**describe("When the guest agent reported it.", "2026-01-02T03:04:05.678Z"))
