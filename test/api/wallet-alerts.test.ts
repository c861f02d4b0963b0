import { beforeAll, describe, expect, it } from 'vitest';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { makeWallet, putWallet, walletOf } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
let gateId: string;
beforeAll(() => goToNoon(api));
const sidecar = useSidecar(() => ({ api, quotaWaitMs: 1_000 }));
beforeAll(async () => {
  gateId = (await api.createGate()).gate_id;
  await subscribe(api.adminKey);
});

/** Nothing is sent where there is no address: the events wait. */
async function subscribe(key: string): Promise<void> {
  const body = { url: null, events: ['spend_limit.approaching'] };
  expect((await api.call({ url: '/v1/webhooks', key, body })).status).toBe(201);
}

/** What was told about a wallet, in order. */
async function alertsOf(walletId: string): Promise<Reply['body'][]> {
  const rows = await api.deps.sql<{ body: string }[]>`
    SELECT body FROM webhook_events WHERE event = 'spend_limit.approaching' ORDER BY event_id`;
  return rows.map(({ body }) => JSON.parse(body).data).filter((data) => data.wallet_id === walletId);
}

const inWallet = (walletId: string) => api.issuePassport({ wallet_id: walletId });
const request = (amount: number, rest: object = {}) => ({ permission_key: 'orders:create', amount, ...rest });
async function spend(passport: Reply['body'], amount: number, rest: object = {}): Promise<string> {
  const body = { passport: passport.jwt, request: request(amount, rest) };
  const reply = await api.call({ url: `/v1/gates/${gateId}/check`, body });
  expect(reply.body, JSON.stringify(reply.body)).toMatchObject({ decision: 'PERMIT' });
  return reply.body.attestation_id;
}

