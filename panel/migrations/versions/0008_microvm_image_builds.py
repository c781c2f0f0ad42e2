"""Builds of micro VM images; the images' environment variables are encrypted."""

import sqlalchemy as sa
from alembic import op

revision = "0008_microvm_image_builds"
down_revision = "0007_microvm_connectors"

IS_RUNNING = sa.text("ended_at is null")


def upgrade():
    op.create_table(
        "microvm_image_builds",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("source_id", sa.String(length=36), nullable=True),
        sa.Column("group_id", sa.String(length=36), nullable=True),
        sa.Column("hypervisor_id", sa.String(length=36), nullable=True),
        sa.Column("storage_id", sa.String(length=36), nullable=True),
        sa.Column("commands", sa.JSON(), nullable=False),
        sa.Column("boot", sa.JSON(), nullable=False),
        sa.Column("cpu_cores", sa.Integer(), nullable=False),
        sa.Column("memory_mb", sa.Integer(), nullable=False),
        sa.Column("disk_gb", sa.Integer(), nullable=False),
        sa.Column("mac", sa.String(length=17), nullable=False),
        sa.Column("log", sa.Text(), nullable=False),
        sa.Column("command_number", sa.Integer(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("task_id", sa.String(length=36), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["hypervisor_groups.id"],
            name=op.f("fk_microvm_image_builds_group_id_hypervisor_groups"),
            ondelete="set null",
        ),
        sa.ForeignKeyConstraint(
            ["hypervisor_id"],
            ["hypervisors.id"],
            name=op.f("fk_microvm_image_builds_hypervisor_id_hypervisors"),
            ondelete="set null",
        ),
        sa.ForeignKeyConstraint(
            ["id"], ["microvm_images.id"], name=op.f("fk_microvm_image_builds_id_microvm_images"), ondelete="cascade"
        ),
        sa.ForeignKeyConstraint(
            ["source_id"],
            ["microvm_images.id"],
            name=op.f("fk_microvm_image_builds_source_id_microvm_images"),
            ondelete="set null",
        ),
        sa.ForeignKeyConstraint(
            ["storage_id"], ["storages.id"], name=op.f("fk_microvm_image_builds_storage_id_storages"), ondelete="set null"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_microvm_image_builds")),
    )
    op.create_index("ix_microvm_image_builds_source_id", "microvm_image_builds", ["source_id"], unique=False)
    for column in ("hypervisor_id", "storage_id"):
        op.create_index(
            f"ix_microvm_image_builds_running_{column}",
            "microvm_image_builds",
            [column],
            unique=False,
            sqlite_where=IS_RUNNING,
            postgresql_where=IS_RUNNING,
        )
    with op.batch_alter_table("microvm_images") as table:
        table.add_column(sa.Column("is_public", sa.Boolean(), server_default=sa.true(), nullable=False))
        table.drop_column("envs")  # nothing could set it
    with op.batch_alter_table("microvm_images") as table:
        table.alter_column("is_public", server_default=None)
        table.add_column(sa.Column("envs", sa.Text(), nullable=True))


def downgrade():
    with op.batch_alter_table("microvm_images") as table:
        table.drop_column("is_public")
        table.drop_column("envs")
    with op.batch_alter_table("microvm_images") as table:
        table.add_column(sa.Column("envs", sa.JSON(), server_default="{}", nullable=False))
    with op.batch_alter_table("microvm_images") as table:
        table.alter_column("envs", server_default=None)
    op.drop_table("microvm_image_builds")
