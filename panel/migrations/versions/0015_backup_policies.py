"""Backup policies."""

import sqlalchemy as sa
from alembic import op

revision = "0015_backup_policies"
down_revision = "0014_instance_backups"

RULES = ("keep_last", "keep_within_days", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly")


def upgrade():
    op.create_table(
        "backup_policies",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("full_backup_frequency", sa.String(length=16), nullable=False),
        sa.Column("full_backup_time", sa.String(length=5), nullable=False),
        sa.Column("full_backup_day", sa.Integer(), nullable=True),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("max_incremental_chain", sa.Integer(), nullable=False),
        sa.Column("backup_device", sa.String(length=16), nullable=False),
        sa.Column("retention_mode", sa.String(length=16), nullable=False),
        sa.Column("retention_count", sa.Integer(), nullable=True),
        *(sa.Column(rule, sa.Integer(), nullable=False) for rule in RULES),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("last_run_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_run_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_backup_policies_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backup_policies")),
    )
    op.create_index("ix_backup_policies_account_id_name_id", "backup_policies", ["account_id", "name", "id"])
    op.create_index(op.f("ix_backup_policies_next_run_at"), "backup_policies", ["next_run_at"])
    op.create_table(
        "backup_policy_instances",
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("policy_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instances.id"],
            name=op.f("fk_backup_policy_instances_instance_id_instances"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["policy_id"],
            ["backup_policies.id"],
            name=op.f("fk_backup_policy_instances_policy_id_backup_policies"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_backup_policy_instances")),
    )
    op.create_index(op.f("ix_backup_policy_instances_policy_id"), "backup_policy_instances", ["policy_id"])
    op.add_column("instance_backups", sa.Column("policy_id", sa.String(length=36), nullable=True))
    op.create_index(
        "ix_instance_backups_policy_id_instance_id_id", "instance_backups", ["policy_id", "instance_id", "id"]
    )


def downgrade():
    op.drop_index("ix_instance_backups_policy_id_instance_id_id", table_name="instance_backups")
    with op.batch_alter_table("instance_backups") as batch:
        batch.drop_column("policy_id")
    op.drop_table("backup_policy_instances")
    op.drop_table("backup_policies")
