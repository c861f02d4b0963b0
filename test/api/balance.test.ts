import { beforeAll, expect, it } from 'vitest';
import { checkBalance } from '../../cli/doctor/doctor-balance.ts';
import { findImbalances } from '../../control-plane/book/balance.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { leaseHolder, ofGate, wish } from '../support/service/lease-holder.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet } from '../support/service/wallets.ts';

/** Whether all units that somebody has are given out, and what `agent-trust doctor` says of it. */
const api = useApi(() => startOwnApi({ isDamaged: true }));
let origin: string;
let gateId: GateId;
let jwt: string;

async function check(amount: number, more: object = {}): Promise<string> {
  const request = { permission_key: 'orders:create', amount, ...more };
  const url = `/v1/gates/${gateId}/check`;
  return (await api.call({ url, body: { passport: jwt, request } })).body.attestation_id;
}
const imbalances = () => findImbalances(api.deps.sql, api.deps.clock.now(), 10);
const doctor = (key: string = api.adminKey) => checkBalance({ origin, key });

beforeAll(async () => {
  goToNoon(api);
  origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
  const constraints = {
    spend_limits: { daily_usd: 100 },
    approvals: { above_usd: 20 },
    holds: { overrun: 'charge' },
  };
  ({ gate_id: gateId } = await api.createGate({ constraints }));
  const { wallet_id: root } = await makeWallet(api, { limits: { daily_usd: 100 } });
  const child = { parent_wallet_id: root, share: 'reserved', limits: { daily_usd: 60 } };
  ({ jwt } = await api.issuePassport({ wallet_id: (await makeWallet(api, child)).wallet_id }));
});

it('has each unit that somebody has in a place, wherever it goes', async () => {
  const holder = await leaseHolder(api);
  const [lease] = await holder.lease([wish(ofGate('gate_spend', gateId), 'day', 5_000_000)]);
  await api.deps.sql`INSERT INTO lease_posts VALUES (${lease?.lease_id ?? 0}, 1_000_000)`;
  const served = await check(10, { hold: true });
  await api.call({
    url: `/v1/attestations/${served}/outcome`,
    body: { outcome: 'served', amount: 12 },
  });
  await check(3, { hold: true });
  await check(30);
  expect(await imbalances()).toEqual({ total: 0, windows: [] });
  expect(await doctor()).toMatchObject({ check: 'balance', state: 'ok' });
  await api.deps.sql`UPDATE quota_windows SET leased = 0 WHERE counter = ${`gate_spend:${gateId}`}`;
  const usd = (units: number) => units * 1_000_000;
  const places = { lease: usd(4), used: usd(1), approval: usd(30), hold: usd(3), overrun: usd(2), lanes: 0 };
  expect(await imbalances()).toMatchObject({ total: 1, windows: [{ leased: 0, parts: usd(40), ...places }] });
});

it('fails with the window and its units where units may be given out twice', async () => {
  expect(await doctor()).toMatchObject({
    state: 'fail',
    message: expect.stringMatching(`gate_spend:${gateId} day [0-9]+ .0 given out, 40000000 in use.`),
  });
  expect(await doctor((await api.createKey({ name: 'reader', scopes: ['gates:read'] })).key)).toMatchObject({
    state: 'unknown',
  });
});

it('warns of units of a wallet that no lane has, and judges no window that has ended', async () => {
  const { sql } = api.deps;
  await sql`UPDATE quota_windows SET ends_at_ms = starts_at_ms + 1 WHERE counter = ${`gate_spend:${gateId}`}`;
  expect(await imbalances()).toEqual({ total: 0, windows: [] });
  const [base] = await sql`
    UPDATE quota_windows SET leased = leased + 1 WHERE counter IN (
      SELECT 'wallet_spend:' || wallet_key FROM wallets WHERE parent_id IS NULL) RETURNING leased`;
  expect(await imbalances()).toMatchObject({
    total: 1,
    windows: [{ leased: base?.['leased'], lanes: base?.['leased'] - 1 }],
  });
  expect(await doctor()).toMatchObject({ state: 'warn' });
});
