import { beforeAll, describe, expect, it } from 'vitest';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { dayMs, minuteMs } from '../../shared/model/time.ts';
import { type Chance, chance } from '../support/base/chance.ts';
import { runs } from '../support/base/runs.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { brokenRules, brokenSums } from '../support/service/sound-database.ts';
import { useApi } from '../support/service/use-api.ts';
import { voidPermit } from '../support/service/void-permit.ts';
import { makeWallet, moveToWallet, putWallet, walletOf } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));

interface Line {
  readonly passport_id: string;
  readonly gate_id: string | null;
  readonly permission_key: string | null;
  readonly spent_usd: number;
  readonly requests: number;
}

const time = (ms: number) => new Date(api.deps.clock.now() + ms).toISOString();
const period = () => `since=${time(-2 * dayMs)}&until=${time(dayMs)}`;
const read = (id: string, query: string) => api.call({ url: `/v1/wallets/${id}/statement?${query}` });

/** The whole statement, page by page, each with the totals of all. */
async function stated(id: string, limit: number): Promise<{ readonly usd: number; readonly lines: Line[] }> {
  const query = `${period()}&limit=${limit}`;
  const lines: Line[] = [];
  let page: string | null = null;
  let usd = 0;
  let requests = 0;
  do {
    const { body, status } = await read(id, page === null ? query : `${query}&page=${page}`);
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.items.length).toBeLessThanOrEqual(limit);
    lines.push(...body.items);
    usd = body.total_usd;
    requests = body.total_requests;
    page = body.next_page;
  } while (page !== null);
  expect(lines.reduce((sum, line) => sum + line.requests, 0)).toBe(requests);
  return { usd, lines };
}

const micro = (usd: number): number => Math.round(usd * 1e6);

/** The same from the records as anybody reads them, by the rules of contract §19 alone. */
async function summed(wallets: ReadonlySet<string>, passports: readonly string[]): Promise<Line[]> {
  const lines = new Map<string, Line>();
  for (const passport of passports) {
    const { body } = await api.call({ url: `/v1/attestations?passport_id=${passport}&limit=500` });
    const records: Reply['body'][] = body.attestations;
    for (const record of records) {
      if (record.decision !== 'PERMIT' || record.resolution !== null || !wallets.has(record.wallet_id))
        continue;
      // Newest first.
      const last = records.find(({ refers_to }) => refers_to === record.id) ?? record;
      if (last.resolution === 'voided') continue;
      const { gate_id, permission_key } = record;
      const name = `${passport} ${gate_id} ${permission_key}`;
      const before = lines.get(name);
      lines.set(name, {
        ...{ passport_id: passport, gate_id, permission_key },
        spent_usd: ((before?.spent_usd ?? 0) * 1e6 + last.amount_micro_usd) / 1e6,
        requests: (before?.requests ?? 0) + 1,
      });
    }
  }
  return [...lines.values()];
}

const sorted = (lines: readonly Line[]) =>
  lines
    .map((line) => ({ ...line, spent_usd: micro(line.spent_usd) }))
    .sort((one, next) => (JSON.stringify(one) < JSON.stringify(next) ? -1 : 1));

interface World {
  readonly wallets: readonly string[];
  readonly gates: readonly string[];
  readonly passports: readonly Reply['body'][];
  /** Of all PERMITs so far. */
  readonly permits: string[];
}

/** Two trees; nothing in them is ever full. */
async function plant(): Promise<World> {
  const limits = { total_usd: 10_000, daily_usd: 9_000 };
  const wallets: string[] = [];
  for (const parent of [null, 0, 1, null]) {
    const parent_wallet_id = parent === null ? null : wallets[parent];
    wallets.push((await makeWallet(api, { parent_wallet_id, limits })).wallet_id);
  }
  const gates = [];
  for (const holds of [{ on_expiry: 'release' }, { on_expiry: 'settle', overrun: 'charge' }])
    gates.push((await api.createGate({ constraints: { holds } })).gate_id);
  const passports = [];
  for (const wallet of wallets)
    passports.push(await api.issuePassport({ wallet_id: wallet, permissions: ['orders:*'] }));
  return { wallets, gates, passports, permits: [] };
}

async function step(world: World, random: Chance): Promise<void> {
  const { wallets, gates, passports, permits } = world;
  const kind = random.pick([
    'check',
    'check',
    'hold',
    'hold',
    'outcome',
    'refund',
    'extend',
    'void',
    'move',
    'expire',
  ]);
  const permit = permits.length === 0 ? null : random.pick(permits);
  const at = (path: string, body: object) => api.call({ url: `/v1/attestations/${permit}/${path}`, body });
  const amount = random.below(5_000_000) / 1e6;
  if (kind === 'check' || kind === 'hold') {
    const permission_key = random.pick(['orders:create', 'orders:change']);
    const hold = kind === 'hold' ? { hold: { expires_in_s: 60 } } : {};
    // A key, so that a void finds a settlement.
    const request = { permission_key, amount, ...hold, idempotency_key: `key-${permits.length}-${amount}` };
    const body = { passport: random.pick(passports).jwt, request };
    const reply = await api.call({ url: `/v1/gates/${random.pick(gates)}/check`, body });
    if (reply.body.decision === 'PERMIT') permits.push(reply.body.attestation_id);
  } else if (kind === 'move') {
    const wallet = random.pick([...wallets, null]);
    await moveToWallet(api, random.pick(passports).passport_id, wallet);
  } else if (kind === 'expire') {
    api.advance(random.below(minuteMs));
    await expireHolds(api.deps);
  } else if (permit === null) return;
  else if (kind === 'outcome') {
    const served = { outcome: 'served', amount: amount / 2 };
    await at('outcome', random.pick([served, { outcome: 'failed' }, { outcome: 'served' }]));
  } else if (kind === 'refund') await at('refund', random.pick([{}, { amount: amount / 10 }]));
  else if (kind === 'extend') await at('hold/extend', { expires_in_s: 3_600 });
  else await voidPermit(api, permit);
}

