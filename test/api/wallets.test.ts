import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet, putWallet, setFrozen, walletOf } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
afterAll(async () => expect(await brokenRules(api.deps.sql)).toEqual({}));

const buy = (amount: number, rest: object = {}) => ({ permission_key: 'orders:create', amount, ...rest });

/** A gate without limits, and what a passport asks there. */
async function at(passport: Reply['body'], constraints: object = {}) {
  const gate = await api.createGate({ constraints });
  const ask = async (amount: number, rest: object = {}): Promise<Reply['body']> => {
    const request = buy(amount, rest);
    const reply = await api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: passport.jwt, request },
    });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    return reply.body;
  };
  return { gate, ask };
}

const inWallet = (walletId: string, body: object = {}) => api.issuePassport({ wallet_id: walletId, ...body });
const usage = async (id: string) => (await walletOf(api, id)).usage;

describe('a tree of wallets', () => {
  it('takes from every wallet up to the root, or from none', async () => {
    const company = await makeWallet(api, { limits: { monthly_usd: 100 } });
    const team = await makeWallet(api, { parent_wallet_id: company.wallet_id, limits: { daily_usd: 60 } });
    const agent = await makeWallet(api, {
      parent_wallet_id: team.wallet_id,
      limits: { total_usd: 50, requests_per_day: 4 },
    });
    expect(agent.path).toEqual([company.wallet_id, team.wallet_id, agent.wallet_id]);
    const { ask } = await at(await inWallet(agent.wallet_id));
    expect(await ask(20)).toMatchObject({
      decision: 'PERMIT',
      constraints_evaluated: expect.arrayContaining(['spend_limit', 'rate_limit']),
    });
    expect(await ask(25)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(5.000001)).toMatchObject({
      ...{ decision: 'BLOCK', reason: 'wallet_limit_exceeded', wallet_id: agent.wallet_id },
      ...{
        limit: 50,
        used: 45,
        requested: 5.000001,
        reset_at: null,
        retry: { retryable: false, after_ms: null },
      },
    });
    expect((await usage(company.wallet_id)).monthly_usd).toMatchObject({
      limit: 100,
      used: 45,
      remaining: 55,
    });
    expect((await usage(team.wallet_id)).daily_usd).toMatchObject({ used: 45, remaining: 15 });
    expect(await usage(agent.wallet_id)).toMatchObject({
      total_usd: { used: 45, held: 0, leased: 0, reserved: 0, remaining: 5, reset_at: null },
      requests_per_day: { limit: 4, used: 2, remaining: 2 },
    });
    expect(await ask(0)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(5)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(0)).toMatchObject({ reason: 'wallet_limit_exceeded', limit: 4, used: 4, requested: 1 });
  });

  it('demands an amount where it limits money, whatever the gate says', async () => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 5 } });
    const { gate } = await at(await inWallet(wallet.wallet_id), { spend_limits: { unpriced: 'permit' } });
    const passport = await inWallet(wallet.wallet_id);
    const url = `/v1/gates/${gate.gate_id}/check`;
    const reply = await api.call({
      url,
      body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
    });
    expect(reply.body).toMatchObject({ decision: 'BLOCK', reason: 'amount_missing' });
  });

  it('keeps what is reserved for its child, and the child to it', async () => {
    const parent = await makeWallet(api, { limits: { daily_usd: 100 } });
    const under = (body: object) => makeWallet(api, { parent_wallet_id: parent.wallet_id, ...body });
    const child = await under({ limits: { daily_usd: 40 }, share: 'reserved' });
    const sibling = await under({});
    const reserved = await at(await inWallet(child.wallet_id));
    const pot = await at(await inWallet(sibling.wallet_id));
    expect(await pot.ask(60.000001)).toMatchObject({
      reason: 'wallet_limit_exceeded',
      limit: 60,
      wallet_id: parent.wallet_id,
    });
    expect(await pot.ask(60)).toMatchObject({ decision: 'PERMIT' });
    expect(await pot.ask(0.000001)).toMatchObject({ reason: 'wallet_limit_exceeded' });
    expect((await usage(parent.wallet_id)).daily_usd).toMatchObject({ used: 60, reserved: 40, remaining: 0 });
    expect(await reserved.ask(40.000001)).toMatchObject({
      reason: 'wallet_limit_exceeded',
      wallet_id: child.wallet_id,
    });
    expect(await reserved.ask(40)).toMatchObject({ decision: 'PERMIT' });
    expect((await usage(parent.wallet_id)).daily_usd).toMatchObject({ used: 100, reserved: 0, remaining: 0 });
  });

  it('never passes a wallet whose children set aside what is used already', async () => {
    const parent = await makeWallet(api, { limits: { total_usd: 100 } });
    const pot = await at(await inWallet(parent.wallet_id));
    expect(await pot.ask(70)).toMatchObject({ decision: 'PERMIT' });
    const child = await makeWallet(api, {
      ...{ parent_wallet_id: parent.wallet_id, limits: { total_usd: 50 }, share: 'reserved' },
    });
    const reserved = await at(await inWallet(child.wallet_id));
    expect(await reserved.ask(31)).toMatchObject({ reason: 'wallet_limit_exceeded' });
    expect(await reserved.ask(30)).toMatchObject({ decision: 'PERMIT' });
    expect(await reserved.ask(1)).toMatchObject({ reason: 'wallet_limit_exceeded' });
    expect(await pot.ask(1)).toMatchObject({ reason: 'wallet_limit_exceeded' });
    // Moved away, what it took stays taken; it brings along what it has left.
    const elsewhere = await makeWallet(api, { limits: { total_usd: 15 } });
    expect(
      (await putWallet(api, child.wallet_id, { share: 'pot', parent_wallet_id: elsewhere.wallet_id })).status,
    ).toBe(200);
    expect(await reserved.ask(15.000001)).toMatchObject({
      reason: 'wallet_limit_exceeded',
      wallet_id: elsewhere.wallet_id,
    });
    expect(await reserved.ask(15)).toMatchObject({ decision: 'PERMIT' });
    expect((await usage(parent.wallet_id)).total_usd).toMatchObject({ used: 100, remaining: 0 });
    expect(await pot.ask(1)).toMatchObject({ reason: 'wallet_limit_exceeded' });
  });

  it('refuses circles, a sixth level, and reserves beyond the parent', async () => {
    const chain = [await makeWallet(api, { limits: { daily_usd: 10 } })];
    for (let i = 0; i < 4; i++)
      chain.push(await makeWallet(api, { parent_wallet_id: chain.at(-1)?.wallet_id }));
    const [root = '', second = '', , , fifth = ''] = chain.map(({ wallet_id }) => wallet_id as string);
    const make = (parent: string) =>
      api.call({ url: '/v1/wallets', body: { name: 'x', parent_wallet_id: parent } });
    expectError(await make(fifth), 'invalid_request', 'parent_wallet_id');
    const top = await makeWallet(api, {});
    for (const parent of [fifth, root, top.wallet_id])
      expectError(
        await putWallet(api, root, { parent_wallet_id: parent }),
        'invalid_request',
        'parent_wallet_id',
      );
    const reserve = (daily_usd: number) =>
      putWallet(api, second, { share: 'reserved', limits: { daily_usd } });
    expectError(await reserve(11), 'invalid_request', 'limits.daily_usd');
    expect((await reserve(8)).status).toBe(200);
    const lowered = await putWallet(api, root, { limits: { daily_usd: 7 } });
    expectError(lowered, 'invalid_request', 'limits.daily_usd');
    expectError(await api.call({ method: 'DELETE', url: `/v1/wallets/${root}` }), 'invalid_request');
    expectError(await make('wal_01m7w739pyh5af5epc0s64v3bj'), 'wallet_not_found', 'parent_wallet_id');
  });

  it('freezes all below, and lets them go on', async () => {
    const root = await makeWallet(api, {});
    const leaf = await makeWallet(api, { parent_wallet_id: root.wallet_id });
    const { ask } = await at(await inWallet(leaf.wallet_id));
    expect(await ask(1)).toMatchObject({ decision: 'PERMIT' });
    expect((await setFrozen(api, root.wallet_id, 'freeze')).body).toMatchObject({ status: 'frozen' });
    expect(await ask(1)).toMatchObject({
      decision: 'BLOCK',
      reason: 'wallet_frozen',
      retry: { retryable: false },
    });
    await setFrozen(api, root.wallet_id, 'unfreeze');
    expect(await ask(1)).toMatchObject({ decision: 'PERMIT' });
  });

  it('is moved between by a passport, whose numbers strangers do not learn', async () => {
    const [one, two] = [
      await makeWallet(api, { limits: { daily_usd: 1 } }),
      await makeWallet(api, { limits: { daily_usd: 2 } }),
    ];
    const passport = await api.issuePassport({});
    const { ask } = await at(passport);
    expect(await ask(5)).toMatchObject({ decision: 'PERMIT' });
    expect((await moveToWallet(api, passport.passport_id, one.wallet_id)).body).toMatchObject({
      wallet_id: one.wallet_id,
    });
    expect(await ask(2)).toMatchObject({ reason: 'wallet_limit_exceeded' });
    expect(await ask(1)).toMatchObject({ decision: 'PERMIT' });
    await moveToWallet(api, passport.passport_id, two.wallet_id);
    expect(await ask(2)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(1)).toMatchObject({ reason: 'wallet_limit_exceeded', wallet_id: two.wallet_id });
    const stranger = await api.createAccount();
    const gate = await api.createGate({ constraints: { trusted_issuers: ['*'] } }, stranger.key);
    const body = { passport: passport.jwt, request: buy(1) };
    const reply = await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body, key: stranger.key });
    expect(reply.body).toMatchObject({
      decision: 'BLOCK',
      reason: 'wallet_limit_exceeded',
      retry: { retryable: true },
    });
    for (const name of ['limit', 'used', 'requested', 'reset_at', 'wallet_id'])
      expect(reply.body).not.toHaveProperty(name);
    expectError(
      await api.call({ url: `/v1/wallets/${two.wallet_id}`, key: stranger.key }),
      'wallet_not_found',
    );
    await moveToWallet(api, passport.passport_id, null);
    expect(await ask(9)).toMatchObject({ decision: 'PERMIT' });
  });
});

