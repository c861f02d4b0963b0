import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startOwnApi } from '../support/service/api.ts';
import { askApproval, goToNoon, hashOf, heldUsd, openAnApproval } from '../support/service/approvals.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));
afterAll(() => expectSoundStore(api));

const catalog = { permissions: [{ key: 'orders:create', requires_approval: true }] };
const statusOf = async (approvalId: string): Promise<string> =>
  (await api.call({ url: `/v1/approvals/${approvalId}` })).body.status;
const put = async (gateId: string, body: object) => {
  const reply = await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
};

/** One that is pending and one that is approved, of one passport at one gate; each holds 25 USD. */
async function openBoth() {
  const pending = await openAnApproval(api);
  const { gateId, passportId } = pending;
  const approved = await askApproval(api.deps, { gateId, passportId });
  await api.call({ method: 'POST', url: `/v1/approvals/${approved.approvalId}/approve` });
  expect(await heldUsd(api.deps, gateId)).toBe(50);
  return { gateId, passportId, approvalIds: [pending.approvalId, approved.approvalId] };
}

/** Of the end of the approvals; one that was approved has a record of that besides. */
const endsOf = async (passportId: string): Promise<number> => {
  const { body } = await api.call({ url: `/v1/attestations?passport_id=${passportId}` });
  return body.attestations.filter(({ resolution }: { resolution: string }) => resolution === 'expired')
    .length;
};

describe('the approvals that are open at a gate', () => {
  it.each<[string, (gateId: string) => Promise<unknown>]>([
    ['its constraints change', (gateId) => put(gateId, { constraints: { spend_limits: { daily_usd: 99 } } })],
    ['its trust level changes', (gateId) => put(gateId, { trust_level: 'L2' })],
    ['it publishes a catalog', (gateId) => api.call({ url: `/v1/gates/${gateId}/catalog`, body: catalog })],
    ['it is deleted', (gateId) => api.call({ method: 'DELETE', url: `/v1/gates/${gateId}` })],
  ])('expire, are attested and free their money at once when %s', async (_what, change) => {
    const { gateId, passportId, approvalIds } = await openBoth();
    await change(gateId);
    expect(await Promise.all(approvalIds.map(statusOf))).toEqual(['expired', 'expired']);
    expect(await heldUsd(api.deps, gateId)).toBe(0);
    expect(await endsOf(passportId)).toBe(2);
    const late = await api.call({ method: 'POST', url: `/v1/approvals/${approvalIds[0]}/approve` });
    expect(late.body.error.code).toBe('approval_already_resolved');
  });

  it('stay when its name and description change, and when nothing does', async () => {
    const { gateId, approvalIds } = await openBoth();
    await put(gateId, { name: 'another name', description: 'another description' });
    await put(gateId, { trust_level: 'L1', constraints: {} });
    expect(await Promise.all(approvalIds.map(statusOf))).toEqual(['pending', 'approved']);
    expect(await heldUsd(api.deps, gateId)).toBe(50);
  });

  it('are opened under the policy that counts when they are committed, or not at all', async () => {
    const { key } = await api.createAccount();
    const { gate_id: gateId } = await api.createGate(
      { constraints: { approvals: { permissions: ['orders:*'] } } },
      key,
    );
    const passports = await Promise.all(Array.from({ length: 12 }, () => api.issuePassport({}, key)));
    const checks = passports.map(({ jwt }) =>
      api.call({
        url: `/v1/gates/${gateId}/check`,
        key,
        body: { passport: jwt, request: { permission_key: 'orders:create', amount: 1 } },
      }),
    );
    const change = api.call({
      method: 'PUT',
      url: `/v1/gates/${gateId}`,
      key,
      body: { constraints: { approvals: { above_usd: 0 } } },
    });
    for (const { body } of await Promise.all(checks)) expect(body.decision).toBe('SUSPEND');
    await change;
    const [gate] = await api.deps
      .sql`SELECT policy_version AS "policyVersion" FROM gates WHERE gate_id = ${gateId}`;
    const open = await api.deps.sql`
      SELECT gate_version AS "gateVersion" FROM approvals WHERE gate_id = ${gateId} AND status = 'pending'`;
    for (const { gateVersion } of open) expect(gateVersion).toBe(gate?.['policyVersion']);
  });

  it('of another gate stay', async () => {
    const one = await openBoth();
    const other = await openAnApproval(api, { requestHash: hashOf(0xa11) });
    await put(one.gateId, { constraints: { approvals: { above_usd: 3 } } });
    expect(await statusOf(other.approvalId)).toBe('pending');
  });
});
