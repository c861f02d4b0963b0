import { describe, expect, it, onTestFinished } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import type { Reply } from '../support/service/api.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { isPassing, type SidecarPair, startSidecarPair, tally } from '../support/service/sidecar-pair.ts';
import { useStarted } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create' };
const ofDollars = (amount: number) => ({ ...order, amount });
const times = <T>(count: number, each: (i: number) => T): T[] =>
  Array.from({ length: count }, (_, i) => each(i));

describe('limits over two sidecars', () => {
  const pair = useStarted(startSidecarPair);

  const check: SidecarPair['check'] = (...asked) => pair.check(...asked);

  it('permit no request more than the limit, of many at once', async () => {
    const { gateId, token } = await pair.setUp({ gate: { rate_limits: { requests_per_day: 25 } } });
    const replies = await Promise.all(times(80, (i) => check(i, gateId, token, order)));
    expect(tally(replies)).toEqual({ PERMIT: 25, rate_limit_exceeded: 55 });
  });

  it('permit no cent more than the limit, and with demand all of it', async () => {
    const { gateId, token } = await pair.setUp({ gate: { spend_limits: { daily_usd: 10 } } });
    const burst = await Promise.all(times(60, (i) => check(i, gateId, token, ofDollars(0.7))));
    let permitted = tally(burst)['PERMIT'] ?? 0;
    expect(permitted).toBeGreaterThan(0);
    await until(
      async () => {
        const reply = await check(permitted, gateId, token, ofDollars(0.7));
        if (reply.body.decision === 'PERMIT') permitted += 1;
        return permitted >= 14;
      },
      { what: 'all that fits into the limit' },
    );
    // 14 times 0.70 leave 0.20.
    expect((await check(0, gateId, token, ofDollars(0.200001))).body.reason).toBe('spend_limit_exceeded');
    // What the other sidecar holds of it and does not use comes back.
    await until(async () => (await check(0, gateId, token, ofDollars(0.2))).body.decision === 'PERMIT', {
      what: 'the rest of the limit',
    });
    expect((await check(1, gateId, token, ofDollars(0.000001))).body.reason).toBe('spend_limit_exceeded');
  });

  it.each([
    ['ahead', 'endsAtMs', 700],
    ['behind', 'startsAtMs', -700],
  ] as const)(
    'are on record in the windows that they were taken from, where the time that is known here is %s',
    async (_, edge, byMs) => {
      const gate = { rate_limits: { requests_per_minute: 20 }, spend_limits: { daily_usd: 100 } };
      const { gateId, token } = await pair.setUp({ gate });
      const [sidecar] = pair.sidecars;
      onTestFinished(() => sidecar.resume());
      sidecar.stopClockAt(windowAt('minute', pair.api.deps.clock.now())[edge] + byMs);
      const ways = [{}, { idempotency_key: `way-${gateId}` }, {}];
      const replies: Reply[] = [];
      for (const way of ways) replies.push(await sidecar.check(gateId, token, { ...ofDollars(1), ...way }));
      const permits = replies.filter(({ body }) => body.decision === 'PERMIT');
      expect(permits.length).toBeGreaterThan(0);
      const timestamps: number[] = [];
      for (const { body } of permits)
        timestamps.push(Date.parse((await pair.attestation(body.attestation_id)).timestamp));
      const rows = await pair.api.deps.sql<{ startsAtMs: number; leased: number }[]>`
      SELECT starts_at_ms AS "startsAtMs", leased FROM quota_windows
      WHERE counter = ${`gate_rate:${gateId}`} AND window_name = 'minute'`;
      for (const at of timestamps) {
        const { startsAtMs } = windowAt('minute', at as UnixMillis);
        const onRecord = timestamps.filter(
          (each) => windowAt('minute', each as UnixMillis).startsAtMs === startsAtMs,
        );
        const leased = rows.find((row) => row.startsAtMs === startsAtMs)?.leased ?? 0;
        expect(leased).toBeGreaterThanOrEqual(onRecord.length);
      }
    },
  );

  it('block at once what needs a lease while the control plane is away, and nothing else; afterwards nothing is lost', async () => {
    const { gateId, token } = await pair.setUp({ gate: { rate_limits: { requests_per_day: 3 } } });
    const free = await pair.setUp({ gate: {} });
    const sidecar = await startTestSidecar({ api: pair.api });
    sidecar.link.cut();
    // Nobody waits for a control plane that cannot be reached.
    await expectWithin(limits.quotaWaitMsMax, 'the request is blocked', async () => {
      const { result, ...time } = await timed(() => sidecar.check(gateId, token, order));
      expect(result.body).toMatchObject({
        decision: 'BLOCK',
        reason: 'quota_unavailable',
        retry: { retryable: true, after_ms: limits.quotaRetryMs },
      });
      return time;
    });
    expect((await sidecar.check(free.gateId, free.token, order)).body.decision).toBe('PERMIT');
    sidecar.link.restore();
    await sidecar.caughtUp();
    let permitted = 0;
    await until(
      async () => {
        const answer = (await check(permitted, gateId, token, order)).body;
        if (answer.decision === 'PERMIT') permitted += 1;
        return permitted === 3;
      },
      { what: 'every unit of the limit' },
    );
    // Its feeds may be as the control plane's without a word from it: it knows that it is back with the next
    // answer.
    let reason = 'quota_unavailable';
    await until(
      async () => {
        reason = (await sidecar.check(gateId, token, order)).body.reason;
        return reason !== 'quota_unavailable';
      },
      { what: 'the control plane is known to be back' },
    );
    expect(reason).toBe('rate_limit_exceeded');
    await sidecar.close();
    sidecar.removeFolder();
  });

  it('are not used for a client that disconnected while its lease call was in flight', async () => {
    const { gateId, token } = await pair.setUp({ gate: { rate_limits: { requests_per_day: 1 } } });
    const [sidecar] = pair.sidecars;
    const client = new AbortController();
    await pair.whileLocked('quota_windows', async () => {
      const sent = fetch(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        method: 'POST',
        headers: { authorization: `Bearer ${pair.api.adminKey}` },
        body: JSON.stringify({ passport: token, request: order }),
        signal: client.signal,
      });
      await until(async () => metric(await textOf(sidecar), 'lease_waiting') > 0, {
        what: 'a request that waits',
      });
      client.abort();
      await expect(sent).rejects.toThrow();
    });
    // Somebody else gets the one unit that there is, and the one who left has no record.
    await until(async () => (await check(1, gateId, token, order)).body.decision === 'PERMIT', {
      what: 'the unit of the client that left',
    });
    const records = async () => {
      const url = `/v1/attestations?gate_id=${gateId}`;
      return (await pair.api.call({ url })).body.attestations.map(
        (each: { decision: string }) => each.decision,
      );
    };
    await until(async () => (await records()).includes('PERMIT'), { what: 'the record of the PERMIT' });
    expect((await records()).filter((decision: string) => decision === 'PERMIT')).toHaveLength(1);
  });

  it('are counted in the metrics: each decision once, and waiting requests', async () => {
    const [sidecar] = pair.sidecars;
    const askTwice = async () => {
      const { gateId, token } = await pair.setUp({ gate: { rate_limits: { requests_per_day: 1 } } });
      const before = await textOf(sidecar);
      const replies = [await sidecar.check(gateId, token, order), await sidecar.check(gateId, token, order)];
      return { before, after: await textOf(sidecar), replies };
    };
    // Anew, where the machine was too busy for a decision in time.
    const { before, after } = await untilAnswer(askTwice, ({ replies }) => !replies.some(isPassing), {
      what: 'two decisions in time',
    });
    const grown = (name: string) => metric(after, name) - metric(before, name);
    expect(grown('decisions_total{outcome="PERMIT",reason="none"}')).toBe(1);
    expect(grown('decisions_total{outcome="BLOCK",reason="rate_limit_exceeded"}')).toBe(1);
    expect([grown('lease_asks_total'), grown('lease_refused_total')]).toEqual([2, 1]);
    expect(metric(after, 'lease_waiting')).toBe(0);
  });
});

const textOf = async (sidecar: {
  call(call: { path: string; key: null }): Promise<Reply>;
}): Promise<string> => (await sidecar.call({ path: '/metrics', key: null })).body;

function metric(text: string, name: string): number {
  const line = text.split('\n').find((each) => each.startsWith(`agent_trust_sidecar_${name} `));
  return line === undefined ? 0 : Number(line.slice(line.lastIndexOf(' ') + 1));
}
