import { expect, it } from 'vitest';
import { insertSettlements } from '../../control-plane/decisions/claim-settlements.ts';
import { writeVoids } from '../../control-plane/decisions/withdraw-settlements.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import { newSettlement } from '../support/data/new-settlement.ts';
import { useDatabase } from '../support/database/use-database.ts';

const database = useDatabase();

const nowMs = Date.now() as UnixMillis;
const old = 3 * limits.settlementsPerCallMax;
const longAgoMs = nowMs - 60 * dayMs;

it.each([1, limits.settlementsPerCallMax])(
  'old settlements go faster than %i come at once',
  async (count) => {
    const { sql } = database;
    await sql`DELETE FROM settlements`;
    await sql`INSERT INTO settlements (settlement_id, source, is_answered, expires_at_ms)
    SELECT 'att_old_' || n, 'control-plane', false, ${longAgoMs}::bigint + n FROM generate_series(1, ${old}) n`;
    const added = Array.from({ length: count }, (_, n) => newSettlement(`new_${n}`, `${n}`));
    await sql.begin((tx) => insertSettlements(tx, added, nowMs));
    const [left] = await sql<{ count: number }[]>`SELECT count(*) FROM settlements`;
    expect(left?.count).toBeLessThan(old);
  },
);

it('old settlements go as voids come, faster than they do', async () => {
  const { sql } = database;
  await sql`DELETE FROM settlements`;
  await sql`INSERT INTO settlements (settlement_id, source, is_answered, expires_at_ms)
    SELECT 'att_old_' || n, 'control-plane', false, ${longAgoMs}::bigint + n FROM generate_series(1, ${old}) n`;
  const ids = Array.from({ length: 100 }, (_, n) => `att_void_${n}` as AttestationId);
  await sql.begin((tx) => writeVoids(tx, 'control-plane', ids, nowMs));
  const [left] = await sql<{ count: number }[]>`SELECT count(*) FROM settlements`;
  expect(left?.count).toBeLessThan(old);
});
