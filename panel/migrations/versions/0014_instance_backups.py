"""Backups of instances, and the rate of tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0014_instance_backups"
down_revision = "0013_backup_destinations"

IS_CLAIMED = sa.text("delete_claimed_at is not null")


def upgrade():
    op.create_table(
        "instance_backups",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("repository_id", sa.String(length=36), nullable=False),
        sa.Column("destination_id", sa.String(length=36), nullable=False),
        sa.Column("instance_id", sa.String(length=36), nullable=False),
        sa.Column("recorded_name", sa.String(length=255), nullable=False),
        sa.Column("recorded_hostname", sa.String(length=255), nullable=False),
        sa.Column("instance_deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("is_appliance", sa.Boolean(), nullable=False),
        sa.Column("secure_boot_enabled", sa.Boolean(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("backup_type", sa.String(length=16), nullable=False),
        sa.Column("backup_device", sa.String(length=16), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("statistics", sa.JSON(), nullable=True),
        sa.Column("disks", sa.JSON(), nullable=False),
        sa.Column("consistency", sa.String(length=16), nullable=True),
        sa.Column("chain_reason", sa.String(length=32), nullable=True),
        sa.Column("parent_backup_id", sa.String(length=36), nullable=True),
        sa.Column("checkpoint", sa.String(length=64), nullable=True),
        sa.Column("is_chain_end", sa.Boolean(), nullable=False),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("verification_status", sa.String(length=16), nullable=True),
        sa.Column("delete_claimed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delete_dispatched_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("delete_task_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name=op.f("fk_instance_backups_account_id_accounts")),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["backup_destinations.id"],
            name=op.f("fk_instance_backups_destination_id_backup_destinations"),
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"],
            ["backup_repositories.id"],
            name=op.f("fk_instance_backups_repository_id_backup_repositories"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instance_backups")),
    )
    for columns in (
        ("account_id", "id"),
        ("account_id", "size", "id"),
        ("account_id", "name", "id"),
        ("account_id", "destination_id", "id"),
        ("instance_id", "id"),
        ("size", "id"),
        ("name", "id"),
        ("repository_id",),
        ("destination_id",),
        ("parent_backup_id",),
    ):
        op.create_index(f"ix_instance_backups_{'_'.join(columns)}", "instance_backups", list(columns))
    op.create_index(
        "ix_instance_backups_claimed_id",
        "instance_backups",
        ["id"],
        sqlite_where=IS_CLAIMED,
        postgresql_where=IS_CLAIMED,
    )
    op.add_column("tasks", sa.Column("bytes_per_second", sa.BigInteger(), nullable=True))


def downgrade():
    with op.batch_alter_table("tasks") as batch:
        batch.drop_column("bytes_per_second")
    op.drop_table("instance_backups")
