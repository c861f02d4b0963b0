import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { minuteMs, secondMs } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { type KeptLine, keptLog } from '../support/kept-log.ts';
import { roomInWindow } from '../support/room-in-window.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { until } from '../support/until.ts';

/** As between two regions: a journey there and back. */
const journeyMs = 100;

let api: Api;
let sidecar: TestSidecar;
const log = keptLog();
beforeAll(async () => {
  api = await startApi();
  sidecar = await startTestSidecar({
    api,
    // What is pushed would take another way.
    bus: null,
    eachWayMs: journeyMs / 2,
    logger: log,
    // What is tested is that nothing gets lost on the way, and not how busy this machine is.
    quotaWaitMs: 2.5 * secondMs,
  });
});
afterAll(async () => {
  await sidecar?.close();
  sidecar?.removeFolder();
  await api?.close();
});

const request = { permission_key: 'orders:create' };
const found = async (id: string) => (await api.call({ url: `/v1/attestations/${id}` })).status;

describe('a sidecar that is far from its control plane', () => {
  it('knows the time there, and hears of changes', async () => {
    const gate = await api.createGate({ trust_level: 'L3' });
    const passport = await api.issuePassport({ trust_tier: 'L3' });
    await sidecar.caughtUp();
    const { body } = await sidecar.call({ path: '/readyz', key: null });
    expect(body.control_plane).toMatchObject({ connected: true, clock_is_off: false, last_problem: null });
    expect((await sidecar.check(gate.gate_id, passport.jwt, request)).body.decision).toBe('PERMIT');
    const revoked = await api.call({
      method: 'POST',
      url: `/v1/passports/${passport.passport_id}/revoke?wait_ms=5000`,
      body: {},
    });
    expect(revoked.body.propagation).toMatchObject({ sidecars: 1, acknowledged: 1 });
    const after = await sidecar.check(gate.gate_id, passport.jwt, request);
    expect(after.body.reason).toBe('passport_revoked');
  });

  it('uses a limit to its last unit and no further, and ships its decisions', async () => {
    await roomInWindow('day', 2 * minuteMs);
    const gate = await api.createGate({ constraints: { rate_limits: { requests_per_day: 60 } } });
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    const answers = await Promise.all(
      Array.from({ length: 90 }, () => sidecar.check(gate.gate_id, jwt, request)),
    );
    const permitted = answers.filter(({ body }) => body.decision === 'PERMIT');
    expect(permitted).toHaveLength(60);
    const rest = answers.filter(({ body }) => body.decision !== 'PERMIT');
    expect(new Set(rest.map(({ body }) => body.reason))).toEqual(new Set(['rate_limit_exceeded']));
    for (const { body } of answers)
      await until(async () => (await found(body.attestation_id)) === 200, { what: 'its record' });
  });

  it('settles each key once', async () => {
    const gate = await api.createGate({ constraints: { spend_limits: { daily_usd: 1_000 } } });
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    const keys = Array.from({ length: 40 }, (_, n) => `key-${n % 20}`);
    const answers = await Promise.all(
      keys.map((key) => sidecar.check(gate.gate_id, jwt, { ...request, amount: 1, idempotency_key: key })),
    );
    expect(answers.map(({ body }) => body.decision)).toEqual(keys.map(() => 'PERMIT'));
    expect(new Set(answers.map(({ body }) => body.attestation_id)).size).toBe(20);
  });

  it('has found nothing wrong on the way', () => {
    const isTold = ({ level }: KeptLine) => level === 'warn' || level === 'error';
    expect(log.lines.filter(isTold)).toEqual([]);
  });
});
