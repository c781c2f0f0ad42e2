"""Offers and prices of a hypervisor group, in the API (HVG-03, HVG-04)."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Number, Out, Text, describe
from panel.schemas.catalog import EXAMPLE_ID

ACCOUNTINGS = ("inbound", "outbound", "total")
BACKUP_MODES = ("full", "incremental")

SETTING_DESCRIPTIONS = {
    "enabled": describe("If false, the group accepts no new resources; existing ones are not affected.", True),
    "public_networking_enabled": describe(
        "If false, new instances get no public network interface and no address.", True
    ),
    "vpc_enabled": describe("If false, no new private networks can be created.", True),
    "natgw_enabled": describe("If false, no new NAT gateways can be created.", True),
    "lb_enabled": describe("If false, no new load balancers can be created.", True),
    "db_enabled": describe("If false, no new managed databases can be created.", True),
    "microvm_enabled": describe("If false, no new micro VMs can be created.", True),
    "image_enabled": describe("If false, no custom images can be created from instances.", True),
    "autoscaling_enabled": describe("If false, no new scaling groups can be created.", True),
    "static_ip_enabled": describe("If false, no new static IP addresses can be created.", True),
    "vpngw_enabled": describe("If false, no new VPN gateways can be created.", True),
    "managed_backups_billed": describe(
        "Whether customers are charged for backups by policies and jobs of the platform, at the price in the settings.",
        False,
    ),
    "vpc_network_inbound_average": describe(
        "Inbound limit of an interface in a private network in KiB/s; null means unlimited.", 131072
    ),
    "vpc_network_outbound_average": describe(
        "Outbound limit of an interface in a private network in KiB/s; null means unlimited.", 131072
    ),
    "natgw_credit_value": describe("Monthly price of a NAT gateway.", 5.0),
    "natgw_bandwidth_rate": describe("Speed of a NAT gateway in Mbit/s; 0 means unlimited.", 1000),
    "natgw_bandwidth_accounting": describe("Which traffic of a NAT gateway is counted.", "total"),
    "natgw_bandwidth_overage": describe("Price per GB above the included traffic of a NAT gateway.", 0.01),
    "ipv4_credit_value": describe("Monthly price of an additional IPv4 address.", 1.0),
    "backup_mode": describe("Backup mode.", "full"),
    "default_backup_policy_id": describe("Id of the default backup policy for new instances, or null.", EXAMPLE_ID),
}
MAX_PRICE = 10**6
"""Maximum of a price."""


class GroupSettingsIn(In):
    enabled = Bool(**SETTING_DESCRIPTIONS["enabled"])
    public_networking_enabled = Bool(**SETTING_DESCRIPTIONS["public_networking_enabled"])
    vpc_enabled = Bool(**SETTING_DESCRIPTIONS["vpc_enabled"])
    natgw_enabled = Bool(**SETTING_DESCRIPTIONS["natgw_enabled"])
    lb_enabled = Bool(**SETTING_DESCRIPTIONS["lb_enabled"])
    db_enabled = Bool(**SETTING_DESCRIPTIONS["db_enabled"])
    microvm_enabled = Bool(**SETTING_DESCRIPTIONS["microvm_enabled"])
    image_enabled = Bool(**SETTING_DESCRIPTIONS["image_enabled"])
    autoscaling_enabled = Bool(**SETTING_DESCRIPTIONS["autoscaling_enabled"])
    static_ip_enabled = Bool(**SETTING_DESCRIPTIONS["static_ip_enabled"])
    vpngw_enabled = Bool(**SETTING_DESCRIPTIONS["vpngw_enabled"])
    managed_backups_billed = Bool(**SETTING_DESCRIPTIONS["managed_backups_billed"])
    vpc_network_inbound_average = Int(1, allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_inbound_average"])
    vpc_network_outbound_average = Int(1, allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_outbound_average"])
    natgw_credit_value = Number(0, MAX_PRICE, **SETTING_DESCRIPTIONS["natgw_credit_value"])
    natgw_bandwidth_rate = Int(0, 10**6, **SETTING_DESCRIPTIONS["natgw_bandwidth_rate"])
    natgw_bandwidth_accounting = fields.String(
        validate=validate.OneOf(ACCOUNTINGS), **SETTING_DESCRIPTIONS["natgw_bandwidth_accounting"]
    )
    natgw_bandwidth_overage = Number(0, MAX_PRICE, **SETTING_DESCRIPTIONS["natgw_bandwidth_overage"])
    ipv4_credit_value = Number(0, MAX_PRICE, **SETTING_DESCRIPTIONS["ipv4_credit_value"])
    backup_mode = fields.String(validate=validate.OneOf(BACKUP_MODES), **SETTING_DESCRIPTIONS["backup_mode"])
    default_backup_policy_id = Text(maximum=36, allow_none=True, **SETTING_DESCRIPTIONS["default_backup_policy_id"])


class GroupSettingsOut(Out):
    enabled = fields.Boolean(**SETTING_DESCRIPTIONS["enabled"])
    public_networking_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["public_networking_enabled"])
    vpc_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["vpc_enabled"])
    natgw_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["natgw_enabled"])
    lb_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["lb_enabled"])
    db_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["db_enabled"])
    microvm_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["microvm_enabled"])
    image_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["image_enabled"])
    autoscaling_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["autoscaling_enabled"])
    static_ip_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["static_ip_enabled"])
    vpngw_enabled = fields.Boolean(**SETTING_DESCRIPTIONS["vpngw_enabled"])
    managed_backups_billed = fields.Boolean(**SETTING_DESCRIPTIONS["managed_backups_billed"])
    vpc_network_inbound_average = fields.Integer(allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_inbound_average"])
    vpc_network_outbound_average = fields.Integer(
        allow_none=True, **SETTING_DESCRIPTIONS["vpc_network_outbound_average"]
    )
    natgw_credit_value = fields.Float(**SETTING_DESCRIPTIONS["natgw_credit_value"])
    natgw_bandwidth_rate = fields.Integer(**SETTING_DESCRIPTIONS["natgw_bandwidth_rate"])
    natgw_bandwidth_accounting = fields.String(
        validate=validate.OneOf(ACCOUNTINGS), **SETTING_DESCRIPTIONS["natgw_bandwidth_accounting"]
    )
    natgw_bandwidth_overage = fields.Float(**SETTING_DESCRIPTIONS["natgw_bandwidth_overage"])
    ipv4_credit_value = fields.Float(**SETTING_DESCRIPTIONS["ipv4_credit_value"])
    backup_mode = fields.String(validate=validate.OneOf(BACKUP_MODES), **SETTING_DESCRIPTIONS["backup_mode"])
    default_backup_policy_id = fields.String(allow_none=True, **SETTING_DESCRIPTIONS["default_backup_policy_id"])
