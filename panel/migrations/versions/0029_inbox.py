"""Inboxes: messages, their causes and preferences."""

import sqlalchemy as sa
from alembic import op

revision = "0029_inbox"
down_revision = "0028_saved_filters"


def upgrade():
    op.create_table('inbox_causes',
    sa.Column('key', sa.String(length=160), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('key', name=op.f('pk_inbox_causes'))
    )
    with op.batch_alter_table('inbox_causes', schema=None) as batch_op:
        batch_op.create_index('ix_inbox_causes_created_at', ['created_at'], unique=False)

    op.create_table('inbox_messages',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('owner_id', sa.String(length=36), nullable=True),
    sa.Column('kind', sa.String(length=16), nullable=False),
    sa.Column('severity', sa.String(length=8), nullable=False),
    sa.Column('text', sa.Text(), nullable=False),
    sa.Column('path', sa.String(length=255), nullable=True),
    sa.Column('resource_type', sa.String(length=32), nullable=True),
    sa.Column('resource_id', sa.String(length=36), nullable=True),
    sa.Column('read_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_inbox_messages_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['owner_id'], ['accounts.id'], name=op.f('fk_inbox_messages_owner_id_accounts'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_inbox_messages'))
    )
    with op.batch_alter_table('inbox_messages', schema=None) as batch_op:
        batch_op.create_index('ix_inbox_messages_account_id_id', ['account_id', 'id'], unique=False)
        batch_op.create_index('ix_inbox_messages_created_at', ['created_at'], unique=False)
        batch_op.create_index('ix_inbox_messages_unread', ['account_id', 'id'], unique=False, sqlite_where=sa.text('read_at is null'), postgresql_where=sa.text('read_at is null'))

    op.create_table('inbox_preferences',
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('kind', sa.String(length=16), nullable=False),
    sa.Column('inbox', sa.Boolean(), nullable=False),
    sa.Column('mail', sa.Boolean(), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_inbox_preferences_account_id_accounts'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('account_id', 'kind', name=op.f('pk_inbox_preferences'))
    )


def downgrade():
    op.drop_table('inbox_preferences')
    with op.batch_alter_table('inbox_messages', schema=None) as batch_op:
        batch_op.drop_index('ix_inbox_messages_unread', sqlite_where=sa.text('read_at is null'), postgresql_where=sa.text('read_at is null'))
        batch_op.drop_index('ix_inbox_messages_created_at')
        batch_op.drop_index('ix_inbox_messages_account_id_id')

    op.drop_table('inbox_messages')
    with op.batch_alter_table('inbox_causes', schema=None) as batch_op:
        batch_op.drop_index('ix_inbox_causes_created_at')

    op.drop_table('inbox_causes')
