"""Backups of volumes."""

import sqlalchemy as sa
from alembic import op

revision = "0021_volume_backups"
down_revision = "0020_rbs_backups"


def upgrade():
    with op.batch_alter_table("instance_backups") as table:
        table.add_column(sa.Column("volume_id", sa.String(36), nullable=True))
        table.add_column(sa.Column("checkpoint_machine_id", sa.String(36), nullable=True))
    op.create_index("ix_instance_backups_volume_id_id", "instance_backups", ["volume_id", "id"])
    op.create_index("ix_instance_backups_checkpoint_machine_id", "instance_backups", ["checkpoint_machine_id"])


def downgrade():
    op.drop_index("ix_instance_backups_checkpoint_machine_id", "instance_backups")
    op.drop_index("ix_instance_backups_volume_id_id", "instance_backups")
    with op.batch_alter_table("instance_backups") as table:
        table.drop_column("checkpoint_machine_id")
        table.drop_column("volume_id")
