import { call, type Reply } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import type { Installation, Running } from '../support/programs/installation.ts';
import { order, useWorld } from './use-world.ts';

const spending = { spend_limits: { daily_usd: 100 } };

/** Wallets with passports in them and moved out of them, holds, outcomes, and what was approved ahead. */
export async function fillMoney(
  world: Installation,
  { controlPlane, sidecar }: { readonly controlPlane: Running; readonly sidecar: Running },
) {
  const { create, gate, check, expectDecision } = useWorld(world);
  const root = await create('/wallets', { name: 'all', limits: { monthly_usd: 1_000 } });
  const team = await create('/wallets', {
    name: 'team',
    parent_wallet_id: root.wallet_id,
    limits: { daily_usd: 50 },
  });
  const other = await create('/wallets', { name: 'other' });
  const issue = (agent: string, more: object = {}): Promise<Reply['body']> =>
    create('/passports', {
      ...{ agent_id: agent, permissions: ['orders:create'], expires_in_days: 3_650, ...more },
    });
  const spender = await issue('spender', { wallet_id: team.wallet_id });
  const moved = await issue('moved');
  for (const wallet_id of [team.wallet_id, other.wallet_id])
    await create(`/passports/${moved.passport_id}/wallet`, { wallet_id });
  await create(`/wallets/${other.wallet_id}/freeze`, {});

  const spent = await gate('spent', { constraints: spending });
  const approvals = { above_usd: 1 };
  const standing = await gate('approved ahead', { constraints: { ...spending, approvals } });
  const ahead = await create('/approvals/standing', {
    ...{ gate_id: standing.gate_id, passport_id: spender.passport_id, permission_key: 'orders:create' },
    ...{ each_usd: 10, total_usd: 20, expires_at: new Date(Date.now() + 29 * 86_400_000).toISOString() },
  });
  const take = (at: Running, gateId: string, amount: number, more: object = {}) =>
    check(at, gateId, spender, { ...order, amount, ...more });
  await until(async () => (await take(sidecar, spent.gate_id, 1)).decision === 'PERMIT', {
    what: 'a sidecar that knows the wallets',
  });
  const held = await expectDecision('PERMIT', take(controlPlane, spent.gate_id, 10, { hold: true }));
  const settled = await expectDecision('PERMIT', take(sidecar, spent.gate_id, 10, { hold: true }));
  await expectDecision('PERMIT', take(controlPlane, standing.gate_id, 9));
  const frozen = await check(controlPlane, spent.gate_id, moved, { ...order, amount: 1 });

  const isStored = async (id: string) => (await world.api('GET', `/attestations/${id}`)).status === 200;
  await until(() => isStored(settled.attestation_id), { what: 'the record of what was held' });
  const report = (body: object) =>
    call(`${sidecar.origin}/v1/attestations/${settled.attestation_id}/outcome`, {
      key: world.adminKey,
      body,
    });
  await report({ outcome: 'served', amount: 4 });
  const outcome = `/attestations/${settled.attestation_id}/outcome`;
  await until(async () => (await world.api('GET', outcome)).body.outcome === 'served', {
    what: 'its outcome',
  });
  await report({ outcome: 'failed' });
  await until(async () => (await world.api('GET', '/outcomes?status=refused')).body.total === 1, {
    what: 'the outcome that contradicts it, which is refused',
  });

  return {
    readable: [
      '/wallets',
      ...[root, team, other].map(({ wallet_id }) => `/wallets/${wallet_id}`),
      ...[spender, moved].map(({ passport_id }) => `/passports/${passport_id}`),
      `/gates/${spent.gate_id}/policies`,
      '/approvals/standing',
      '/holds',
      '/outcomes?status=refused',
      `/attestations/${held.attestation_id}/outcome`,
      outcome,
    ],
    money: {
      gates: { spent: spent.gate_id as string, standing: standing.gate_id as string },
      passports: { spender: spender.jwt as string, moved: moved.jwt as string },
      frozen: frozen.reason as string,
      held: held.attestation_id as string,
      ahead: ahead.standing_approval_id as string,
    },
  };
}
