"""Indexes to sort instances by size."""

from alembic import op

revision = "0035_instance_sizes"
down_revision = "0034_backup_destination_sizes"


def upgrade():
    op.create_index("ix_instances_account_id_ram_id", "instances", ["account_id", "ram", "id"])
    op.create_index("ix_instances_ram_id", "instances", ["ram", "id"])


def downgrade():
    op.drop_index("ix_instances_ram_id", "instances")
    op.drop_index("ix_instances_account_id_ram_id", "instances")
