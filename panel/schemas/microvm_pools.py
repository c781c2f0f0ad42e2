"""Warm pools of micro VMs in the admin API."""

from marshmallow import fields

from panel.schemas.base import In, Int, Out, PageQuery, Patch, Text, Time, describe

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
MAX_POOL_COUNT = 64


class MicrovmPoolIn(In):
    hypervisor_id = Text(maximum=36, required=True, **describe("A hypervisor with a micro VM profile.", EXAMPLE_ID))
    image_id = Text(maximum=36, required=True, **describe("A micro VM image.", EXAMPLE_ID))
    count = Int(0, MAX_POOL_COUNT, required=True, **describe("Members to have ready.", 4))


class MicrovmPoolPatch(Patch):
    count = Int(0, MAX_POOL_COUNT, required=True, **describe("Members to have ready.", 4))


class MicrovmPoolQuery(PageQuery):
    hypervisor_id = Text(maximum=36, **describe("Only pools of this hypervisor.", EXAMPLE_ID))


class MicrovmPoolOut(Out):
    id = fields.String(**describe("Pool id.", EXAMPLE_ID))
    hypervisor_id = fields.String(**describe("The hypervisor.", EXAMPLE_ID))
    hypervisor_name = fields.String(**describe("The hypervisor's name.", "node-1"))
    image_id = fields.String(**describe("The image of its members.", EXAMPLE_ID))
    image_label = fields.String(**describe("What people call the image.", "Sandbox"))
    count = fields.Integer(**describe("Members to have ready.", 4))
    ready = fields.Integer(attribute="ready_count", **describe("Members that are ready.", 3))
    booting = fields.Integer(attribute="booting_count", **describe("Members that are being booted.", 1))
    error = fields.String(allow_none=True, **describe("Why the last boot failed; null after one that succeeded.", None))
    next_boot_at = Time(allow_none=True, **describe("After a failure: when the next boot is tried.", EXAMPLE_TIME))
    created_at = Time(**describe("When it was added.", EXAMPLE_TIME))
    updated_at = Time(**describe("When it last changed.", EXAMPLE_TIME))
