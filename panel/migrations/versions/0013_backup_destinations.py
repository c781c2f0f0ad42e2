"""Destinations of backups, and the repository of each account in them."""

import sqlalchemy as sa
from alembic import op

revision = "0013_backup_destinations"
down_revision = "0012_microvm_pending_timeouts"


def upgrade():
    op.create_table(
        "backup_destinations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("storage_type", sa.String(length=16), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("all_hypervisors", sa.Boolean(), nullable=False),
        sa.Column("bandwidth_limit", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("status_detail", sa.Text(), nullable=True),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("check_steps", sa.JSON(), nullable=False),
        sa.Column("capacity", sa.BigInteger(), nullable=True),
        sa.Column("free", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backup_destinations")),
        sa.UniqueConstraint("name", name=op.f("uq_backup_destinations_name")),
    )
    op.create_table(
        "backup_destination_hypervisors",
        sa.Column("destination_id", sa.String(length=36), nullable=False),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["backup_destinations.id"],
            name=op.f("fk_backup_destination_hypervisors_destination_id_backup_destinations"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_backup_destination_hypervisors_hypervisor_id_hypervisors"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("destination_id", "hypervisor_id", name=op.f("pk_backup_destination_hypervisors")),
    )
    op.create_index(
        op.f("ix_backup_destination_hypervisors_hypervisor_id"), "backup_destination_hypervisors", ["hypervisor_id"]
    )
    op.create_table(
        "backup_repositories",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("destination_id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("initialized_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("collected_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_backup_repositories_account_id_accounts")
        ),
        sa.ForeignKeyConstraint(
            ["destination_id"],
            ["backup_destinations.id"],
            name=op.f("fk_backup_repositories_destination_id_backup_destinations"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backup_repositories")),
    )
    op.create_index(op.f("ix_backup_repositories_account_id"), "backup_repositories", ["account_id"])
    op.create_index(
        "uq_backup_repositories_destination_id_account_id",
        "backup_repositories",
        ["destination_id", "account_id"],
        unique=True,
    )


def downgrade():
    for table in ("backup_repositories", "backup_destination_hypervisors", "backup_destinations"):
        op.drop_table(table)
