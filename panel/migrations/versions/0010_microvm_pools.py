"""Warm pools of micro VMs."""

import sqlalchemy as sa
from alembic import op

revision = "0010_microvm_pools"
down_revision = "0009_microvm_network"

IS_LIVE = sa.text("ended_at is null")


def upgrade():
    op.create_table(
        "microvm_pools",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("profile_id", sa.String(length=36), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failed_boots", sa.Integer(), nullable=False),
        sa.Column("next_boot_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["profile_id"],
            ["microvm_profiles.id"],
            name=op.f("fk_microvm_pools_profile_id_microvm_profiles"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["image_id"],
            ["microvm_images.id"],
            name=op.f("fk_microvm_pools_image_id_microvm_images"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_pools")),
    )
    op.create_index("ix_microvm_pools_image_id", "microvm_pools", ["image_id"])
    op.create_index("uq_microvm_pools_profile_id_image_id", "microvm_pools", ["profile_id", "image_id"], unique=True)
    op.create_table(
        "microvm_pool_members",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("sandbox_id", sa.String(length=32), nullable=False),
        sa.Column("boot", sa.JSON(), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("address", sa.String(length=15), nullable=True),
        sa.Column("pool_id", sa.String(length=36), nullable=True),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=False),
        sa.Column("storage_id", sa.String(length=36), nullable=False),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("next_removal_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["pool_id"],
            ["microvm_pools.id"],
            name=op.f("fk_microvm_pool_members_pool_id_microvm_pools"),
            ondelete="set null",
        ),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_microvm_pool_members_hypervisor_id_hypervisors"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["storage_id"],
            ["storages.id"],
            name=op.f("fk_microvm_pool_members_storage_id_storages"),
            ondelete="cascade",
        ),
        sa.ForeignKeyConstraint(
            ["image_id"],
            ["microvm_images.id"],
            name=op.f("fk_microvm_pool_members_image_id_microvm_images"),
            ondelete="set null",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_pool_members")),
        sa.UniqueConstraint("sandbox_id", name=op.f("uq_microvm_pool_members_sandbox_id")),
    )
    for column in ("pool_id", "hypervisor_id", "storage_id", "image_id"):
        op.create_index(f"ix_microvm_pool_members_{column}", "microvm_pool_members", [column])
    op.drop_index("ix_microvms_live", "microvms")
    op.drop_index("ix_microvms_live_account_id_id", "microvms")
    op.create_index(
        "ix_microvms_live_started_at_id",
        "microvms",
        ["started_at", "id"],
        sqlite_where=IS_LIVE,
        postgresql_where=IS_LIVE,
    )


def downgrade():
    op.drop_index("ix_microvms_live_started_at_id", "microvms")
    op.create_index(
        "ix_microvms_live_account_id_id",
        "microvms",
        ["account_id", "id"],
        sqlite_where=IS_LIVE,
        postgresql_where=IS_LIVE,
    )
    op.create_index("ix_microvms_live", "microvms", ["id"], sqlite_where=IS_LIVE, postgresql_where=IS_LIVE)
    op.drop_table("microvm_pool_members")
    op.drop_table("microvm_pools")
