import { idTime } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { webhooksLimits } from './limits.ts';
import { disableUnread } from './webhook-store.ts';

/**
 * Removes some rows older than `webhooksLimits.webhookDeliveryKeptMs`, and disables unread endpoints.
 * Resolves to whether no old rows are left. Ids begin with their time of creation, so old rows are the start
 * of an index.
 *
 * Deliveries go first, so that no event about to be removed is sent; then rows without a delivery.
 */
export async function trimDeliveries(sql: Database, nowMs: UnixMillis): Promise<boolean> {
  await disableUnread(sql, { beforeMs: nowMs - webhooksLimits.webhookUnreadMsMax, nowMs });
  const oldTime = idTime(Math.max(0, nowMs - webhooksLimits.webhookDeliveryKeptMs) as UnixMillis);
  const max = webhooksLimits.webhookDeliveriesPerTrimMax;
  const deliveries = await sql`
    DELETE FROM webhook_deliveries WHERE delivery_id = ANY (ARRAY(
      SELECT delivery_id FROM webhook_deliveries WHERE delivery_id < ${`dlv_${oldTime}`} ORDER BY delivery_id LIMIT ${max}))`;
  if (deliveries.count === max) return false;
  const attempts = await sql`
    DELETE FROM webhook_attempts WHERE delivery_id = ANY (ARRAY(
      SELECT delivery_id FROM webhook_attempts WHERE delivery_id < ${`dlv_${oldTime}`} ORDER BY delivery_id LIMIT ${max}))`;
  if (attempts.count >= max) return false;
  const events = await sql`
    DELETE FROM webhook_events WHERE event_id = ANY (ARRAY(
      SELECT event_id FROM webhook_events WHERE event_id < ${`evt_${oldTime}`} ORDER BY event_id LIMIT ${max}))`;
  return events.count < max;
}
