"""Micro VMs, their images, profiles and snapshots."""

import sqlalchemy as sa
from alembic import op

revision = "0003_microvms"
down_revision = "0002_microvm_api_keys"


def upgrade():
    op.create_table(
        "microvm_images",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("aliases", sa.JSON(), nullable=False),
        sa.Column("label", sa.String(length=255), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("min_memory_mb", sa.Integer(), nullable=False),
        sa.Column("min_disk_gb", sa.Integer(), nullable=False),
        sa.Column("price", sa.Numeric(precision=12, scale=4), nullable=False),
        sa.Column("envs", sa.JSON(), nullable=False),
        sa.Column("disk_path", sa.String(length=255), nullable=False),
        sa.Column("disk_size", sa.BigInteger(), nullable=False),
        sa.Column("disk_sha256", sa.String(length=64), nullable=False),
        sa.Column("kernel_path", sa.String(length=255), nullable=False),
        sa.Column("kernel_size", sa.BigInteger(), nullable=False),
        sa.Column("kernel_sha256", sa.String(length=64), nullable=False),
        sa.Column("initrd_path", sa.String(length=255), nullable=False),
        sa.Column("initrd_size", sa.BigInteger(), nullable=False),
        sa.Column("initrd_sha256", sa.String(length=64), nullable=False),
        sa.Column("kernel_options", sa.Text(), nullable=False),
        sa.Column("files_key", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_microvm_images_account_id_accounts"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_images")),
    )
    op.create_index("ix_microvm_images_files_key", "microvm_images", ["files_key"], unique=False)
    op.create_index("uq_microvm_images_account_id_name", "microvm_images", ["account_id", "name"], unique=True)
    op.create_index(
        "uq_microvm_images_name_platform",
        "microvm_images",
        ["name"],
        unique=True,
        sqlite_where=sa.text("account_id is null"),
        postgresql_where=sa.text("account_id is null"),
    )
    op.create_table(
        "microvm_profiles",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("max_microvms", sa.Integer(), nullable=False),
        sa.Column("max_memory_mb", sa.Integer(), nullable=False),
        sa.Column("allows_internet_access", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_microvm_profiles_hypervisor_id_hypervisors"),
            ondelete="cascade",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_profiles")),
        sa.UniqueConstraint("hypervisor_id", name=op.f("uq_microvm_profiles_hypervisor_id")),
    )
    op.create_table(
        "microvms",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("sandbox_id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("account_id", sa.String(length=36), nullable=False),
        sa.Column("group_id", sa.String(length=36), nullable=True),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=True),
        sa.Column("storage_id", sa.String(length=36), nullable=True),
        sa.Column("image_id", sa.String(length=36), nullable=True),
        sa.Column("boot", sa.JSON(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("api_key_id", sa.String(length=36), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("metadata", sa.JSON(), nullable=False),
        sa.Column("envs", sa.Text(), nullable=True),
        sa.Column("access_token", sa.Text(), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("state_changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("timeout_seconds", sa.Integer(), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("on_timeout", sa.String(length=8), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_destroy_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("destroy_attempts", sa.Integer(), nullable=False),
        sa.Column("allow_internet_access", sa.Boolean(), nullable=False),
        sa.Column("allow_out", sa.JSON(), nullable=False),
        sa.Column("deny_out", sa.JSON(), nullable=False),
        sa.Column("usage", sa.JSON(), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name=op.f("fk_microvms_account_id_accounts"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["hypervisor_groups.id"],
            name=op.f("fk_microvms_group_id_hypervisor_groups"),
            ondelete="set null",
        ),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_microvms_hypervisor_id_hypervisors"),
            ondelete="set null",
        ),
        sa.ForeignKeyConstraint(
            ["image_id"], ["microvm_images.id"], name=op.f("fk_microvms_image_id_microvm_images"), ondelete="set null"
        ),
        sa.ForeignKeyConstraint(
            ["storage_id"], ["storages.id"], name=op.f("fk_microvms_storage_id_storages"), ondelete="set null"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvms")),
        sa.UniqueConstraint("sandbox_id", name=op.f("uq_microvms_sandbox_id")),
    )
    op.create_index(
        "ix_microvms_ended_at",
        "microvms",
        ["ended_at"],
        unique=False,
        sqlite_where=sa.text("ended_at is not null"),
        postgresql_where=sa.text("ended_at is not null"),
    )
    op.create_index("ix_microvms_group_id", "microvms", ["group_id"], unique=False)
    op.create_index("ix_microvms_image_id", "microvms", ["image_id"], unique=False)
    op.create_index(
        "ix_microvms_live",
        "microvms",
        ["id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_microvms_live_account_id_id",
        "microvms",
        ["account_id", "id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_microvms_live_account_id_started_at_id",
        "microvms",
        ["account_id", "started_at", "id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_microvms_live_expires_at",
        "microvms",
        ["expires_at"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_microvms_live_hypervisor_id",
        "microvms",
        ["hypervisor_id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_microvms_live_storage_id",
        "microvms",
        ["storage_id"],
        unique=False,
        sqlite_where=sa.text("ended_at is null"),
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "ix_microvms_next_destroy_at",
        "microvms",
        ["next_destroy_at"],
        unique=False,
        sqlite_where=sa.text("next_destroy_at is not null"),
        postgresql_where=sa.text("next_destroy_at is not null"),
    )
    op.create_table(
        "microvm_snapshots",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("microvm_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("has_memory", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["microvm_id"], ["microvms.id"], name=op.f("fk_microvm_snapshots_microvm_id_microvms"), ondelete="cascade"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_snapshots")),
    )
    op.create_index("uq_microvm_snapshots_microvm_id_name", "microvm_snapshots", ["microvm_id", "name"], unique=True)


def downgrade():
    for table in ("microvm_snapshots", "microvms", "microvm_profiles", "microvm_images"):
        op.drop_table(table)
