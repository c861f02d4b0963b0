import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { dayMs, hourMs } from '../../shared/model/time.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { brokenRules, brokenSums } from '../support/service/sound-database.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { voidPermit } from '../support/service/void-permit.ts';
import { makeWallet, moveToWallet, setFrozen, walletOf } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
const sidecar = useSidecar(() => ({ api, quotaWaitMs: 1_000 }));
afterAll(async () => expect(await brokenRules(api.deps.sql)).toEqual({}));

interface Tree {
  readonly root: string;
  readonly team: string;
  readonly agent: string;
  readonly gateId: string;
  readonly passport: Reply['body'];
}

/** Three levels; the team has its money set aside. */
async function plant(constraints: object = {}, limit = 30): Promise<Tree> {
  const { wallet_id: root } = await makeWallet(api, { limits: { total_usd: 100, daily_usd: 80 } });
  const { wallet_id: team } = await makeWallet(api, {
    ...{ parent_wallet_id: root, limits: { daily_usd: 40 }, share: 'reserved' },
  });
  const { wallet_id: agent } = await makeWallet(api, {
    parent_wallet_id: team,
    limits: { daily_usd: limit },
  });
  const { gate_id: gateId } = await api.createGate({ constraints });
  return { root, team, agent, gateId, passport: await api.issuePassport({ wallet_id: agent }) };
}

const request = (amount: number, rest: object) => ({ permission_key: 'orders:create', amount, ...rest });
async function check({ gateId, passport }: Tree, amount: number, rest: object = {}): Promise<Reply['body']> {
  const body = { passport: passport.jwt, request: request(amount, rest) };
  return (await api.call({ url: `/v1/gates/${gateId}/check`, body })).body;
}
async function hold(tree: Tree, amount = 10): Promise<string> {
  const body = await check(tree, amount, { hold: true });
  expect(body).toMatchObject({ decision: 'PERMIT' });
  return body.attestation_id;
}
const post = (id: string, path: string, body: object) =>
  api.call({ url: `/v1/attestations/${id}/${path}`, body });

interface Usage {
  readonly limit: number;
  readonly used: number;
  readonly held: number;
  readonly reserved: number;
  readonly leased: number;
  readonly remaining: number;
}
/** Each limit of money in the tree: two of the root, one of the team and of the agent. */
async function usages({ root, team, agent }: Tree): Promise<readonly Usage[]> {
  const all = [];
  for (const id of [root, team, agent]) all.push(...Object.values<Usage>((await walletOf(api, id)).usage));
  return all;
}
/** What each of them counts; held money is used, too. */
async function used(tree: Tree): Promise<readonly number[]> {
  const all = await usages(tree);
  for (const each of all) {
    expect(each.leased).toBe(0);
    expectWhole(each);
  }
  return all.map((each) => micro(each.used + each.held));
}
const micro = (usd: number): number => Math.round(usd * 1e6) / 1e6;
function expectWhole({ limit, used: gone, held, reserved, leased, remaining }: Usage): void {
  expect(micro(gone + held + reserved + leased + remaining)).toBe(limit);
}
async function expectHeld(tree: Tree, usd: number): Promise<void> {
  expect((await usages(tree)).map((each) => each.held)).toEqual([usd, usd, usd, usd]);
  expect(await brokenSums(api.deps.sql)).toEqual([]);
}
async function stated({ root }: Tree): Promise<number> {
  const time = (ms: number) => new Date(api.deps.clock.now() + ms).toISOString();
  const url = `/v1/wallets/${root}/statement?since=${time(-dayMs)}&until=${time(dayMs)}`;
  return (await api.call({ url })).body.total_usd;
}
/** Every limit, and the statement of the root. */
async function expectCounted(tree: Tree, usd: number): Promise<void> {
  expect(await used(tree)).toEqual([usd, usd, usd, usd]);
  expect(await stated(tree)).toBe(usd);
}

