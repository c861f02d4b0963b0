import { randomBytes } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { beforeAll, expect, it } from 'vitest';
import { takeSnapshot } from '../../control-plane/sync/take-snapshot.ts';
import { textHash } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { parseSignedSnapshot } from '../../shared/wire/sync/sync-schema.ts';
import { measureStall } from '../support/base/machine-stall.ts';
import { expectWithin } from '../support/base/time-promise.ts';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/** The snapshot of an account with large catalogs, beside everything else that its replica does. */
const api = useApi(startOwnApi);
let accountId: AccountId;
const gates = 600;

beforeAll(async () => {
  const made = await api.createAccount();
  accountId = made.accountId as AccountId;
  const gate = await api.createGate({}, made.key);
  const prices = Object.fromEntries(
    Array.from({ length: 1_000 }, () => [`${randomBytes(12).toString('hex')}:read`, { unit_price_usd: 1 }]),
  );
  await api.deps.sql`
    UPDATE gates SET catalog_prices = ${JSON.stringify(prices)}::text::jsonb WHERE gate_id = ${gate.gate_id}`;
  const columns = await api.deps.sql<{ name: string }[]>`
    SELECT column_name AS name FROM information_schema.columns
    WHERE table_name = 'gates' AND is_generated = 'NEVER' AND column_name <> 'gate_id' ORDER BY 1`;
  const copied = columns.map(({ name }) => `"${name}"`).join(', ');
  await api.deps.sql.unsafe(
    `INSERT INTO gates (gate_id, ${copied}) SELECT left(gate_id, -6) || lpad(i::text, 6, '0'), ${copied}
      FROM gates, generate_series(2, ${gates}) AS i WHERE gate_id = $1`,
    [gate.gate_id],
  );
});

/** The longest that the event loop stood still meanwhile. */
async function longestStall(work: () => unknown): Promise<{ ms: number }> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await new Promise((resolve) => setTimeout(resolve, 20));
  await work();
  await new Promise((resolve) => setTimeout(resolve, 20));
  delay.disable();
  return { ms: delay.max / 1e6 };
}

it('is read, hashed and written in slices, and other work has its turns between', async () => {
  const parts = await takeSnapshot(api.deps, accountId);
  const body = Buffer.concat(parts).toString();
  const signed = must(parseSignedSnapshot(body), 'it is a signed snapshot');
  const state = JSON.parse(signed.snapshot);
  expect(state.gates).toHaveLength(gates);
  expect(new Set(state.gates.map((gate: { gate_id: string }) => gate.gate_id)).size).toBe(gates);
  expect(Math.max(...parts.map(({ length }) => length))).toBeLessThan(body.length / 8);
  // Control: the same work in one go, without what the driver does for it.
  const whole = await longestStall(() => {
    const text = JSON.stringify(JSON.parse(signed.snapshot));
    return [textHash(text), Buffer.from(JSON.stringify({ ...signed, snapshot: text }))];
  });
  await expectWithin(whole.ms / 2, 'other work has its turn', async () => {
    const stalledMs = measureStall();
    const { ms } = await longestStall(() => takeSnapshot(api.deps, accountId));
    return { ms, stalledMs: stalledMs() };
  });
});
