import { cpSync, lstatSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { dayMs } from '../../shared/model/time.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import { RawConnection } from '../support/base/raw-http.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create' };

describe.each(adapters)('a sidecar behind $name', (adapter) => {
  const api = useApi();
  const sidecar = useSidecar(() => ({ api, adapter }));

  const readyz = async () => (await sidecar.call({ path: '/readyz', key: null })).body;

  it('is alive, ready and measured without a key, also for HEAD', async () => {
    for (const path of ['/livez', '/readyz', '/metrics']) {
      const got = await sidecar.call({ path, key: null });
      const head = await sidecar.call({ path, key: null, method: 'HEAD' });
      expect([got.status, head.status, head.body]).toEqual([200, 200, '']);
      expect(got.headers['x-request-id']).toMatch(/^req_/);
    }
    expectError(await sidecar.call({ path: '/livez', method: 'POST', body: {} }), 'route_not_found');
  });

  it('shows its platform and the age of its state in /readyz', async () => {
    await sidecar.caughtUp();
    // On a busy machine the call before may have run into its time limit.
    const said = await untilAnswer(readyz, ({ control_plane: { connected } }) => connected, {
      what: 'a sidecar that is connected',
    });
    expect(said).toMatchObject({
      status: 'ready',
      draining: false,
      state: { loaded: true, age_ms: expect.any(Number), account_revision: expect.any(Number) },
      control_plane: { connected: true, superseded: false, clock_is_off: false },
      spool: { state: 'open', full: false },
      server: { name: adapter.name },
      ed25519: expect.stringMatching(/^(sodium-native|node:crypto|noble)$/),
    });
  });

  // The rest is the same behind each server.
  if (adapter !== adapters.at(-1)) return;

  it('says which trust levels an old state blocks, since when, in /readyz and metrics', async () => {
    const gate = await api.createGate({ trust_level: 'L3' });
    const passport = await api.issuePassport({ trust_tier: 'L3' });
    await sidecar.caughtUp();
    expect((await readyz()).blocked_trust_levels).toEqual([]);
    await sidecar.ageStateTo(9_000);
    const { status, blocked_trust_levels: blocked } = await readyz();
    const text: string = (await sidecar.call({ path: '/metrics', key: null })).body;
    const { body } = await sidecar.check(gate.gate_id, passport.jwt, order);
    sidecar.resume();
    expect(status).toBe('ready');
    expect(blocked).toEqual([{ trust_level: 'L3', reason: 'state_stale', since: expect.any(String) }]);
    expect(Math.abs(Date.parse(blocked[0].since) - (api.deps.clock.now() - 4_000))).toBeLessThan(30_000);
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'state_stale' });
    const blockedS = /trust_level_blocked_seconds\{trust_level="L3"\} (\S+)$/m.exec(text)?.[1];
    expect(Number(blockedS)).toBeCloseTo(4, 2);
    expect(text).toMatch(/^agent_trust_sidecar_trust_level_blocked_seconds\{trust_level="L2"\} 0$/m);
  });

  it('counts decisions by outcome and reason, and what became of the tokens', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const read = async () => {
      const text: string = (await sidecar.call({ path: '/metrics', key: null })).body;
      return (name: string) =>
        Number(new RegExp(`^agent_trust_sidecar_${name} (\\S+)$`, 'm').exec(text)?.[1] ?? 0);
    };
    const earlier = await read();
    await sidecar.check(gate.gate_id, passport.jwt, order);
    await sidecar.check(gate.gate_id, passport.jwt, order);
    await sidecar.check(gate.gate_id, 'garbage', order);
    const later = await read();
    const names = [
      'decisions_total{outcome="PERMIT",reason="none"}',
      'decisions_total{outcome="BLOCK",reason="passport_malformed"}',
      'verify_cache_misses_total',
      'verify_cache_hits_total',
      'verify_refused_total',
    ].map((name) => name.replaceAll(/[{}]/g, '\\$&'));
    expect(names.map((name) => later(name) - earlier(name))).toEqual([2, 1, 1, 1, 1]);
    expect(later('open_requests')).toBe(0);
    await until(async () => (await read())('state_age_seconds') < 5, { what: 'a state that is young' });
  });

  it('measures its spool: waiting records and their age, shipped records, and the time of the disk', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const figure = async (name: string) => {
      const text: string = (await sidecar.call({ path: '/metrics', key: null })).body;
      return Number(new RegExp(`^agent_trust_sidecar_spool_${name} (\\S+)$`, 'm').exec(text)?.[1]);
    };
    await until(async () => (await figure('oldest_unshipped_seconds')) === 0, { what: 'all is shipped' });
    const shipped = await figure('shipped_records_total');
    sidecar.link.cut();
    await sidecar.check(gate.gate_id, passport.jwt, order);
    expect(await figure('bytes')).toBeGreaterThan(500);
    expect(await figure('used_bytes')).toBeGreaterThanOrEqual(await figure('bytes'));
    expect(await figure('capacity_bytes')).toBe(attestLimits.spoolBytesMax);
    await until(async () => (await figure('oldest_unshipped_seconds')) > 0.05, {
      what: 'a record that grows old',
    });
    await until(async () => (await figure('fsync_duration_seconds_count')) > 0, { what: 'an fsync' });
    expect(await figure('fsync_duration_seconds_sum')).toBeGreaterThan(0);
    sidecar.resume();
    await until(async () => (await figure('oldest_unshipped_seconds')) === 0, { what: 'it is shipped' });
    expect(await figure('shipped_records_total')).toBe(shipped + 1);
    expect(await figure('bytes')).toBe(0);
    for (const name of ['damaged_places_total', 'torn_ends_total', 'voided_records_total{reason="damaged"}'])
      expect(await figure(name.replaceAll(/[{}]/g, '\\$&')), name).toBe(0);
  });

  it('names no agent, passport, gate or key in its metrics', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport({ agent_id: 'agent-that-must-not-show' });
    await sidecar.caughtUp();
    await sidecar.check(gate.gate_id, passport.jwt, order);
    const { body } = await sidecar.call({ path: '/metrics', key: null });
    expect(body).not.toMatch(/agent-that-must-not-show|pass_|gate_[0-9a-z]{26}|key_[0-9a-z]{26}|acct_/);
  });

  it('keeps revocations while its clock jumps ahead and back', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport({ expires_in_days: 1 });
    await sidecar.caughtUp();
    const revoke = (each: { passport_id: string }) =>
      api.call({ url: `/v1/passports/${each.passport_id}/revoke?wait_ms=2000`, body: {} });
    await revoke(passport);
    sidecar.stopMachineClockAt(Date.now() + 3 * dayMs);
    for (let i = 0; i < 3; i++) await revoke(await api.issuePassport());
    sidecar.resume();
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.reason).toBe('passport_revoked');
  });
});