describe('spend_limit.approaching of a wallet', () => {
  it('is sent once for each limit and window, by each wallet of the path for itself', async () => {
    const root = await makeWallet(api, { limits: { monthly_usd: 40, total_usd: 10 } });
    const { wallet_id: leaf } = await makeWallet(api, {
      ...{ parent_wallet_id: root.wallet_id, limits: { daily_usd: 10 }, alert_at: 0.5 },
    });
    const passport = await inWallet(leaf);
    await spend(passport, 4.999999);
    expect(await alertsOf(leaf)).toEqual([]);
    await spend(passport, 0.000001);
    const alert = {
      ...{ gate_id: null, passport_id: null, wallet_id: leaf, window: 'day' },
      ...{ limit_usd: 10, spent_usd: 5, fraction: 0.5 },
    };
    expect(await alertsOf(leaf)).toEqual([alert]);
    expect(await alertsOf(root.wallet_id)).toEqual([]);
    await spend(passport, 3);
    await spend(passport, 1);
    expect(await alertsOf(leaf)).toEqual([alert]);
    expect(await alertsOf(root.wallet_id)).toMatchObject([
      { window: 'total', limit_usd: 10, spent_usd: 8, fraction: 0.8 },
    ]);
  });

  it('counts what is held, and what is charged beyond a hold; what came back raises none again', async () => {
    const { wallet_id: id } = await makeWallet(api, { limits: { daily_usd: 10 } });
    const passport = await inWallet(id);
    const { gate_id } = await api.createGate({ constraints: { holds: { overrun: 'charge' } } });
    const hold = async (amount: number) => {
      const body = { passport: passport.jwt, request: request(amount, { hold: true }) };
      return (await api.call({ url: `/v1/gates/${gate_id}/check`, body })).body.attestation_id;
    };
    const report = (record: string, body: object) =>
      api.call({ url: `/v1/attestations/${record}/outcome`, body });
    const first = await hold(7);
    expect(await alertsOf(id)).toEqual([]);
    await report(first, { outcome: 'served', amount: 8 });
    expect(await alertsOf(id)).toMatchObject([{ spent_usd: 8 }]);
    await api.call({ url: `/v1/attestations/${first}/refund`, body: {} });
    await hold(9);
    expect(await alertsOf(id)).toHaveLength(1);
    const { wallet_id: next } = await makeWallet(api, { limits: { daily_usd: 10 } });
    const held = await inWallet(next);
    await spend(held, 8, { hold: true });
    expect(await alertsOf(next)).toMatchObject([{ spent_usd: 8 }]);
    expect((await walletOf(api, next)).usage.daily_usd).toMatchObject({ used: 0, held: 8 });
  });

  it('is sent when the limit or alert_at is lowered below what is spent, once', async () => {
    const { wallet_id: id } = await makeWallet(api, { limits: { daily_usd: 100, total_usd: 1_000 } });
    await spend(await inWallet(id), 20);
    expect(await alertsOf(id)).toEqual([]);
    expect((await putWallet(api, id, { name: 'another' })).status).toBe(200);
    expect((await putWallet(api, id, { limits: { daily_usd: 26 } })).status).toBe(200);
    expect(await alertsOf(id)).toEqual([]);
    await putWallet(api, id, { limits: { daily_usd: 25 } });
    expect(await alertsOf(id)).toMatchObject([
      { window: 'day', limit_usd: 25, spent_usd: 20, fraction: 0.8 },
    ]);
    await putWallet(api, id, { limits: { daily_usd: 10 } });
    expect(await alertsOf(id)).toHaveLength(1);
    await putWallet(api, id, { alert_at: 0.02 });
    expect(await alertsOf(id)).toMatchObject([{ window: 'day' }, { window: 'total', fraction: 0.02 }]);
  });

  it('is not sent of a limit of 0, nor before anything is spent', async () => {
    const { wallet_id: id } = await makeWallet(api, { limits: { daily_usd: 10 }, alert_at: 0.001 });
    const passport = await inWallet(id);
    await spend(passport, 0);
    expect(await alertsOf(id)).toEqual([]);
    await putWallet(api, id, { limits: { total_usd: 0 } });
    expect(await alertsOf(id)).toEqual([]);
    await putWallet(api, id, { limits: { total_usd: null } });
    await spend(passport, 0.01);
    expect(await alertsOf(id)).toMatchObject([{ window: 'day', spent_usd: 0.01 }]);
  });

  it('is sent for what sidecars permit, to the account of the wallet alone', async () => {
    const { wallet_id: id } = await makeWallet(api, { limits: { daily_usd: 10 } });
    const passport = await inWallet(id);
    const stranger = (await api.createAccount()).key;
    await subscribe(stranger);
    const foreign = await startTestSidecar({ api, quotaWaitMs: 1_000, accountKey: stranger });
    try {
      const { gate_id } = await api.createGate({ constraints: { trusted_issuers: ['*'] } }, stranger);
      await sidecar.caughtUp();
      await foreign.caughtUp();
      const permit = async (from: TestSidecar, at: string, key: string, n: number) => {
        const { body } = await untilAnswer(
          () => from.check(at, passport.jwt, request(4, { n }), key),
          (reply) => !isPassing(reply),
          { what: 'an answer that stays' },
        );
        expect(body).toMatchObject({ decision: 'PERMIT' });
      };
      await permit(sidecar, gateId, api.adminKey, 1);
      await permit(foreign, gate_id, stranger, 2);
      await until(async () => (await alertsOf(id)).length > 0, { what: 'an alert' });
      expect(await alertsOf(id)).toMatchObject([{ spent_usd: 8, fraction: 0.8 }]);
      const told = await api.deps.sql`
        SELECT w.account_id FROM webhook_deliveries d JOIN webhooks w USING (webhook_id)
        JOIN webhook_events e USING (event_id) WHERE e.body LIKE ${`%${id}%`}`;
      expect(told).toHaveLength(1);
    } finally {
      await foreign.close();
      foreign.removeFolder();
    }
  });
});
