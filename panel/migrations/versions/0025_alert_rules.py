"""Alert rules, their states and history, and notification channels."""

import sqlalchemy as sa
from alembic import op

revision = "0025_alert_rules"
down_revision = '0024_backup_copies'


def upgrade():
    op.create_table('notification_channels',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('type', sa.String(length=16), nullable=False),
    sa.Column('encrypted_config', sa.Text(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('auto_disabled', sa.Boolean(), nullable=False),
    sa.Column('failure_count', sa.Integer(), nullable=False),
    sa.Column('last_sent_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('last_error', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_notification_channels_account_id_accounts'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_notification_channels'))
    )
    with op.batch_alter_table('notification_channels', schema=None) as batch_op:
        batch_op.create_index('ix_notification_channels_account_id_name', ['account_id', 'name', 'id'], unique=False)

    op.create_table('alert_rules',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('account_id', sa.String(length=36), nullable=False),
    sa.Column('name', sa.String(length=255), nullable=False),
    sa.Column('resource_type', sa.String(length=32), nullable=False),
    sa.Column('resource_id', sa.String(length=36), nullable=True),
    sa.Column('metric', sa.String(length=64), nullable=False),
    sa.Column('operator', sa.String(length=8), nullable=False),
    sa.Column('threshold', sa.Double(), nullable=False),
    sa.Column('duration', sa.Integer(), nullable=False),
    sa.Column('reminder_interval', sa.Integer(), nullable=False),
    sa.Column('enabled', sa.Boolean(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['account_id'], ['accounts.id'], name=op.f('fk_alert_rules_account_id_accounts'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['resource_id'], ['instances.id'], name=op.f('fk_alert_rules_resource_id_instances'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_rules'))
    )
    with op.batch_alter_table('alert_rules', schema=None) as batch_op:
        batch_op.create_index('ix_alert_rules_account_id_name', ['account_id', 'name', 'id'], unique=False)
        batch_op.create_index('ix_alert_rules_resource_id', ['resource_id'], unique=False)

    op.create_table('alert_events',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('rule_id', sa.String(length=36), nullable=False),
    sa.Column('resource_id', sa.String(length=255), nullable=False),
    sa.Column('resource_name', sa.String(length=255), nullable=False),
    sa.Column('kind', sa.String(length=16), nullable=False),
    sa.Column('value', sa.Double(), nullable=True),
    sa.Column('actor', sa.String(length=255), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['rule_id'], ['alert_rules.id'], name=op.f('fk_alert_events_rule_id_alert_rules'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_events'))
    )
    with op.batch_alter_table('alert_events', schema=None) as batch_op:
        batch_op.create_index('ix_alert_events_created_at', ['created_at'], unique=False)
        batch_op.create_index('ix_alert_events_rule_id_id', ['rule_id', 'id'], unique=False)

    op.create_table('alert_rule_channels',
    sa.Column('rule_id', sa.String(length=36), nullable=False),
    sa.Column('channel_id', sa.String(length=36), nullable=False),
    sa.ForeignKeyConstraint(['channel_id'], ['notification_channels.id'], name=op.f('fk_alert_rule_channels_channel_id_notification_channels'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['rule_id'], ['alert_rules.id'], name=op.f('fk_alert_rule_channels_rule_id_alert_rules'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('rule_id', 'channel_id', name=op.f('pk_alert_rule_channels'))
    )
    with op.batch_alter_table('alert_rule_channels', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_alert_rule_channels_channel_id'), ['channel_id'], unique=False)

    op.create_table('alert_states',
    sa.Column('rule_id', sa.String(length=36), nullable=False),
    sa.Column('resource_id', sa.String(length=36), nullable=False),
    sa.Column('status', sa.String(length=16), nullable=False),
    sa.Column('changing_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('no_data_since', sa.DateTime(timezone=True), nullable=True),
    sa.Column('fired_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('notified_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('acknowledged_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('value', sa.Double(), nullable=True),
    sa.ForeignKeyConstraint(['resource_id'], ['instances.id'], name=op.f('fk_alert_states_resource_id_instances'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['rule_id'], ['alert_rules.id'], name=op.f('fk_alert_states_rule_id_alert_rules'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('rule_id', 'resource_id', name=op.f('pk_alert_states'))
    )
    with op.batch_alter_table('alert_states', schema=None) as batch_op:
        batch_op.create_index('ix_alert_states_resource_id', ['resource_id'], unique=False)

    op.create_table('alert_notifications',
    sa.Column('id', sa.String(length=36), nullable=False),
    sa.Column('channel_id', sa.String(length=36), nullable=False),
    sa.Column('event_id', sa.String(length=36), nullable=True),
    sa.Column('status', sa.String(length=16), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('due_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('updated_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['channel_id'], ['notification_channels.id'], name=op.f('fk_alert_notifications_channel_id_notification_channels'), ondelete='cascade'),
    sa.ForeignKeyConstraint(['event_id'], ['alert_events.id'], name=op.f('fk_alert_notifications_event_id_alert_events'), ondelete='cascade'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_alert_notifications')),
    sa.UniqueConstraint('event_id', 'channel_id', name=op.f('uq_alert_notifications_event_id_channel_id'))
    )
    with op.batch_alter_table('alert_notifications', schema=None) as batch_op:
        batch_op.create_index('ix_alert_notifications_channel_id_id', ['channel_id', 'id'], unique=False)
        batch_op.create_index('ix_alert_notifications_created_at', ['created_at'], unique=False)
        batch_op.create_index('ix_alert_notifications_due_at_id', ['due_at', 'id'], unique=False, sqlite_where=sa.text("status = 'pending'"), postgresql_where=sa.text("status = 'pending'"))



def downgrade():
    with op.batch_alter_table('alert_notifications', schema=None) as batch_op:
        batch_op.drop_index('ix_alert_notifications_due_at_id', sqlite_where=sa.text("status = 'pending'"), postgresql_where=sa.text("status = 'pending'"))
        batch_op.drop_index('ix_alert_notifications_created_at')
        batch_op.drop_index('ix_alert_notifications_channel_id_id')

    op.drop_table('alert_notifications')
    with op.batch_alter_table('alert_states', schema=None) as batch_op:
        batch_op.drop_index('ix_alert_states_resource_id')

    op.drop_table('alert_states')
    with op.batch_alter_table('alert_rule_channels', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_alert_rule_channels_channel_id'))

    op.drop_table('alert_rule_channels')
    with op.batch_alter_table('alert_events', schema=None) as batch_op:
        batch_op.drop_index('ix_alert_events_rule_id_id')
        batch_op.drop_index('ix_alert_events_created_at')

    op.drop_table('alert_events')
    with op.batch_alter_table('alert_rules', schema=None) as batch_op:
        batch_op.drop_index('ix_alert_rules_resource_id')
        batch_op.drop_index('ix_alert_rules_account_id_name')

    op.drop_table('alert_rules')
    with op.batch_alter_table('notification_channels', schema=None) as batch_op:
        batch_op.drop_index('ix_notification_channels_account_id_name')

    op.drop_table('notification_channels')
