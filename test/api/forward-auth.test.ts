import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { askForward, type ForwardRequest } from '../support/forward-auth.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

type Headers = NonNullable<ForwardRequest['headers']>;

/** What a proxy sets that is configured for all of them. */
const trusted = [
  'x-forwarded-method',
  'x-forwarded-uri',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-original-method',
  'x-original-uri',
  'x-gate-permission',
  'x-gate-amount',
];

describe.each(adapters)('the per-gate address on $name', (adapter) => {
  let sidecar: TestSidecar;
  beforeAll(async () => {
    sidecar = await startTestSidecar({ api, adapter, forwardAuth: { trust: 'loopback', headers: trusted } });
  });
  afterAll(async () => {
    await sidecar.close();
    sidecar.removeFolder();
  });

  const orders = ['X-Gate-Permission', 'orders:create'] as const;

  async function setUp(constraints: object = {}) {
    const { gate_id: gateId } = await api.createGate({ constraints });
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const shown = ['Authorization', `Passport ${passport.jwt}`] as const;
    const ask = async (headers: Headers = [shown, orders], more: Partial<ForwardRequest> = {}) => {
      const answer = await askForward(sidecar, { target: `/${gateId}`, headers, ...more });
      if (answer === null) throw new Error('the connection closed without an answer');
      return answer;
    };
    return { gateId, passport, shown, ask };
  }

  describe('decides', () => {
    it('PERMIT with 200 and the ids of record and passport', async () => {
      const { ask, passport } = await setUp();
      const answer = await ask();
      expect(answer).toMatchObject({ status: 200, decision: 'PERMIT', reason: '' });
      expect(answer.attestationId).toMatch(/^att_/);
      expect(answer.passportId).toBe(passport.passport_id);
      expect(answer.headers.get('cache-control')).toBe('no-store');
      expect(answer.headers.get('x-request-id')).toMatch(/^req_/);
      expect(answer.body).toMatchObject({ decision: 'PERMIT', attestation_id: answer.attestationId });
    });

    it('takes the passport of either header, or the same of both', async () => {
      const { ask, passport, shown } = await setUp();
      const other = ['X-Agent-Passport', passport.jwt] as const;
      for (const headers of [[shown], [other], [shown, other]]) {
        expect((await ask([...headers, orders])).decision).toBe('PERMIT');
      }
    });

    it('401 for a passport that does not verify, in the name of nobody', async () => {
      const { ask } = await setUp();
      const answer = await ask([['X-Agent-Passport', 'no token'.replace(' ', '_')], orders]);
      expect(answer).toMatchObject({ status: 401, decision: 'BLOCK', reason: 'passport_malformed' });
      expect(answer.passportId).toBe('');
      expect(answer.attestationId).toMatch(/^att_/);
      expect(answer.headers.get('www-authenticate')).toBe('Passport');
    });

    it('401 for a revoked passport, which is named', async () => {
      const { ask, passport } = await setUp();
      await api.call({ method: 'POST', url: `/v1/passports/${passport.passport_id}/revoke` });
      await sidecar.caughtUp();
      const answer = await ask();
      expect(answer).toMatchObject({ status: 401, decision: 'BLOCK', reason: 'passport_revoked' });
      expect(answer.passportId).toBe(passport.passport_id);
    });

    it('403 for every other BLOCK, and says when to try again', async () => {
      const { ask, shown } = await setUp({ rate_limits: { requests_per_day: 1 } });
      const denied = await ask([shown, ['X-Gate-Permission', 'orders:delete']]);
      expect(denied).toMatchObject({ status: 403, decision: 'BLOCK', reason: 'permission_not_granted' });
      expect(denied.headers.has('retry-after')).toBe(false);
      expect((await ask()).decision).toBe('PERMIT');
      const limited = await ask();
      expect(limited).toMatchObject({ status: 403, reason: 'rate_limit_exceeded' });
      const { after_ms } = limited.body.retry;
      expect(limited.headers.get('retry-after')).toBe(String(Math.ceil(after_ms / 1_000)));
    });

    it('403 for a SUSPEND, which has no record yet', async () => {
      const { ask, shown } = await setUp({ approvals: { above_usd: 10 } });
      const answer = await ask([shown, orders, ['X-Gate-Amount', '10.5']]);
      expect(answer).toMatchObject({ status: 403, decision: 'SUSPEND', reason: 'approval_required' });
      expect(answer.attestationId).toBe('');
      expect(answer.body.approval_id).toMatch(/^appr_/);
    });
  });

  it('reads no more of a body than that it ends', async () => {
    const { ask } = await setUp();
    const body = 'x'.repeat(limits.bodyBytesMax + 1);
    expect((await ask(undefined, { method: 'POST', body })).decision).toBe('PERMIT');
  });
});
