import { idTime } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { outboxLimits } from '../outbox/limits.ts';
import { removeOld } from '../outbox/queues.ts';
import { webhooksLimits } from './limits.ts';
import { disableUnread } from './webhook-store.ts';

/**
 * Removes some rows older than `outboxLimits.keptMs`, and disables unread endpoints. Resolves to whether no
 * old rows are left. Deliveries go first, so that no event about to be removed is sent; then rows without a
 * delivery.
 */
export async function trimDeliveries(sql: Database, nowMs: UnixMillis): Promise<boolean> {
  await disableUnread(sql, { beforeMs: nowMs - webhooksLimits.webhookUnreadMsMax, nowMs });
  const old = idTime(Math.max(0, nowMs - outboxLimits.keptMs) as UnixMillis);
  return removeOld(sql, [
    { from: 'webhook_deliveries', id: 'delivery_id', below: `dlv_${old}` },
    { from: 'webhook_attempts', id: 'delivery_id', below: `dlv_${old}` },
    { from: 'webhook_events', id: 'event_id', below: `evt_${old}` },
  ]);
}