/** What each wallet says is what the records say, and its windows have the same money. */
async function expectSame(world: World, limit: number): Promise<void> {
  const ids = world.passports.map(({ passport_id }) => passport_id);
  const [root = '', middle = '', low = '', single = ''] = world.wallets;
  for (const below of [[root, middle, low], [middle, low], [low], [single]]) {
    const [id = ''] = below;
    const { usd, lines } = await stated(id, limit);
    expect(sorted(lines)).toEqual(sorted(await summed(new Set(below), ids)));
    expect(lines.map(({ passport_id }) => passport_id)).toEqual(lines.map((each) => each.passport_id).sort());
    expect(micro(usd)).toBe(lines.reduce((sum, { spent_usd }) => sum + micro(spent_usd), 0));
    const { total_usd: total } = (await walletOf(api, id)).usage;
    expect(micro(total.used) + micro(total.held)).toBe(micro(usd));
    expect(micro(total.used) + micro(total.held) + micro(total.remaining)).toBe(micro(total.limit));
  }
  expect(await brokenSums(api.deps.sql)).toEqual([]);
  expect(await brokenRules(api.deps.sql)).toEqual({});
}

describe('the statement of a wallet', () => {
  it('is the sum of its records, whatever becomes of them and of their passports', async () => {
    for (let run = 0; run < runs({ short: 1, long: 60 }); run++) {
      const seed = Math.floor(Math.random() * 2 ** 32);
      const random = chance(seed);
      const world = await plant();
      try {
        for (let steps = 0; steps < 45; steps++) await step(world, random);
        expect(world.permits.length).toBeGreaterThan(5);
        await expectSame(world, 1 + random.below(4));
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
    }
  });

  it('follows the wallet that each record names, also when that has another place by now', async () => {
    const { wallet_id: old } = await makeWallet(api, { limits: { total_usd: 100 } });
    const { wallet_id: next } = await makeWallet(api, { limits: { total_usd: 100 } });
    const { wallet_id: leaf } = await makeWallet(api, { parent_wallet_id: old });
    const passport = await api.issuePassport({ wallet_id: leaf });
    const { gate_id } = await api.createGate();
    const request = { permission_key: 'orders:create', amount: 5, hold: true };
    const check = { url: `/v1/gates/${gate_id}/check`, body: { passport: passport.jwt, request } };
    const { attestation_id: id } = (await api.call(check)).body;
    await putWallet(api, leaf, { parent_wallet_id: next });
    // A statement is by what the tree is now; windows keep what was taken from them.
    expect((await stated(next, 10)).usd).toBe(5);
    expect((await walletOf(api, old)).usage.total_usd).toMatchObject({ used: 0, held: 5 });
    expect((await walletOf(api, next)).usage.total_usd).toMatchObject({ used: 0, held: 0 });
    await api.call({ url: `/v1/attestations/${id}/outcome`, body: { outcome: 'served', amount: 2 } });
    expect((await walletOf(api, old)).usage.total_usd).toMatchObject({ used: 2, held: 0 });
    expect((await stated(next, 10)).usd).toBe(2);
    const tomorrow = await read(next, `since=${time(dayMs)}&until=${time(2 * dayMs)}`);
    expect(tomorrow.body).toMatchObject({ total_usd: 0, items: [] });
    expect(await brokenSums(api.deps.sql)).toEqual([]);
  });

  it('refuses times and places that are none', async () => {
    const { wallet_id: id } = await makeWallet(api, {});
    const since = 'since=2026-11-01T00:00:00Z';
    expectError(await read(id, `${since}&until=2026-12-04T00:00:00Z`), 'invalid_request', 'until');
    expectError(await read(id, `${since}&until=2026-10-01T00:00:00Z`), 'invalid_request', 'until');
    expectError(await read(id, 'since=1&until=2026-10-01T00:00:00Z'), 'invalid_request', 'since');
    expectError(await read(id, since), 'invalid_request', 'until');
    for (const limit of ['0', '1001', 'x'])
      expectError(await read(id, `${period()}&limit=${limit}`), 'invalid_request', 'limit');
    const forged = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const page of ['x', forged(7), forged(['a', 1, null]), forged(['a\u0000', null, null])])
      expectError(await read(id, `${period()}&page=${page}`), 'invalid_request', 'page');
    const { status, body } = await read(id, `${period()}&page=${forged(['a', null, null])}`);
    expect([status, body.items, body.next_page]).toEqual([200, [], null]);
    const stranger = await api.createAccount();
    const url = `/v1/wallets/${id}/statement?${period()}`;
    expectError(await api.call({ url, key: stranger.key }), 'wallet_not_found');
  });
});