describe('a wallet that programs keep in order', () => {
  it('changes and goes only as it was read; what is used of it is no change', async () => {
    const { wallet_id } = await makeWallet(api, { limits: { daily_usd: 10 } });
    const url = `/v1/wallets/${wallet_id}`;
    const read = async () => String((await api.call({ url })).headers['etag']);
    const first = await read();
    for (const change of [{ method: 'PUT', url }, { url: '/v1/wallets' }])
      expectError(
        await api.call({ ...change, body: { name: 'x', alert_at: 0 } }),
        'invalid_request',
        'alert_at',
      );
    expect(await (await at(await inWallet(wallet_id))).ask(1)).toMatchObject({ decision: 'PERMIT' });
    expect(await read()).toBe(first);
    const put = (tag: string, body: object) =>
      api.call({ method: 'PUT', url, body, headers: { 'if-match': tag } });
    const changed = await put(first, { limits: { daily_usd: 20 } });
    expect(changed.body.limits).toEqual({ daily_usd: 20 });
    expect(changed.headers['etag']).toBe(await read());
    expectError(await put(first, { limits: { daily_usd: 5 } }), 'precondition_failed');
    await setFrozen(api, wallet_id, 'freeze');
    expectError(await put(String(changed.headers['etag']), { share: 'pot' }), 'precondition_failed');
    const frozen = await read();
    const above = await makeWallet(api, {});
    expect((await putWallet(api, wallet_id, { parent_wallet_id: above.wallet_id })).status).toBe(200);
    const moved = await read();
    expect(moved).not.toBe(frozen);
    // What is above its parent is no part of it: a plan that moves a parent may change its children then.
    const top = await makeWallet(api, {});
    await putWallet(api, above.wallet_id, { parent_wallet_id: top.wallet_id });
    expect((await walletOf(api, wallet_id)).path).toHaveLength(3);
    expect(await read()).toBe(moved);
    const empty = (await makeWallet(api, {})).wallet_id;
    const remove = (tag: string) =>
      api.call({ method: 'DELETE', url: `/v1/wallets/${empty}`, headers: { 'if-match': tag } });
    expectError(await remove(first), 'precondition_failed');
    expect((await remove('*')).status).toBe(200);
  });
});
