import { describe, expect, it } from 'vitest';
import type { GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { leaseHolder, ofGate, ofPassport, wish } from '../support/service/lease-holder.ts';
import { startSidecarPair } from '../support/service/sidecar-pair.ts';
import { useStarted } from '../support/service/use-api.ts';

const pair = useStarted(startSidecarPair);

const order = { permission_key: 'orders:create', amount: 4 };
const usd = 1_000_000;

/** What each program says of the request: a sidecar, the control plane, and its test of the gate. */
async function askAll(
  gateId: string,
  token: string,
  request: typeof order,
): Promise<readonly Reply['body'][]> {
  const { api } = pair;
  const body = { passport: token, request };
  const { permission_key: requested_action, ...context } = request;
  const asTest = { passport_token: token, requested_action, context };
  return [
    (await pair.check(0, gateId, token, request)).body,
    (await api.call({ url: `/v1/gates/${gateId}/check`, body })).body,
    (await api.call({ url: `/v1/gates/${gateId}/test`, body: asTest })).body,
  ];
}

/** The day, or the month, is long: what keeps the request for a moment alone is told so. */
const forAMoment = (used: number) => ({ used, retry: { retryable: true, after_ms: limits.lentUnitsMsMax } });

describe('units that are lent to a sidecar and not used', () => {
  it.each([
    ['requests of a day', { rate_limits: { requests_per_day: 10 } }, 'gate_rate', 'day', 10],
    ['money of a month', { spend_limits: { monthly_usd: 40 } }, 'gate_spend', 'month', 40 * usd],
  ] as const)(
    'keep a request for a moment only, and are not used: %s',
    async (_, gate, kind, window, units) => {
      const { gateId, token } = await pair.setUp({ gate });
      const other = await leaseHolder(pair.api);
      await other.lease([wish(ofGate(kind, gateId as GateId), window, units)]);
      for (const answer of await askAll(gateId, token, order)) expect(answer).toMatchObject(forAMoment(0));
    },
  );

  it.each([
    ["of a passport's own", 'passport_rate', { rate_limits: { requests_per_day: 5 } }, {}],
    ['of a passport at a gate', 'gate_rate', {}, { rate_limits: { requests_per_day: 5, per: 'passport' } }],
  ] as const)('the same %s', async (_, kind, constraints, gate) => {
    const { gateId, token, passport } = await pair.setUp({ gate, passport: { constraints } });
    const other = await leaseHolder(pair.api);
    const counter = ofPassport(kind, passport, kind === 'gate_rate' ? (gateId as GateId) : null);
    await other.lease([wish(counter, 'day', 5)]);
    for (const answer of await askAll(gateId, token, order)) expect(answer).toMatchObject(forAMoment(0));
  });

  it("do not hide used units, which return with the window's end", async () => {
    const { gateId, token } = await pair.setUp({
      gate: { rate_limits: { requests_per_day: 3 }, spend_limits: { monthly_usd: 1_000 } },
    });
    for (const _ of [1, 2, 3])
      expect(
        (await pair.api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: token, request: order } }))
          .body.decision,
      ).toBe('PERMIT');
    const other = await leaseHolder(pair.api);
    await other.lease([wish(ofGate('gate_spend', gateId as GateId), 'month', 988 * usd)]);
    for (const answer of await askAll(gateId, token, { ...order, amount: 0 })) {
      expect(answer).toMatchObject({ reason: 'rate_limit_exceeded', used: 3, retry: { retryable: true } });
      expect(answer.retry.after_ms).toBeGreaterThan(limits.lentUnitsMsMax);
    }
  });
});

it.each([0, 1])(
  'after 409 idempotency_conflict the charge is there again with the answer, at sidecar %d',
  async (i) => {
    const gate = { rate_limits: { requests_per_day: 8 }, spend_limits: { daily_usd: 12 } };
    const { gateId, token } = await pair.setUp({ gate });
    const keyed = { ...order, idempotency_key: 'once' };
    expect((await pair.check(0, gateId, token, keyed)).body.decision).toBe('PERMIT');
    const sidecar = pair.sidecars[i === 0 ? 0 : 1];
    // No void goes out from here on.
    await pair.whileLocked('sidecar_epochs', async () => {
      for (const amount of [5, 6, 7]) {
        expectError(await sidecar.check(gateId, token, { ...keyed, amount }), 'idempotency_conflict');
        const over = (await sidecar.check(gateId, token, { ...order, amount: 12 })).body;
        expect(over).toMatchObject({ reason: 'spend_limit_exceeded', limit: 12, used: 4 });
      }
    });
    expect((await pair.check(i, gateId, token, { ...order, amount: 8 })).body.decision).toBe('PERMIT');
  },
);
