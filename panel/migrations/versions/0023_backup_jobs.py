"""Backup jobs of hypervisor groups, the destination of policies, and the space of managed backups."""

import sqlalchemy as sa
from alembic import op

revision = "0023_backup_jobs"
down_revision = "0022_installation_backups"

REFERENCES = {
    "group_id": ("hypervisor_groups", "cascade"),
    "hypervisor_id": ("hypervisors", "cascade"),
    "plan_id": ("backup_policies", None),
    "destination_id": ("backup_destinations", None),
}
MARK_MANAGED = """
UPDATE instance_backups SET managed_group_id = (
    SELECT instances.group_id FROM instances
    WHERE instances.id = instance_backups.instance_id AND instances.account_id = instance_backups.account_id
    AND instances.billing_mode != 'external'
) WHERE policy_id IN (SELECT id FROM backup_policies WHERE account_id IS NULL)
"""
INDEXED_COLUMNS = ("hypervisor_id", "plan_id", "destination_id")


def upgrade():
    with op.batch_alter_table("backup_policies") as table:
        for column, (referred, on_delete) in REFERENCES.items():
            table.add_column(sa.Column(column, sa.String(36), nullable=True))
            name = op.f(f"fk_backup_policies_{column}_{referred}")
            table.create_foreign_key(name, referred, [column], ["id"], ondelete=on_delete)
        table.add_column(sa.Column("enabled", sa.Boolean(), nullable=False, server_default=sa.true()))
        table.add_column(sa.Column("comment", sa.String(255), nullable=False, server_default=""))
        table.add_column(sa.Column("run_position", sa.String(36), nullable=True))
    with op.batch_alter_table("backup_policies") as table:
        table.alter_column("enabled", server_default=None)
        table.alter_column("comment", server_default=None)
    op.create_index("ix_backup_policies_group_id_name_id", "backup_policies", ["group_id", "name", "id"])
    for column in INDEXED_COLUMNS:
        op.create_index(f"ix_backup_policies_{column}", "backup_policies", [column])
    op.add_column("instance_backups", sa.Column("managed_group_id", sa.String(36), nullable=True))
    op.execute(MARK_MANAGED)
    op.create_table(
        "managed_backup_usages",
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("account_id", sa.String(36), nullable=False),
        sa.Column("repository_id", sa.String(36), nullable=False),
        sa.Column("group_id", sa.String(36), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("metered_bytes", sa.BigInteger(), nullable=True),
        sa.Column("metered_price", sa.BigInteger(), nullable=True),
        sa.Column("metered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_managed_backup_usages")),
    )
    op.create_index(
        "uq_managed_backup_usages_repository_id_group_id",
        "managed_backup_usages",
        ["repository_id", "group_id"],
        unique=True,
    )


def downgrade():
    op.drop_table("managed_backup_usages")
    with op.batch_alter_table("instance_backups") as table:
        table.drop_column("managed_group_id")
    for column in INDEXED_COLUMNS:
        op.drop_index(f"ix_backup_policies_{column}", "backup_policies")
    op.drop_index("ix_backup_policies_group_id_name_id", "backup_policies")
    op.execute("DELETE FROM backup_policies WHERE group_id IS NOT NULL")
    with op.batch_alter_table("backup_policies") as table:
        for column, (referred, _) in REFERENCES.items():
            table.drop_constraint(op.f(f"fk_backup_policies_{column}_{referred}"), type_="foreignkey")
            table.drop_column(column)
        for column in ("enabled", "comment", "run_position"):
            table.drop_column(column)
