"""Indexes to sort instances by size."""

from alembic import op

revision = "0038_instance_sizes"
down_revision = "0037_operator_roles"


def upgrade():
    op.create_index("ix_instances_account_id_ram_id", "instances", ["account_id", "ram", "id"])
    op.create_index("ix_instances_ram_id", "instances", ["ram", "id"])


def downgrade():
    op.drop_index("ix_instances_ram_id", "instances")
    op.drop_index("ix_instances_account_id_ram_id", "instances")
