"""An index for the instances that need attention: the navigation counts them on every page."""

import sqlalchemy as sa
from alembic import op

revision = "0035_instances_with_problems"
down_revision = "0034_backup_destination_sizes"

HAS_PROBLEM_SQL = (
    "(instances.last_error is not null or instances.missing_on_node"
    " or instances.suspended_reason is not null and instances.suspended_reason <> 'user')"
)


def upgrade():
    with op.batch_alter_table('instances', schema=None) as batch_op:
        batch_op.create_index('ix_instances_with_problems', ['account_id', 'id'], unique=False, sqlite_where=sa.text(HAS_PROBLEM_SQL), postgresql_where=sa.text(HAS_PROBLEM_SQL))


def downgrade():
    with op.batch_alter_table('instances', schema=None) as batch_op:
        batch_op.drop_index('ix_instances_with_problems')
