"""The log of addresses, beginning with those that are assigned now."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op
from uuid_utils import uuid7

revision = "0033_address_log"
down_revision = "0032_brands"


def upgrade():
    log = op.create_table('address_log',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('ip', sa.String(length=49), nullable=False),
    sa.Column('instance_id', sa.String(length=36), nullable=False),
    sa.Column('instance_name', sa.String(length=255), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=True),
    sa.Column('email', sa.String(length=255), nullable=False),
    sa.Column('assigned_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('released_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_address_log_account_id_accounts'), ondelete='set null'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_address_log'))
    )
    with op.batch_alter_table('address_log', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_address_log_account_id'), ['account_id'], unique=False)
        batch_op.create_index('ix_address_log_instance_id', ['instance_id', 'id'], unique=False)
        batch_op.create_index('ix_address_log_ip_id', ['ip', 'id'], unique=False)
        batch_op.create_index(batch_op.f('ix_address_log_released_at'), ['released_at'], unique=False)
    assigned = op.get_bind().execute(sa.text(
        "select addresses.ip, instances.id as instance_id, instances.display_name as instance_name, "
        "instances.account_id, accounts.email from addresses "
        "join interfaces on interfaces.id = addresses.interface_id "
        "join instances on instances.id = interfaces.instance_id join accounts on accounts.id = instances.account_id"
    ))
    rows = [{**row._mapping, "id": str(uuid7()), "assigned_at": datetime.now(UTC)} for row in assigned]
    if rows:
        op.bulk_insert(log, rows)


def downgrade():
    op.drop_table('address_log')
