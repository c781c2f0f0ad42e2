"""All tables of version 0.1.0."""

import sqlalchemy as sa
from alembic import op

revision = "0001_initial"
down_revision = None


def upgrade():
    op.create_table(
        "accounts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("email", sa.String(length=255), nullable=False),
        sa.Column("password_hash", sa.String(length=255), nullable=True),
        sa.Column("first_name", sa.String(length=255), nullable=False),
        sa.Column("last_name", sa.String(length=255), nullable=False),
        sa.Column("company_name", sa.String(length=255), nullable=True),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("external_id", sa.String(length=255), nullable=True),
        sa.Column("operator_role", sa.String(length=16), nullable=True),
        sa.Column("suspended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("suspended_reason", sa.Text(), nullable=True),
        sa.Column("last_login_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("two_factor_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("totp_secret", sa.Text(), nullable=True),
        sa.Column("totp_step", sa.Integer(), nullable=True),
        sa.Column("self_provisioning", sa.Boolean(), nullable=False),
        sa.Column("balance", sa.BigInteger(), nullable=False),
        sa.Column("max_certificates", sa.Integer(), nullable=False),
        sa.Column("max_dns_zones", sa.Integer(), nullable=False),
        sa.Column("max_serverless_apps", sa.Integer(), nullable=False),
        sa.Column("max_kubernetes_clusters", sa.Integer(), nullable=False),
        sa.Column("max_kubernetes_nodes_per_cluster", sa.Integer(), nullable=False),
        sa.Column("max_kubernetes_snapshots_per_cluster", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accounts")),
        sa.UniqueConstraint("email", name=op.f("uq_accounts_email")),
        sa.UniqueConstraint("external_id", name=op.f("uq_accounts_external_id")),
    )
    op.create_table(
        "acme_accounts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("directory_url", sa.String(length=500), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("uri", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_acme_accounts")),
        sa.UniqueConstraint("directory_url", name=op.f("uq_acme_accounts_directory_url")),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("person_id", sa.String(length=36), nullable=True),
        sa.Column("person", sa.String(length=255), nullable=False),
        sa.Column("person_kind", sa.String(length=16), nullable=False),
        sa.Column("impersonator", sa.String(length=255), nullable=True),
        sa.Column("token_id", sa.String(length=36), nullable=True),
        sa.Column("token_name", sa.String(length=255), nullable=True),
        sa.Column("ip", sa.String(length=45), nullable=False),
        sa.Column("action", sa.String(length=80), nullable=False),
        sa.Column("object_type", sa.String(length=48), nullable=True),
        sa.Column("object_id", sa.String(length=64), nullable=True),
        sa.Column("object_name", sa.String(length=255), nullable=True),
        sa.Column("changes", sa.JSON(), nullable=False),
        sa.Column("also", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_account_id_id", "audit", ["account_id", "id"], unique=False)
    op.create_index("ix_audit_account_id_person_id_id", "audit", ["account_id", "person_id", "id"], unique=False)
    op.create_index("ix_audit_action_id", "audit", ["action", "id"], unique=False)
    op.create_index("ix_audit_created_at", "audit", ["created_at"], unique=False)
    op.create_index(
        "ix_audit_impersonator_id",
        "audit",
        ["impersonator", "id"],
        unique=False,
        sqlite_where=sa.text("impersonator is not null"),
        postgresql_where=sa.text("impersonator is not null"),
    )
    op.create_index("ix_audit_object_id_id", "audit", ["object_id", "id"], unique=False)
    op.create_index("ix_audit_person_id", "audit", ["person", "id"], unique=False)
    op.create_index("ix_audit_person_id_id", "audit", ["person_id", "id"], unique=False)
    op.create_table(
        "catalog_images",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("label", sa.String(length=255), nullable=False),
        sa.Column("distro", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("publisher_version", sa.String(length=64), nullable=True),
        sa.Column("release", sa.String(length=64), nullable=True),
        sa.Column("variant", sa.String(length=64), nullable=True),
        sa.Column("build_date", sa.Date(), nullable=True),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_catalog_images")),
        sa.UniqueConstraint("key", name=op.f("uq_catalog_images_key")),
    )
    op.create_table(
        "credits",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("email", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        sa.Column("balance_after", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("reference", sa.String(length=255), nullable=True),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=True),
        sa.Column("corrects_id", sa.String(length=36), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("request_hash", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credits")),
    )
    op.create_index("ix_credits_account_id_id", "credits", ["account_id", "id"], unique=False)
    op.create_index("ix_credits_account_id_month", "credits", ["account_id", "month"], unique=False)
    op.create_index("ix_credits_corrects_id", "credits", ["corrects_id"], unique=False)
    op.create_index("uq_credits_account_id_key", "credits", ["account_id", "idempotency_key"], unique=True)
    op.create_table(
        "hypervisor_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("country", sa.String(length=2), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("public_networking_enabled", sa.Boolean(), nullable=False),
        sa.Column("vpc_enabled", sa.Boolean(), nullable=False),
        sa.Column("natgw_enabled", sa.Boolean(), nullable=False),
        sa.Column("lb_enabled", sa.Boolean(), nullable=False),
        sa.Column("db_enabled", sa.Boolean(), nullable=False),
        sa.Column("microvm_enabled", sa.Boolean(), nullable=False),
        sa.Column("image_enabled", sa.Boolean(), nullable=False),
        sa.Column("autoscaling_enabled", sa.Boolean(), nullable=False),
        sa.Column("static_ip_enabled", sa.Boolean(), nullable=False),
        sa.Column("vpngw_enabled", sa.Boolean(), nullable=False),
        sa.Column("managed_backups_billed", sa.Boolean(), nullable=False),
        sa.Column("vpc_network_inbound_average", sa.Integer(), nullable=True),
        sa.Column("vpc_network_outbound_average", sa.Integer(), nullable=True),
        sa.Column("natgw_credit_value", sa.BigInteger(), nullable=False),
        sa.Column("natgw_bandwidth_rate", sa.Integer(), nullable=False),
        sa.Column("natgw_bandwidth_accounting", sa.String(length=16), nullable=False),
        sa.Column("natgw_bandwidth_overage", sa.BigInteger(), nullable=False),
        sa.Column("ipv4_credit_value", sa.BigInteger(), nullable=False),
        sa.Column("backup_mode", sa.String(length=16), nullable=False),
        sa.Column("default_backup_policy_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hypervisor_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_hypervisor_groups_name")),
    )
    op.create_table(
        "installation_values",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_installation_values")),
    )
    op.create_table(
        "mails",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("recipient", sa.String(length=255), nullable=False),
        sa.Column("template", sa.String(length=64), nullable=False),
        sa.Column("encrypted_context", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mails")),
    )
    op.create_index("ix_mails_due_at_id", "mails", ["due_at", "id"], unique=False)
    op.create_table(
        "metering_records",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("resource_type", sa.String(length=32), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("resource_name", sa.String(length=255), nullable=False),
        sa.Column("plan", sa.String(length=255), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("billing_mode", sa.String(length=16), nullable=False),
        sa.Column("first_hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("metered_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metering_records")),
    )
    op.create_index(
        "ix_metering_records_open",
        "metering_records",
        ["metered_until"],
        unique=False,
        sqlite_where=sa.text("not closed"),
        postgresql_where=sa.text("not closed"),
    )
    op.create_index("ix_metering_records_resource_id_id", "metering_records", ["resource_id", "id"], unique=False)
    op.create_table(
        "plan_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_plan_groups_name")),
    )
    op.create_table(
        "settings",
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_settings")),
    )
    op.create_table(
        "usage_hours",
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("billing_mode", sa.String(length=16), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("charge", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "hour", name=op.f("pk_usage_hours")),
    )
    op.create_index("ix_usage_hours_hour", "usage_hours", ["hour"], unique=False)
    op.create_table(
        "usage_months",
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("resource_type", sa.String(length=32), nullable=False),
        sa.Column("resource_name", sa.String(length=255), nullable=False),
        sa.Column("plan", sa.String(length=255), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("billing_mode", sa.String(length=16), nullable=False),
        sa.Column("last_hour", sa.DateTime(timezone=True), nullable=False),
        sa.Column("hours", sa.Integer(), nullable=False),
        sa.Column("charge", sa.BigInteger(), nullable=False),
        sa.Column("needs_posting", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("resource_id", "month", "account_id", name=op.f("pk_usage_months")),
    )
    op.create_index(
        "ix_usage_months_account_id_month", "usage_months", ["account_id", "month", "resource_id"], unique=False
    )
    op.create_index("ix_usage_months_month_account_id", "usage_months", ["month", "account_id"], unique=False)
    op.create_index(
        "ix_usage_months_needs_posting",
        "usage_months",
        ["account_id"],
        unique=False,
        sqlite_where=sa.text("needs_posting"),
        postgresql_where=sa.text("needs_posting"),
    )
    op.create_table(
        "volume_plan_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_plan_groups")),
        sa.UniqueConstraint("name", name=op.f("uq_volume_plan_groups_name")),
    )
    op.create_table(
        "certificates",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("domains", sa.JSON(), nullable=False),
        sa.Column("certificate", sa.Text(), nullable=True),
        sa.Column("chain", sa.Text(), nullable=True),
        sa.Column("private_key", sa.Text(), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_after", sa.DateTime(timezone=True), nullable=True),
        sa.Column("issuer", sa.String(length=255), nullable=True),
        sa.Column("fingerprint", sa.String(length=95), nullable=True),
        sa.Column("key_type", sa.String(length=16), nullable=True),
        sa.Column("ordering", sa.Boolean(), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("order", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("order_key", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_certificates_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_certificates")),
    )
    op.create_index("ix_certificates_account_id_id", "certificates", ["account_id", "id"], unique=False)
    op.create_index("ix_certificates_account_id_name", "certificates", ["account_id", "name"], unique=False)
    op.create_index("ix_certificates_account_id_not_after", "certificates", ["account_id", "not_after"], unique=False)
    op.create_index("ix_certificates_next_attempt_at", "certificates", ["next_attempt_at"], unique=False)
    op.create_table(
        "events",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=48), nullable=False),
        sa.Column("resource_type", sa.String(length=32), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.Column("snapshot", sa.JSON(), nullable=True),
        sa.Column("severity", sa.String(length=8), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("fanned_out_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_events_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
    )
    op.create_index("ix_events_account_id_id", "events", ["account_id", "id"], unique=False)
    op.create_index("ix_events_created_at", "events", ["created_at"], unique=False)
    op.create_index(
        "ix_events_not_fanned_out",
        "events",
        ["resource_type", "id"],
        unique=False,
        sqlite_where=sa.text("fanned_out_at is null"),
        postgresql_where=sa.text("fanned_out_at is null"),
    )
    op.create_index("ix_events_resource_id_id", "events", ["resource_id", "id"], unique=False)
    op.create_table(
        "hypervisor_group_plan_groups",
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("plan_group_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["hypervisor_groups.id"],
            name=op.f("fk_hypervisor_group_plan_groups_group_id_hypervisor_groups"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["plan_group_id"],
            ["plan_groups.id"],
            name=op.f("fk_hypervisor_group_plan_groups_plan_group_id_plan_groups"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("group_id", "plan_group_id", name=op.f("pk_hypervisor_group_plan_groups")),
    )
    op.create_index(
        op.f("ix_hypervisor_group_plan_groups_plan_group_id"),
        "hypervisor_group_plan_groups",
        ["plan_group_id"],
        unique=False,
    )
    op.create_table(
        "hypervisors",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("driver", sa.String(length=16), nullable=False),
        sa.Column("uri", sa.String(length=255), nullable=False),
        sa.Column("network", sa.String(length=64), nullable=False),
        sa.Column("deploy_enabled", sa.Boolean(), nullable=False),
        sa.Column("locked", sa.Boolean(), nullable=False),
        sa.Column("maintenance", sa.Boolean(), nullable=False),
        sa.Column("max_tasks", sa.Integer(), nullable=False),
        sa.Column("cpu_overcommit", sa.Double(), nullable=False),
        sa.Column("memory_overcommit", sa.Double(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("status_detail", sa.Text(), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("version", sa.String(length=255), nullable=True),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("accelerated", sa.Boolean(), nullable=False),
        sa.Column("acceleration_note", sa.Text(), nullable=True),
        sa.Column("bandwidth_limits", sa.Boolean(), nullable=False),
        sa.Column("address_filters", sa.Boolean(), nullable=False),
        sa.Column("screen_tickets", sa.Boolean(), nullable=False),
        sa.Column("tpm", sa.Boolean(), nullable=False),
        sa.Column("secure_boot", sa.Boolean(), nullable=False),
        sa.Column("unmanaged_machines", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["hypervisor_groups.id"], name=op.f("fk_hypervisors_group_id_hypervisor_groups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_hypervisors")),
        sa.UniqueConstraint("name", name=op.f("uq_hypervisors_name")),
    )
    op.create_index(op.f("ix_hypervisors_group_id"), "hypervisors", ["group_id"], unique=False)
    op.create_table(
        "images",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("label", sa.String(length=255), nullable=False),
        sa.Column("distro", sa.String(length=64), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("format", sa.String(length=16), nullable=False),
        sa.Column("purpose", sa.String(length=32), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("cloudinit", sa.Boolean(), nullable=False),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("min_disk", sa.Integer(), nullable=False),
        sa.Column("min_ram", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("url", sa.Text(), nullable=True),
        sa.Column("expected_sha256", sa.String(length=64), nullable=True),
        sa.Column("publisher_version", sa.String(length=64), nullable=True),
        sa.Column("build_date", sa.Date(), nullable=True),
        sa.Column("release", sa.String(length=64), nullable=True),
        sa.Column("variant", sa.String(length=64), nullable=True),
        sa.Column("interface", sa.String(length=16), nullable=False),
        sa.Column("secure_boot", sa.Boolean(), nullable=False),
        sa.Column("cloud_config", sa.Text(), nullable=True),
        sa.Column("catalog_key", sa.String(length=128), nullable=True),
        sa.Column("instance_id", sa.String(length=36), nullable=True),
        sa.Column("download_reset_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_images_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    op.create_index("ix_images_account_id_id", "images", ["account_id", "id"], unique=False)
    op.create_index("ix_images_purpose_distro_name", "images", ["purpose", "distro", "name"], unique=False)
    op.create_index(
        "uq_images_name_catalog",
        "images",
        ["name"],
        unique=True,
        sqlite_where=sa.text("account_id is null"),
        postgresql_where=sa.text("account_id is null"),
    )
    op.create_table(
        "ip_sets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("ip_version", sa.String(length=4), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_ip_sets_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ip_sets")),
    )
    op.create_index("ix_ip_sets_account_id_name", "ip_sets", ["account_id", "name"], unique=False)
    op.create_index("ix_ip_sets_name_id", "ip_sets", ["name", "id"], unique=False)
    op.create_table(
        "isos",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("filename", sa.String(length=255), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=True),
        sa.Column("download_reset_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_isos_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_isos")),
    )
    op.create_index("ix_isos_account_id_name", "isos", ["account_id", "name"], unique=False)
    op.create_index("ix_isos_name_id", "isos", ["name", "id"], unique=False)
    op.create_table(
        "known_devices",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("user_agent", sa.String(length=400), nullable=False),
        sa.Column("ip", sa.String(length=45), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_known_devices_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_known_devices")),
    )
    op.create_index(
        "ix_known_devices_account_id_secret_hash", "known_devices", ["account_id", "secret_hash"], unique=True
    )
    op.create_index(op.f("ix_known_devices_last_seen_at"), "known_devices", ["last_seen_at"], unique=False)
    op.create_table(
        "location_grants",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_location_grants_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["hypervisor_groups.id"],
            name=op.f("fk_location_grants_group_id_hypervisor_groups"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_location_grants")),
    )
    op.create_index(
        "ix_location_grants_account_id_group_id", "location_grants", ["account_id", "group_id"], unique=False
    )
    op.create_index(
        "ix_location_grants_group_id_account_id", "location_grants", ["group_id", "account_id"], unique=True
    )
    op.create_table(
        "one_time_tokens",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("redirect_to", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_one_time_tokens_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_one_time_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_one_time_tokens_secret_hash")),
    )
    op.create_index("ix_one_time_tokens_account_id_purpose", "one_time_tokens", ["account_id", "purpose"], unique=False)
    op.create_index(op.f("ix_one_time_tokens_expires_at"), "one_time_tokens", ["expires_at"], unique=False)
    op.create_table(
        "passkeys",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("credential_id", sa.String(length=1400), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("sign_count", sa.Integer(), nullable=False),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_passkeys_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_passkeys")),
        sa.UniqueConstraint("credential_id", name=op.f("uq_passkeys_credential_id")),
    )
    op.create_index(op.f("ix_passkeys_account_id"), "passkeys", ["account_id"], unique=False)
    op.create_table(
        "plans",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("plan_group_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("ram", sa.Integer(), nullable=False),
        sa.Column("storage", sa.Integer(), nullable=False),
        sa.Column("bandwidth", sa.Integer(), nullable=False),
        sa.Column("overage", sa.String(length=8), nullable=False),
        sa.Column("port_speed", sa.Integer(), nullable=False),
        sa.Column("ipv4", sa.Integer(), nullable=False),
        sa.Column("ipv6", sa.Integer(), nullable=False),
        sa.Column("ipv6_prefixes", sa.Integer(), nullable=False),
        sa.Column("private_ipv4", sa.Integer(), nullable=False),
        sa.Column("price", sa.Numeric(precision=12, scale=4), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["plan_group_id"], ["plan_groups.id"], name=op.f("fk_plans_plan_group_id_plan_groups")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plans")),
    )
    op.create_index("ix_plans_plan_group_id_name", "plans", ["plan_group_id", "name"], unique=True)
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("color", sa.String(length=7), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_projects_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
    )
    op.create_index("ix_projects_account_id_name", "projects", ["account_id", "name"], unique=True)
    op.create_table(
        "recovery_codes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_recovery_codes_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_recovery_codes")),
    )
    op.create_index(
        "ix_recovery_codes_account_id_secret_hash", "recovery_codes", ["account_id", "secret_hash"], unique=True
    )
    op.create_table(
        "resource_packs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("ram", sa.Integer(), nullable=False),
        sa.Column("storage", sa.Integer(), nullable=False),
        sa.Column("instances", sa.Integer(), nullable=False),
        sa.Column("price", sa.Numeric(precision=12, scale=4), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_resource_packs_account_id_accounts")),
        sa.ForeignKeyConstraint(
            ["group_id"], ["hypervisor_groups.id"], name=op.f("fk_resource_packs_group_id_hypervisor_groups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_packs")),
    )
    op.create_index("ix_resource_packs_account_id_id", "resource_packs", ["account_id", "id"], unique=False)
    op.create_index(op.f("ix_resource_packs_group_id"), "resource_packs", ["group_id"], unique=False)
    op.create_table(
        "roles",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("permissions", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_roles_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_roles")),
    )
    op.create_index("ix_roles_account_id_name", "roles", ["account_id", "name"], unique=True)
    op.create_table(
        "security_groups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_security_groups_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_groups")),
    )
    op.create_index("ix_security_groups_account_id_name", "security_groups", ["account_id", "name"], unique=False)
    op.create_index("ix_security_groups_name_id", "security_groups", ["name", "id"], unique=False)
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("impersonator_id", sa.String(length=36), nullable=True),
        sa.Column("device_id", sa.String(length=36), nullable=True),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ip", sa.String(length=45), nullable=False),
        sa.Column("user_agent", sa.String(length=400), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_sessions_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["impersonator_id"], ["accounts.id"], name=op.f("fk_sessions_impersonator_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_sessions_secret_hash")),
    )
    op.create_index(op.f("ix_sessions_account_id"), "sessions", ["account_id"], unique=False)
    op.create_index(op.f("ix_sessions_impersonator_id"), "sessions", ["impersonator_id"], unique=False)
    op.create_table(
        "ssh_keys",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("public_key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("comments", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_ssh_keys_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ssh_keys")),
    )
    op.create_index("ix_ssh_keys_account_id_name", "ssh_keys", ["account_id", "name"], unique=True)
    op.create_table(
        "subnets",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("family", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("delegated_length", sa.Integer(), nullable=True),
        sa.Column("cidr", sa.String(length=49), nullable=False),
        sa.Column("gateway", sa.String(length=45), nullable=True),
        sa.Column("nameservers", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_host", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["hypervisor_groups.id"], name=op.f("fk_subnets_group_id_hypervisor_groups")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subnets")),
        sa.UniqueConstraint("cidr", name=op.f("uq_subnets_cidr")),
        sa.UniqueConstraint("name", name=op.f("uq_subnets_name")),
    )
    op.create_index(op.f("ix_subnets_group_id"), "subnets", ["group_id"], unique=False)
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("created_by_id", sa.String(length=36), nullable=True),
        sa.Column("issued_by", sa.String(length=255), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("prefix", sa.String(length=12), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("allowed_ips", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_ip", sa.String(length=45), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_tokens_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["created_by_id"], ["accounts.id"], name=op.f("fk_tokens_created_by_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_tokens_secret_hash")),
    )
    op.create_index(op.f("ix_tokens_account_id"), "tokens", ["account_id"], unique=False)
    op.create_index(op.f("ix_tokens_created_by_id"), "tokens", ["created_by_id"], unique=False)
    op.create_table(
        "user_scripts",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=50), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=False),
        sa.Column("shebang", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_user_scripts_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_scripts")),
    )
    op.create_index("ix_user_scripts_account_id_name", "user_scripts", ["account_id", "name", "id"], unique=False)
    op.create_table(
        "volume_plans",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("volume_plan_group_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("price", sa.Numeric(precision=12, scale=4), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_plan_group_id"],
            ["volume_plan_groups.id"],
            name=op.f("fk_volume_plans_volume_plan_group_id_volume_plan_groups"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_plans")),
    )
    op.create_index(
        "ix_volume_plans_volume_plan_group_id_name", "volume_plans", ["volume_plan_group_id", "name"], unique=True
    )
    op.create_table(
        "webhook_subscriptions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("url", sa.String(length=1024), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("event_kinds", sa.JSON(), nullable=False),
        sa.Column("cluster_filter", sa.JSON(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("consecutive_failures", sa.Integer(), nullable=False),
        sa.Column("last_delivery_status", sa.String(length=16), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_fast", sa.Boolean(), nullable=False),
        sa.Column("leased_by", sa.String(length=64), nullable=True),
        sa.Column("leased_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
            name=op.f("fk_webhook_subscriptions_account_id_accounts"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_subscriptions")),
    )
    op.create_index(
        "ix_webhook_subscriptions_account_id_id", "webhook_subscriptions", ["account_id", "id"], unique=False
    )
    op.create_table(
        "acme_challenges",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("certificate_id", sa.String(length=36), nullable=False),
        sa.Column("token", sa.String(length=255), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["certificate_id"],
            ["certificates.id"],
            name=op.f("fk_acme_challenges_certificate_id_certificates"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_acme_challenges")),
        sa.UniqueConstraint("token", name=op.f("uq_acme_challenges_token")),
    )
    op.create_index(op.f("ix_acme_challenges_certificate_id"), "acme_challenges", ["certificate_id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("token_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["token_id"], ["tokens.id"], name=op.f("fk_idempotency_keys_token_id_tokens"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"], unique=False)
    op.create_index("uq_idempotency_keys_token_id_key", "idempotency_keys", ["token_id", "key"], unique=True)
    op.create_table(
        "instances",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=16), nullable=False),
        sa.Column("display_name", sa.String(length=255), nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=True),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=False),
        sa.Column("plan_id", sa.String(length=36), nullable=False),
        sa.Column("pack_id", sa.String(length=36), nullable=True),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.Column("iso_id", sa.String(length=36), nullable=True),
        sa.Column("secondary_iso_id", sa.String(length=36), nullable=True),
        sa.Column("ipv4", sa.String(length=45), nullable=True),
        sa.Column("ipv6", sa.String(length=45), nullable=True),
        sa.Column("private_ipv4", sa.String(length=45), nullable=True),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("ram", sa.Integer(), nullable=False),
        sa.Column("storage", sa.Integer(), nullable=False),
        sa.Column("bandwidth", sa.Integer(), nullable=False),
        sa.Column("boot", sa.String(length=32), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=True),
        sa.Column("enable_smtp", sa.Boolean(), nullable=False),
        sa.Column("enable_vnc", sa.Boolean(), nullable=False),
        sa.Column("tpm_enabled", sa.Boolean(), nullable=False),
        sa.Column("secure_boot_enabled", sa.Boolean(), nullable=False),
        sa.Column("vnc_keymap", sa.String(length=8), nullable=False),
        sa.Column("vnc_password", sa.Text(), nullable=True),
        sa.Column("ssh_host_key", sa.Text(), nullable=True),
        sa.Column("presented_host_key", sa.Text(), nullable=True),
        sa.Column("billing_mode", sa.String(length=16), nullable=False),
        sa.Column("protection_enabled", sa.Boolean(), nullable=False),
        sa.Column("deployed", sa.Boolean(), nullable=False),
        sa.Column("suspended_reason", sa.String(length=16), nullable=True),
        sa.Column("resume_power", sa.String(length=8), nullable=True),
        sa.Column("started_cpu_cores", sa.Integer(), nullable=True),
        sa.Column("started_ram", sa.Integer(), nullable=True),
        sa.Column("topology", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("topology_pending", sa.Boolean(), nullable=False),
        sa.Column("migrating", sa.Boolean(), nullable=False),
        sa.Column("power", sa.String(length=8), nullable=False),
        sa.Column("power_reported_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("agent_checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("agent_seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("missing_on_node", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_instances_account_id_accounts")),
        sa.ForeignKeyConstraint(
            ["group_id"], ["hypervisor_groups.id"], name=op.f("fk_instances_group_id_hypervisor_groups")
        ),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"], ["hypervisors.id"], name=op.f("fk_instances_hypervisor_id_hypervisors")
        ),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_instances_image_id_images"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(["iso_id"], ["isos.id"], name=op.f("fk_instances_iso_id_isos"), ondelete="set null"),
        sa.ForeignKeyConstraint(["pack_id"], ["resource_packs.id"], name=op.f("fk_instances_pack_id_resource_packs")),
        sa.ForeignKeyConstraint(["plan_id"], ["plans.id"], name=op.f("fk_instances_plan_id_plans")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_instances_project_id_projects"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(
            ["secondary_iso_id"], ["isos.id"], name=op.f("fk_instances_secondary_iso_id_isos"), ondelete="set null"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instances")),
        sa.UniqueConstraint("name", name=op.f("uq_instances_name")),
    )
    op.create_index("ix_instances_account_id_id", "instances", ["account_id", "id"], unique=False)
    op.create_index(op.f("ix_instances_group_id"), "instances", ["group_id"], unique=False)
    op.create_index("ix_instances_hypervisor_id_id", "instances", ["hypervisor_id", "id"], unique=False)
    op.create_index(op.f("ix_instances_image_id"), "instances", ["image_id"], unique=False)
    op.create_index(op.f("ix_instances_iso_id"), "instances", ["iso_id"], unique=False)
    op.create_index(op.f("ix_instances_pack_id"), "instances", ["pack_id"], unique=False)
    op.create_index(op.f("ix_instances_plan_id"), "instances", ["plan_id"], unique=False)
    op.create_index(op.f("ix_instances_project_id"), "instances", ["project_id"], unique=False)
    op.create_index(op.f("ix_instances_secondary_iso_id"), "instances", ["secondary_iso_id"], unique=False)
    op.create_table(
        "ip_set_entries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("ip_set_id", sa.String(length=36), nullable=False),
        sa.Column("cidr", sa.String(length=49), nullable=False),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["ip_set_id"], ["ip_sets.id"], name=op.f("fk_ip_set_entries_ip_set_id_ip_sets"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ip_set_entries")),
    )
    op.create_index("ix_ip_set_entries_ip_set_id_cidr", "ip_set_entries", ["ip_set_id", "cidr"], unique=True)
    op.create_table(
        "members",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("owner_id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("role_id", sa.String(length=36), nullable=False),
        sa.Column("email", sa.String(length=255), nullable=False),
        sa.Column("reach", sa.String(length=16), nullable=False),
        sa.Column("invited_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("invitation_hash", sa.String(length=64), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_members_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["accounts.id"], name=op.f("fk_members_owner_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(["role_id"], ["roles.id"], name=op.f("fk_members_role_id_roles")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_members")),
        sa.UniqueConstraint("account_id", name=op.f("uq_members_account_id")),
        sa.UniqueConstraint("invitation_hash", name=op.f("uq_members_invitation_hash")),
    )
    op.create_index("ix_members_owner_id_email", "members", ["owner_id", "email"], unique=True)
    op.create_index("ix_members_owner_id_id", "members", ["owner_id", "id"], unique=False)
    op.create_index(op.f("ix_members_role_id"), "members", ["role_id"], unique=False)
    op.create_table(
        "security_rules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("direction", sa.String(length=8), nullable=False),
        sa.Column("protocol", sa.String(length=8), nullable=False),
        sa.Column("ip_version", sa.String(length=4), nullable=False),
        sa.Column("port_range_min", sa.Integer(), nullable=True),
        sa.Column("port_range_max", sa.Integer(), nullable=True),
        sa.Column("cidr", sa.String(length=49), nullable=True),
        sa.Column("remote_group_id", sa.String(length=36), nullable=True),
        sa.Column("ip_set_id", sa.String(length=36), nullable=True),
        sa.Column("description", sa.String(length=255), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["security_groups.id"],
            name=op.f("fk_security_rules_group_id_security_groups"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(["ip_set_id"], ["ip_sets.id"], name=op.f("fk_security_rules_ip_set_id_ip_sets")),
        sa.ForeignKeyConstraint(
            ["remote_group_id"],
            ["security_groups.id"],
            name=op.f("fk_security_rules_remote_group_id_security_groups"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_rules")),
    )
    op.create_index(op.f("ix_security_rules_group_id"), "security_rules", ["group_id"], unique=False)
    op.create_index(op.f("ix_security_rules_ip_set_id"), "security_rules", ["ip_set_id"], unique=False)
    op.create_index(op.f("ix_security_rules_remote_group_id"), "security_rules", ["remote_group_id"], unique=False)
    op.create_table(
        "storages",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("path", sa.String(length=255), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("overcommit", sa.Double(), nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=False),
        sa.Column("free", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_storages_hypervisor_id_hypervisors"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_storages")),
    )
    op.create_index("ix_storages_hypervisor_id_name", "storages", ["hypervisor_id", "name"], unique=True)
    op.create_table(
        "tasks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=48), nullable=False),
        sa.Column("resource_type", sa.String(length=32), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("resource_name", sa.String(length=255), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=True),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("lock", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("bytes_done", sa.BigInteger(), nullable=True),
        sa.Column("bytes_total", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_detail", sa.Text(), nullable=True),
        sa.Column("error_class", sa.String(length=64), nullable=True),
        sa.Column("arguments", sa.JSON(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=True),
        sa.Column("rollback_steps", sa.JSON(), nullable=False),
        sa.Column("rollback_pending", sa.Boolean(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(length=64), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_requested_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("source_backup_id", sa.String(length=36), nullable=True),
        sa.Column("source_backup_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_tasks_account_id_accounts"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"], ["hypervisors.id"], name=op.f("fk_tasks_hypervisor_id_hypervisors"), ondelete="set null"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
    )
    op.create_index("ix_tasks_account_id_id", "tasks", ["account_id", "id"], unique=False)
    op.create_index(
        "ix_tasks_failed",
        "tasks",
        ["finished_at"],
        unique=False,
        sqlite_where=sa.text("status = 'failed'"),
        postgresql_where=sa.text("status = 'failed'"),
    )
    op.create_index("ix_tasks_hypervisor_id_status", "tasks", ["hypervisor_id", "status"], unique=False)
    op.create_index("ix_tasks_kind_id", "tasks", ["kind", "id"], unique=False)
    op.create_index(
        "ix_tasks_open",
        "tasks",
        ["status", "queued_at"],
        unique=False,
        sqlite_where=sa.text("status in ('pending','queued','running')"),
        postgresql_where=sa.text("status in ('pending','queued','running')"),
    )
    op.create_index(
        "ix_tasks_open_resource_id",
        "tasks",
        ["resource_id"],
        unique=False,
        sqlite_where=sa.text("status in ('pending','queued','running')"),
        postgresql_where=sa.text("status in ('pending','queued','running')"),
    )
    op.create_index("ix_tasks_resource_id_id", "tasks", ["resource_id", "id"], unique=False)
    op.create_index(
        "ix_tasks_rollback_pending",
        "tasks",
        ["hypervisor_id"],
        unique=False,
        sqlite_where=sa.text("rollback_pending"),
        postgresql_where=sa.text("rollback_pending"),
    )
    op.create_index(
        "uq_tasks_open_lock",
        "tasks",
        ["resource_id", "lock"],
        unique=True,
        sqlite_where=sa.text("lock in ('exclusive','final') and status in ('pending','queued','running')"),
        postgresql_where=sa.text("lock in ('exclusive','final') and status in ('pending','queued','running')"),
    )
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("subscription_id", sa.String(length=36), nullable=False),
        sa.Column("event_id", sa.String(length=36), nullable=True),
        sa.Column("event_kind", sa.String(length=48), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("response_code", sa.Integer(), nullable=True),
        sa.Column("duration_ms", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("tries", sa.JSON(), nullable=False),
        sa.Column("test", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_webhook_deliveries_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["event_id"], ["events.id"], name=op.f("fk_webhook_deliveries_event_id_events"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["subscription_id"],
            ["webhook_subscriptions.id"],
            name=op.f("fk_webhook_deliveries_subscription_id_webhook_subscriptions"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
        sa.UniqueConstraint("subscription_id", "event_id", name=op.f("uq_webhook_deliveries_subscription_id_event_id")),
    )
    op.create_index(op.f("ix_webhook_deliveries_account_id"), "webhook_deliveries", ["account_id"], unique=False)
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["subscription_id", "due_at"],
        unique=False,
        sqlite_where=sa.text("status in ('pending', 'pending_retry')"),
        postgresql_where=sa.text("status in ('pending', 'pending_retry')"),
    )
    op.create_index(op.f("ix_webhook_deliveries_event_id"), "webhook_deliveries", ["event_id"], unique=False)
    op.create_index(
        "ix_webhook_deliveries_subscription_id_id", "webhook_deliveries", ["subscription_id", "id"], unique=False
    )
    op.create_index(
        "ix_webhook_deliveries_under_way",
        "webhook_deliveries",
        ["subscription_id", "id"],
        unique=False,
        sqlite_where=sa.text("status in ('pending', 'pending_retry')"),
        postgresql_where=sa.text("status in ('pending', 'pending_retry')"),
    )
    op.create_table(
        "console_sessions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("opened_by", sa.JSON(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("redeemed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("opened_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_reason", sa.String(length=32), nullable=True),
        sa.Column("ended_message", sa.Text(), nullable=True),
        sa.Column("close_reason", sa.Text(), nullable=True),
        sa.Column("ip", sa.String(length=45), nullable=True),
        sa.Column("bytes_in", sa.BigInteger(), nullable=False),
        sa.Column("bytes_out", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("port", sa.Integer(), nullable=True),
        sa.Column("ssh_jump", sa.String(length=255), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("password", sa.Text(), nullable=True),
        sa.Column("node_password", sa.Text(), nullable=True),
        sa.Column("user", sa.String(length=32), nullable=True),
        sa.Column("private_key", sa.Text(), nullable=True),
        sa.Column("public_key", sa.Text(), nullable=True),
        sa.Column("key_put_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("key_removed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_console_sessions_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instances.id"],
            name=op.f("fk_console_sessions_instance_id_instances"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_console_sessions")),
        sa.UniqueConstraint("secret_hash", name=op.f("uq_console_sessions_secret_hash")),
    )
    op.create_index(op.f("ix_console_sessions_account_id"), "console_sessions", ["account_id"], unique=False)
    op.create_index("ix_console_sessions_created_at", "console_sessions", ["created_at"], unique=False)
    op.create_index("ix_console_sessions_instance_id_id", "console_sessions", ["instance_id", "id"], unique=False)
    op.create_index(
        "ix_console_sessions_open",
        "console_sessions",
        ["id"],
        unique=False,
        sqlite_where=sa.text("redeemed_at is not null and ended_at is null"),
        postgresql_where=sa.text("redeemed_at is not null and ended_at is null"),
    )
    op.create_table(
        "disks",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("storage_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("attached", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_disks_instance_id_instances"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(["storage_id"], ["storages.id"], name=op.f("fk_disks_storage_id_storages")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_disks")),
        sa.UniqueConstraint("name", name=op.f("uq_disks_name")),
    )
    op.create_index(op.f("ix_disks_instance_id"), "disks", ["instance_id"], unique=False)
    op.create_index(op.f("ix_disks_storage_id"), "disks", ["storage_id"], unique=False)
    op.create_table(
        "docker_deployments",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("app_slug", sa.String(length=64), nullable=False),
        sa.Column("app_name", sa.String(length=255), nullable=False),
        sa.Column("project_name", sa.String(length=80), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("deployed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("compose_url", sa.Text(), nullable=True),
        sa.Column("port_mappings", sa.JSON(), nullable=False),
        sa.Column("ports", sa.JSON(), nullable=False),
        sa.Column("environment", sa.Text(), nullable=True),
        sa.Column("compose", sa.Text(), nullable=True),
        sa.Column("logs", sa.Text(), nullable=True),
        sa.Column("logs_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("logs_error", sa.Text(), nullable=True),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instances.id"],
            name=op.f("fk_docker_deployments_instance_id_instances"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_docker_deployments")),
        sa.UniqueConstraint("project_name", name=op.f("uq_docker_deployments_project_name")),
    )
    op.create_index("ix_docker_deployments_instance_id_id", "docker_deployments", ["instance_id", "id"], unique=False)
    op.create_index(
        "ix_docker_deployments_status_checked_at", "docker_deployments", ["status", "checked_at"], unique=False
    )
    op.create_table(
        "docker_engines",
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("installed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("unsupported", sa.Text(), nullable=True),
        sa.Column("support_checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("leftover", sa.JSON(), nullable=False),
        sa.Column("has_leftover", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_docker_engines_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_docker_engines")),
    )
    op.create_table(
        "forges",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("disks", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("merging", sa.Boolean(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_forges_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forges")),
    )
    op.create_index("ix_forges_instance_id_id", "forges", ["instance_id", "id"], unique=False)
    op.create_table(
        "guest_info",
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("addresses", sa.JSON(), nullable=False),
        sa.Column("filesystems", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_guest_info_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_guest_info")),
    )
    op.create_table(
        "image_copies",
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("storage_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_image_copies_image_id_images"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["storage_id"], ["storages.id"], name=op.f("fk_image_copies_storage_id_storages"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("image_id", "storage_id", name=op.f("pk_image_copies")),
    )
    op.create_index(op.f("ix_image_copies_storage_id"), "image_copies", ["storage_id"], unique=False)
    op.create_table(
        "instance_metrics",
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("slot", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("cpu_percent", sa.REAL(), nullable=False),
        sa.Column("cpu_percent_max", sa.REAL(), nullable=False),
        sa.Column("memory_used", sa.REAL(), nullable=False),
        sa.Column("memory_used_max", sa.REAL(), nullable=False),
        sa.Column("network_receive_mbps", sa.REAL(), nullable=False),
        sa.Column("network_receive_mbps_max", sa.REAL(), nullable=False),
        sa.Column("network_transmit_mbps", sa.REAL(), nullable=False),
        sa.Column("network_transmit_mbps_max", sa.REAL(), nullable=False),
        sa.Column("disk_read_bytes", sa.REAL(), nullable=False),
        sa.Column("disk_read_bytes_max", sa.REAL(), nullable=False),
        sa.Column("disk_write_bytes", sa.REAL(), nullable=False),
        sa.Column("disk_write_bytes_max", sa.REAL(), nullable=False),
        sa.Column("disk_read_iops", sa.REAL(), nullable=False),
        sa.Column("disk_read_iops_max", sa.REAL(), nullable=False),
        sa.Column("disk_write_iops", sa.REAL(), nullable=False),
        sa.Column("disk_write_iops_max", sa.REAL(), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instances.id"],
            name=op.f("fk_instance_metrics_instance_id_instances"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("instance_id", "step", "slot", name=op.f("pk_instance_metrics")),
        postgresql_with={"fillfactor": 70},
        sqlite_with_rowid=False,
    )
    op.create_table(
        "interfaces",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("port_speed", sa.Integer(), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
        sa.Column("counted_received", sa.BigInteger(), nullable=False),
        sa.Column("counted_sent", sa.BigInteger(), nullable=False),
        sa.Column("period", sa.String(length=7), nullable=False),
        sa.Column("disconnect_reason", sa.String(length=8), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_interfaces_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_interfaces")),
        sa.UniqueConstraint("mac", name=op.f("uq_interfaces_mac")),
    )
    op.create_index(op.f("ix_interfaces_disconnect_reason"), "interfaces", ["disconnect_reason"], unique=False)
    op.create_index(op.f("ix_interfaces_instance_id"), "interfaces", ["instance_id"], unique=False)
    op.create_index(op.f("ix_interfaces_period"), "interfaces", ["period"], unique=False)
    op.create_table(
        "media_downloads",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("iso_id", sa.String(length=36), nullable=True),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.Column("storage_id", sa.String(length=36), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("volume", sa.String(length=64), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("bytes_done", sa.BigInteger(), nullable=True),
        sa.Column("bytes_total", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("error_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("(iso_id is null) <> (image_id is null)", name=op.f("ck_media_downloads_one_file")),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_media_downloads_image_id_images"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["iso_id"], ["isos.id"], name=op.f("fk_media_downloads_iso_id_isos"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["storage_id"], ["storages.id"], name=op.f("fk_media_downloads_storage_id_storages"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_media_downloads")),
        sa.UniqueConstraint("image_id", name=op.f("uq_media_downloads_image_id")),
    )
    op.create_index("ix_media_downloads_iso_id_storage_id", "media_downloads", ["iso_id", "storage_id"], unique=True)
    op.create_index(
        "ix_media_downloads_status_next_attempt_at", "media_downloads", ["status", "next_attempt_at"], unique=False
    )
    op.create_index(op.f("ix_media_downloads_storage_id"), "media_downloads", ["storage_id"], unique=False)
    op.create_index(op.f("ix_media_downloads_task_id"), "media_downloads", ["task_id"], unique=False)
    op.create_table(
        "migrations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("instance_name", sa.String(length=255), nullable=False),
        sa.Column("source_id", sa.String(length=36), nullable=True),
        sa.Column("target_id", sa.String(length=36), nullable=True),
        sa.Column("storage_id", sa.String(length=36), nullable=True),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("parent_task_id", sa.String(length=36), nullable=True),
        sa.Column("undeleted_source_disks", sa.JSON(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"], ["hypervisors.id"], name=op.f("fk_migrations_source_id_hypervisors"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(
            ["storage_id"], ["storages.id"], name=op.f("fk_migrations_storage_id_storages"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(
            ["target_id"], ["hypervisors.id"], name=op.f("fk_migrations_target_id_hypervisors"), ondelete="set null"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migrations")),
    )
    op.create_index("ix_migrations_instance_id_id", "migrations", ["instance_id", "id"], unique=False)
    op.create_index("ix_migrations_parent_task_id", "migrations", ["parent_task_id"], unique=False)
    op.create_index(op.f("ix_migrations_source_id"), "migrations", ["source_id"], unique=False)
    op.create_index(op.f("ix_migrations_storage_id"), "migrations", ["storage_id"], unique=False)
    op.create_index("ix_migrations_target_id_status", "migrations", ["target_id", "status"], unique=False)
    op.create_table(
        "monthly_traffic",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("month", sa.String(length=7), nullable=False),
        sa.Column("received", sa.BigInteger(), nullable=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_monthly_traffic_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_monthly_traffic")),
    )
    op.create_index("ix_monthly_traffic_instance_id_month", "monthly_traffic", ["instance_id", "month"], unique=True)
    op.create_table(
        "rescues",
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("username", sa.String(length=32), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_rescues_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_rescues")),
    )
    op.create_table(
        "resource_grants",
        sa.Column("member_id", sa.String(length=36), nullable=False),
        sa.Column("resource_id", sa.String(length=36), nullable=False),
        sa.Column("resource_type", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["member_id"], ["members.id"], name=op.f("fk_resource_grants_member_id_members"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("member_id", "resource_id", name=op.f("pk_resource_grants")),
    )
    op.create_table(
        "security_group_members",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["security_groups.id"],
            name=op.f("fk_security_group_members_group_id_security_groups"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instances.id"],
            name=op.f("fk_security_group_members_instance_id_instances"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_security_group_members")),
    )
    op.create_index(
        "ix_security_group_members_group_id_instance_id",
        "security_group_members",
        ["group_id", "instance_id"],
        unique=True,
    )
    op.create_index(
        op.f("ix_security_group_members_instance_id"), "security_group_members", ["instance_id"], unique=False
    )
    op.create_table(
        "snapshots",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("vmstate", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("parent", sa.String(length=64), nullable=True),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("ram", sa.Integer(), nullable=False),
        sa.Column("disk_ids", sa.JSON(), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_snapshots_instance_id_instances"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshots")),
    )
    op.create_index("ix_snapshots_instance_id_id", "snapshots", ["instance_id", "id"], unique=False)
    op.create_index("uq_snapshots_instance_id_name", "snapshots", ["instance_id", "name"], unique=True)
    op.create_table(
        "task_logs",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("task_id", sa.String(length=36), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_task_logs_task_id_tasks"), ondelete="cascade"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_logs")),
    )
    op.create_index("ix_task_logs_task_id_id", "task_logs", ["task_id", "id"], unique=False)
    op.create_table(
        "volumes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("project_id", sa.String(length=36), nullable=True),
        sa.Column("group_id", sa.String(length=36), nullable=False),
        sa.Column("plan_id", sa.String(length=36), nullable=False),
        sa.Column("storage_id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=True),
        sa.Column("disk_name", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("growing_to", sa.Integer(), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("delete_attempts", sa.Integer(), nullable=False),
        sa.Column("next_delete_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ever_attached", sa.Boolean(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_volumes_account_id_accounts")),
        sa.ForeignKeyConstraint(
            ["group_id"], ["hypervisor_groups.id"], name=op.f("fk_volumes_group_id_hypervisor_groups")
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["instances.id"], name=op.f("fk_volumes_instance_id_instances"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(["plan_id"], ["volume_plans.id"], name=op.f("fk_volumes_plan_id_volume_plans")),
        sa.ForeignKeyConstraint(
            ["project_id"], ["projects.id"], name=op.f("fk_volumes_project_id_projects"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(["storage_id"], ["storages.id"], name=op.f("fk_volumes_storage_id_storages")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volumes")),
        sa.UniqueConstraint("disk_name", name=op.f("uq_volumes_disk_name")),
    )
    op.create_index("ix_volumes_account_id_id", "volumes", ["account_id", "id"], unique=False)
    op.create_index(op.f("ix_volumes_group_id"), "volumes", ["group_id"], unique=False)
    op.create_index(op.f("ix_volumes_instance_id"), "volumes", ["instance_id"], unique=False)
    op.create_index(op.f("ix_volumes_plan_id"), "volumes", ["plan_id"], unique=False)
    op.create_index(op.f("ix_volumes_project_id"), "volumes", ["project_id"], unique=False)
    op.create_index(op.f("ix_volumes_storage_id"), "volumes", ["storage_id"], unique=False)
    op.create_table(
        "addresses",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("subnet_id", sa.String(length=36), nullable=False),
        sa.Column("ip", sa.String(length=45), nullable=False),
        sa.Column("length", sa.Integer(), nullable=True),
        sa.Column("sort_key", sa.String(length=32), nullable=False),
        sa.Column("interface_id", sa.String(length=36), nullable=True),
        sa.Column("reserved", sa.Boolean(), nullable=False),
        sa.Column("note", sa.String(length=255), nullable=True),
        sa.Column("rdns", sa.String(length=254), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["interface_id"], ["interfaces.id"], name=op.f("fk_addresses_interface_id_interfaces"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(
            ["subnet_id"], ["subnets.id"], name=op.f("fk_addresses_subnet_id_subnets"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_addresses")),
        sa.UniqueConstraint("ip", name=op.f("uq_addresses_ip")),
    )
    op.create_index(op.f("ix_addresses_interface_id"), "addresses", ["interface_id"], unique=False)
    op.create_index(
        "ix_addresses_subnet_id_interface_id_reserved_sort_key",
        "addresses",
        ["subnet_id", "interface_id", "reserved", "sort_key"],
        unique=False,
    )
    op.create_index("ix_addresses_subnet_id_sort_key", "addresses", ["subnet_id", "sort_key"], unique=False)
    op.create_table(
        "volume_snapshots",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("volume_id", sa.String(length=36), nullable=False),
        sa.Column("storage_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("taken_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["storage_id"], ["storages.id"], name=op.f("fk_volume_snapshots_storage_id_storages")),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volumes.id"], name=op.f("fk_volume_snapshots_volume_id_volumes"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_snapshots")),
    )
    op.create_index(op.f("ix_volume_snapshots_storage_id"), "volume_snapshots", ["storage_id"], unique=False)
    op.create_index("uq_volume_snapshots_volume_id_name", "volume_snapshots", ["volume_id", "name"], unique=True)
    for table in ("audit", "credits"):
        make_append_only(table)


def make_append_only(table):
    """Add triggers to the table that refuse updates and deletes of its rows."""
    message = f"Rows of {table} are only added."
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("update", "delete"):
            body = f"before {verb} on {table} begin select raise(abort, '{message}'); end"
            op.execute(f"create trigger {table}_{verb} {body}")
        return
    op.execute(
        f"create or replace function {table}_only_added() returns trigger language plpgsql as"
        f" $$ begin raise exception '{message}'; end $$"
    )
    op.execute(
        f"create trigger {table}_only_added before update or delete or truncate on {table}"
        f" execute function {table}_only_added()"
    )


def downgrade():
    for table in (
        "volume_snapshots",
        "addresses",
        "volumes",
        "task_logs",
        "snapshots",
        "security_group_members",
        "resource_grants",
        "rescues",
        "monthly_traffic",
        "migrations",
        "media_downloads",
        "interfaces",
        "instance_metrics",
        "image_copies",
        "guest_info",
        "forges",
        "docker_engines",
        "docker_deployments",
        "disks",
        "console_sessions",
        "webhook_deliveries",
        "tasks",
        "storages",
        "security_rules",
        "members",
        "ip_set_entries",
        "instances",
        "idempotency_keys",
        "acme_challenges",
        "webhook_subscriptions",
        "volume_plans",
        "user_scripts",
        "tokens",
        "subnets",
        "ssh_keys",
        "sessions",
        "security_groups",
        "roles",
        "resource_packs",
        "recovery_codes",
        "projects",
        "plans",
        "passkeys",
        "one_time_tokens",
        "location_grants",
        "known_devices",
        "isos",
        "ip_sets",
        "images",
        "hypervisors",
        "hypervisor_group_plan_groups",
        "events",
        "certificates",
        "volume_plan_groups",
        "usage_months",
        "usage_hours",
        "settings",
        "plan_groups",
        "metering_records",
        "mails",
        "installation_values",
        "hypervisor_groups",
        "credits",
        "catalog_images",
        "audit",
        "acme_accounts",
        "accounts",
    ):
        op.drop_table(table)
    if op.get_bind().dialect.name != "sqlite":
        for table in ("audit", "credits"):
            op.execute(f"drop function {table}_only_added()")
