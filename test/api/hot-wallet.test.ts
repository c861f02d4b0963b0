import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { must } from '../../shared/errors/assert.ts';
import { until } from '../support/base/until.ts';
import { standingStill } from '../support/database/standing-still.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';
import { holdersOf, untilServed, walletTree } from '../support/service/wallet-tree.ts';

/** One root wallet on which everything draws, while its row of the ledger is locked by somebody else. */
const api = useApi(startOwnApi);
let other: Database;
beforeAll(() => {
  goToNoon(api);
  other = connect({ url: api.databaseUrl, connectionsMax: 2 });
});
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
  await other?.end({ timeout: 1 });
});

const usd = 1_000_000;

it('a call that comes twice, or whose answer was late, leases once', async () => {
  const tree = await walletTree(api, other, 100);
  const [holder] = await holdersOf(api, api.adminKey, 1);
  if (holder === undefined) throw new Error('there is one');
  const ask = (seq: number) => holder.call(tree.asks(usd), [], { seq });
  await tree.whileHeld(async (isWaitedFor) => {
    const copies = [ask(1), ask(1), ask(1)];
    await until(isWaitedFor, { what: 'a copy waits for the root' });
    for (const reply of await Promise.all(copies)) expectError(reply, 'overloaded');
  });
  const copies = await Promise.all([1, 1, 1].map((seq) => untilServed(() => ask(seq))));
  for (const { body } of copies) {
    expect(body.grants.map(({ left_ms, ...grant }: { left_ms: number }) => grant)).toEqual(
      copies[0]?.body.grants.map(({ left_ms, ...grant }: { left_ms: number }) => grant),
    );
  }
  expect(await tree.leased()).toEqual([usd, usd, usd, usd]);
  expect((await untilServed(() => ask(2))).status).toBe(200);
  expect(await tree.leased()).toEqual([2 * usd, 2 * usd, 2 * usd, 2 * usd]);
  // A copy of the first that was on its way all the time moves nothing any more.
  expect((await untilServed(() => ask(1))).body.error.code).toBe('holder_unknown');
  expect(await tree.leased()).toEqual([2 * usd, 2 * usd, 2 * usd, 2 * usd]);
});

it('a decision is of the moment in which it began, and may take what came back after that', async () => {
  const tree = await walletTree(api, other, 10);
  const { gate_id: gateId } = await api.createGate();
  const url = `/v1/gates/${gateId}/check`;
  const asking = ({ jwt }: Reply['body'], more = {}) => ({
    passport: jwt,
    request: { permission_key: 'orders:create', amount: 8, ...more },
  });
  const [first, second] = [tree.passport, await api.issuePassport({ wallet_id: tree.passport.wallet_id })];
  const { body: held } = await api.call({ url, body: asking(first, { hold: { expires_in_s: 600 } }) });
  expect(held.decision).toBe('PERMIT');
  const still = standingStill(other, ['FROM quota_windows'], { isBefore: true });
  const slow = await secondControlPlane(api, still.sql);
  const late = slow.call(url, asking(second));
  await until(() => still.stood.length === 1, { what: 'it has its moment' });
  const settled = `/v1/attestations/${held.attestation_id}/outcome`;
  expect((await api.call({ url: settled, body: { outcome: 'served', amount: 2 } })).status).toBe(200);
  still.goOn();
  const { body: permit } = await late;
  expect(permit.decision).toBe('PERMIT');
  const [[decided], [charged]] = await Promise.all([
    api.deps.sql<{ atMs: number }[]>`
      SELECT timestamp_ms AS "atMs" FROM attestations WHERE attestation_id = ${permit.attestation_id}`,
    api.deps.sql<{ atMs: number }[]>`
      SELECT timestamp_ms AS "atMs" FROM attestations WHERE refers_to = ${held.attestation_id}`,
  ]);
  expect(must(decided, 'it is on record').atMs).toBeLessThanOrEqual(must(charged, 'it is settled').atMs);
  await slow.close();
});