describe('a sidecar', () => {
  const api = useApi();

  it('answers 503 until it has a state, and serves as soon as it has one', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const sidecar = await startTestSidecar({ api, isCutOff: true });
    expect(await sidecar.call({ path: '/readyz', key: null })).toMatchObject({
      status: 503,
      body: { status: 'not_ready', state: { loaded: false, age_ms: null } },
    });
    expectError(await sidecar.check(gate.gate_id, passport.jwt, order), 'service_unavailable');
    expect((await sidecar.call({ path: '/livez', key: null })).status).toBe(200);
    sidecar.resume();
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.decision).toBe('PERMIT');
    await sidecar.close();
    sidecar.removeFolder();
  });

  it('does not decide requests in flight when it gave up its place', async () => {
    const gate = await api.createGate();
    const { passport_id, jwt } = await api.issuePassport();
    const old = await startTestSidecar({ api, bus: null });
    await old.caughtUp();
    const body = JSON.stringify({ passport: jwt, request: order });
    const connection = await RawConnection.open(Number(new URL(old.origin).port));
    const head = [
      ...[`POST /v1/gates/${gate.gate_id}/check HTTP/1.1`, 'Host: sidecar'],
      ...[`Authorization: Bearer ${api.adminKey}`, `Content-Length: ${body.length}`],
    ].join('\r\n');
    await connection.send(`${head}\r\n\r\n${body.slice(0, 50)}`);
    // In a copy of its folder, as on a restored machine: nothing there tells the old one.
    const copy = temporaryFolder();
    const isNoSocket = (path: string) => !lstatSync(path).isSocket();
    cpSync(old.folder, copy.path, { recursive: true, filter: isNoSocket });
    const successor = await startTestSidecar({ api, bus: null, folder: copy.path });
    const isSuperseded = async () =>
      (await old.call({ path: '/readyz', key: null })).body.control_plane.superseded;
    await until(isSuperseded, { what: 'a superseded sidecar' });
    // It never learns of this.
    await api.call({ url: `/v1/passports/${passport_id}/revoke`, body: {} });
    await connection.send(body.slice(50));
    const answer = await connection.next();
    expect(answer?.status).toBe(503);
    expect(JSON.parse(answer?.body ?? '')).toMatchObject({ error: { code: 'service_unavailable' } });
    await old.close();
    await successor.close();
    old.removeFolder();
    copy.remove();
  });
});
