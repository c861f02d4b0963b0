import { afterAll, beforeAll, expect, it } from 'vitest';
import { insertSettlements } from '../../control-plane/decisions/settlement-store.ts';
import type { AttestationId, GateId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';

let database: TestDatabase;
beforeAll(async () => {
  database = await testDatabase();
});
afterAll(() => database.drop());

const nowMs = Date.now() as UnixMillis;
const old = 3 * limits.settlementsPerCallMax;
const longAgoMs = nowMs - 60 * dayMs;

const settlement = (n: number) => ({
  id: `att_new_${n}` as AttestationId,
  key: { passportId: 'pass_1' as PassportId, scopeId: 'gate_1' as GateId, idempotencyKey: `key ${n}` },
  requestHash: '',
  answer: { constraintsEvaluated: [], pii: [] },
  source: 'control-plane' as const,
  readerId: `att_reader_${n}` as AttestationId,
  took: [],
  held: [],
});

it.each([1, limits.settlementsPerCallMax])(
  'old settlements go faster than %i come at once',
  async (count) => {
    const { sql } = database;
    await sql`DELETE FROM settlements`;
    await sql`INSERT INTO settlements (settlement_id, source, is_answered, expires_at_ms)
    SELECT 'att_old_' || n, 'control-plane', false, ${longAgoMs}::bigint + n FROM generate_series(1, ${old}) n`;
    const added = Array.from({ length: count }, (_, n) => settlement(n));
    await sql.begin((tx) => insertSettlements(tx, added, nowMs));
    const [left] = await sql<{ count: number }[]>`SELECT count(*) FROM settlements`;
    expect(left?.count).toBeLessThan(old);
  },
);