describe('money of a PERMIT that changes later', () => {
  it('is held, settled and refunded in every wallet', async () => {
    const tree = await plant();
    const id = await hold(tree);
    await expectCounted(tree, 10);
    await expectHeld(tree, 10);
    await check(tree, 2);
    await expectHeld(tree, 10);
    await post(id, 'hold/extend', { expires_in_s: 7_200 });
    await expectHeld(tree, 10);
    await expectCounted(tree, 12);
    await post(id, 'outcome', { outcome: 'served', amount: 3.25 });
    await expectCounted(tree, 5.25);
    await expectHeld(tree, 0);
    await post(id, 'refund', { amount: 1 });
    await expectCounted(tree, 4.25);
    await post(id, 'refund', {});
    await expectCounted(tree, 2);
    await expectHeld(tree, 0);
    expect(await check(tree, 28)).toMatchObject({ decision: 'PERMIT' });
    expect(await check(tree, 1)).toMatchObject({ reason: 'wallet_limit_exceeded', wallet_id: tree.agent });
  });

  it('comes back when the service failed, and when the hold ends where the gate says so', async () => {
    const tree = await plant({ holds: { on_expiry: 'release' } });
    await post(await hold(tree), 'outcome', { outcome: 'failed' });
    await expectCounted(tree, 0);
    await expectHeld(tree, 0);
    await hold(tree, 30);
    await expectCounted(tree, 30);
    await expectHeld(tree, 30);
    api.advance(hourMs);
    await until(
      async () => {
        await expireHolds(api.deps);
        return (await stated(tree)) === 0;
      },
      { what: 'the end of the hold' },
    );
    await expectCounted(tree, 0);
    await expectHeld(tree, 0);
    goToNoon(api);
  });

  it('is charged beyond its hold in every wallet, or in none', async () => {
    const tree = await plant({ holds: { overrun: 'charge' } });
    const first = await hold(tree);
    expect((await post(first, 'outcome', { outcome: 'served', amount: 14 })).body.counts_usd).toBe(14);
    await expectCounted(tree, 14);
    const second = await hold(tree);
    expectError(await post(second, 'outcome', { outcome: 'served', amount: 16.01 }), 'spend_limit_exceeded');
    await expectCounted(tree, 24);
    expect((await post(second, 'outcome', { outcome: 'served', amount: 16 })).status).toBe(200);
    await expectCounted(tree, 30);
    await post(first, 'refund', { amount: 12 });
    await expectCounted(tree, 18);
  });

  it('is not charged beyond its hold to a wallet that is frozen or has set the rest aside', async () => {
    const tree = await plant({ holds: { overrun: 'charge' } });
    const id = await hold(tree);
    await setFrozen(api, tree.root, 'freeze');
    expectError(await post(id, 'outcome', { outcome: 'served', amount: 11 }), 'spend_limit_exceeded');
    await setFrozen(api, tree.root, 'unfreeze');
    await makeWallet(api, { parent_wallet_id: tree.agent, limits: { daily_usd: 20 }, share: 'reserved' });
    expectError(await post(id, 'outcome', { outcome: 'served', amount: 11 }), 'spend_limit_exceeded');
    await expectCounted(tree, 10);
    expect((await post(id, 'outcome', { outcome: 'served', amount: 10 })).status).toBe(200);
    await expectCounted(tree, 10);
  });

  it('goes back where it was taken, after its passport has moved', async () => {
    const [tree, other] = [await plant({ holds: { overrun: 'charge' } }), await plant()];
    const [first, second] = [await hold(tree), await hold(tree)];
    await moveToWallet(api, tree.passport.passport_id, other.agent);
    await post(first, 'outcome', { outcome: 'served', amount: 4 });
    expect(await used(tree)).toEqual([14, 14, 14, 14]);
    // What it costs beyond is drawn from the wallets that a new request would draw on.
    await post(second, 'outcome', { outcome: 'served', amount: 12 });
    expect(await used(tree)).toEqual([14, 14, 14, 14]);
    expect(await used(other)).toEqual([2, 2, 2, 2]);
    await expectHeld(tree, 0);
    await expectHeld(other, 0);
    await post(second, 'refund', { amount: 5 });
    expect(await used(tree)).toEqual([11, 11, 11, 11]);
    expect(await used(other)).toEqual([0, 0, 0, 0]);
  });

  it('is held at most once where a person and a hold have it in turn, and comes back from who denies', async () => {
    const tree = await plant({ approvals: { above_usd: 1 } });
    const denied = await check(tree, 10);
    expect((await usages(tree)).map((each) => each.held)).toEqual([10, 10, 10, 10]);
    await api.call({ url: `/v1/approvals/${denied.approval_id}/deny`, body: {} });
    await expectHeld(tree, 0);
    const waiting = await check(tree, 10, { hold: true });
    expect(waiting).toMatchObject({ decision: 'SUSPEND' });
    expect((await usages(tree)).map((each) => each.held)).toEqual([10, 10, 10, 10]);
    await api.call({ url: `/v1/approvals/${waiting.approval_id}/approve`, body: {} });
    const permit = await check(tree, 10, { hold: true, approval_id: waiting.approval_id });
    expect(permit).toMatchObject({ decision: 'PERMIT', hold: { amount_usd: 10 } });
    await expectHeld(tree, 10);
    await post(permit.attestation_id, 'outcome', { outcome: 'served', amount: 4 });
    await expectHeld(tree, 0);
    await expectCounted(tree, 4);
  });

  it('is held again in every wallet when a denial is undone, unless one is frozen or has no room', async () => {
    const tree = await plant({ approvals: { above_usd: 1 } });
    const resolve = (id: string, word: string) => api.call({ url: `/v1/approvals/${id}/${word}`, body: {} });
    const { approval_id: id } = await check(tree, 10);
    await resolve(id, 'deny');
    expect((await resolve(id, 'undo')).body).toMatchObject({ status: 'pending' });
    await expectHeld(tree, 10);
    await resolve(id, 'approve');
    expect(await check(tree, 10, { approval_id: id })).toMatchObject({ decision: 'PERMIT' });
    await expectCounted(tree, 10);
    const { approval_id: other } = await check(tree, 20);
    await resolve(other, 'deny');
    await setFrozen(api, tree.team, 'freeze');
    expectError(await resolve(other, 'undo'), 'approval_already_resolved');
    await setFrozen(api, tree.team, 'unfreeze');
    const sibling = await api.issuePassport({ wallet_id: tree.agent });
    expect(await check({ ...tree, passport: sibling }, 1)).toMatchObject({ decision: 'PERMIT' });
    expectError(await resolve(other, 'undo'), 'approval_already_resolved');
    await expectCounted(tree, 11);
    await expectHeld(tree, 0);
  });

  it.each(['settled', 'held'])('comes back with a void, what it counts by then: %s', async (state) => {
    const tree = await plant();
    await check(tree, 5);
    const { attestation_id: id } = await check(tree, 10, state === 'held' ? { hold: true } : {});
    if (state === 'held') await expectHeld(tree, 10);
    else await post(id, 'refund', { amount: 4 });
    await voidPermit(api, id);
    await expectCounted(tree, 5);
    await expectHeld(tree, 0);
  });

  it('moves in every wallet for PERMITs of sidecars, whose outcomes come through the spool', async () => {
    const tree = await plant({ holds: { overrun: 'charge' } });
    await sidecar.caughtUp();
    const permits: string[] = [];
    for (let n = 0; n < 3; n++) {
      const { body } = await untilAnswer(
        () => sidecar.check(tree.gateId, tree.passport.jwt, request(10, { hold: true, n })),
        (reply) => !isPassing(reply),
        { what: 'an answer that stays' },
      );
      expect(body).toMatchObject({ decision: 'PERMIT', hold: { amount_usd: 10 } });
      permits.push(body.attestation_id);
    }
    const counted = (usd: number) =>
      until(
        async () => {
          await applyReported(api.deps);
          const { usage } = await walletOf(api, tree.root);
          const { used: gone, held, leased } = usage.total_usd;
          return leased === 0 && micro(gone + held) === usd;
        },
        { what: `${usd} USD in the root` },
      );
    await counted(30);
    await expectHeld(tree, 30);
    const [first, second, third] = permits;
    const report = (id: string | undefined, body: object) =>
      sidecar.call({ method: 'POST', path: `/v1/attestations/${id}/outcome`, body });
    expect((await report(first, { outcome: 'served', amount: 2.5 })).status).toBe(202);
    await counted(22.5);
    expect((await report(second, { outcome: 'failed' })).status).toBe(202);
    await counted(12.5);
    expect((await report(third, { outcome: 'served', amount: 12 })).status).toBe(202);
    await counted(14.5);
    await expectCounted(tree, 14.5);
    await expectHeld(tree, 0);
  });
});
