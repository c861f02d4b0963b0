import { cpSync, lstatSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { changeTransaction } from '../../control-plane/sync/change-transaction.ts';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs } from '../../shared/model/time.ts';
import { attestLimits } from '../../sidecar/attest/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { RawConnection } from '../support/raw-http.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { expectWithin, timeUntil } from '../support/time-promise.ts';
import { until, untilAnswer } from '../support/until.ts';

const order = { permission_key: 'orders:create' };

describe.each(adapters)('a sidecar behind $name', (adapter) => {
  let api: Api;
  let sidecar: TestSidecar;
  beforeAll(async () => {
    api = await startApi();
    sidecar = await startTestSidecar({ api, adapter });
  });
  afterAll(async () => {
    await sidecar?.close();
    sidecar?.removeFolder();
    await api?.close();
  });

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

  it('keeps deciding while the control plane is unreachable, reports it, and ships the records afterwards', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    sidecar.link.cut();
    await until(async () => !(await readyz()).control_plane.connected, { what: 'a lost connection' });
    const reply = await sidecar.check(gate.gate_id, passport.jwt, order);
    expect(reply.body.decision).toBe('PERMIT');
    expect((await readyz()).status).toBe('ready');
    sidecar.resume();
    const url = `/v1/attestations/${reply.body.attestation_id}`;
    await until(async () => (await api.call({ url })).status === 200, { what: 'the record' });
  });
});

describe('a sidecar', () => {
  let api: Api;
  beforeAll(async () => {
    api = await startApi();
  });
  afterAll(() => api?.close());

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

  it('starts again from its folder without the control plane, and delivers its spool', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const first = await startTestSidecar({ api });
    await first.caughtUp();
    first.link.cut();
    const before = await first.check(gate.gate_id, passport.jwt, order);
    expect(before.body.decision).toBe('PERMIT');
    await first.close();

    const second = await startTestSidecar({ api, folder: first.folder, isCutOff: true });
    await until(async () => (await second.call({ path: '/readyz', key: null })).status === 200, {
      what: 'a sidecar that is ready with the state on disk',
    });
    const after = await second.check(gate.gate_id, passport.jwt, order);
    expect(after.body.decision).toBe('PERMIT');
    second.resume();
    for (const { body } of [before, after]) {
      const url = `/v1/attestations/${body.attestation_id}`;
      await until(async () => (await api.call({ url })).status === 200, {
        what: `record ${body.attestation_id}`,
      });
    }
    await second.close();
    first.removeFolder();
  });

  it('gives up its place to another process with its id, and says so', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const old = await startTestSidecar({ api });
    await old.caughtUp();
    const successor = await startTestSidecar({ api, folder: old.folder });
    await until(async () => (await old.call({ path: '/readyz', key: null })).body.control_plane.superseded, {
      what: 'a superseded sidecar',
    });
    expect((await old.call({ path: '/readyz', key: null })).status).toBe(503);
    expectError(await old.check(gate.gate_id, passport.jwt, order), 'service_unavailable');
    expect((await successor.check(gate.gate_id, passport.jwt, order)).body.decision).toBe('PERMIT');
    await old.close();
    await successor.close();
    old.removeFolder();
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

  it('decides nothing once the control plane does not accept its API key any more', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const sidecar = await startTestSidecar({ api });
    await sidecar.caughtUp();
    await api.deps.sql`UPDATE api_keys SET revoked_at_ms = 1 WHERE scopes = '{sidecars:connect}'`;
    const ready = () => sidecar.call({ path: '/readyz', key: null });
    await until(async () => (await ready()).status === 503, { what: 'it is not ready' });
    const refused = await sidecar.check(gate.gate_id, passport.jwt, order);
    expectError(refused, 'service_unavailable');
    expect(refused.body.error.message).toContain('API key');
    await api.deps.sql`UPDATE api_keys SET revoked_at_ms = NULL WHERE scopes = '{sidecars:connect}'`;
    await until(async () => (await ready()).status === 200, { what: 'it is ready again' });
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.decision).toBe('PERMIT');
    await sidecar.close();
    sidecar.removeFolder();
  });

  it('keeps revocations while its clock jumps ahead and back', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport({ expires_in_days: 1 });
    const sidecar = await startTestSidecar({ api });
    await sidecar.caughtUp();
    const revoke = (each: { passport_id: string }) =>
      api.call({ url: `/v1/passports/${each.passport_id}/revoke?wait_ms=2000`, body: {} });
    await revoke(passport);
    sidecar.stopMachineClockAt(Date.now() + 3 * dayMs);
    for (let i = 0; i < 3; i++) await revoke(await api.issuePassport());
    sidecar.resume();
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.reason).toBe('passport_revoked');
    await sidecar.close();
    sidecar.removeFolder();
  });

  it('applies a revocation within two seconds without push', async () => {
    const gate = await api.createGate();
    const sidecar = await startTestSidecar({ api, bus: null });
    await expectWithin(2_000, 'the passport is blocked', async () => {
      const passport = await api.issuePassport();
      await sidecar.caughtUp();
      const check = async () => (await sidecar.check(gate.gate_id, passport.jwt, order)).body;
      expect((await check()).decision).toBe('PERMIT');
      await api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
      return timeUntil(async () => (await check()).reason === 'passport_revoked', 'a BLOCK');
    });
    await sidecar.close();
    sidecar.removeFolder();
  });

  it('answers every key of a suspended account 403', async () => {
    const other = await api.createAccount();
    const sidecar = await startTestSidecar({ api, accountKey: other.key });
    const gate = await api.createGate({}, other.key);
    const passport = await api.issuePassport({}, other.key);
    const check = () => sidecar.check(gate.gate_id, passport.jwt, order, other.key);
    await until(async () => (await check()).status === 200, { what: 'a decision' });
    await api.call({ method: 'PUT', url: `/v1/accounts/${other.accountId}`, body: { status: 'suspended' } });
    await until(async () => (await check()).status === 403, { what: 'a refusal' });
    expectError(await check(), 'account_suspended');
    await sidecar.close();
    sidecar.removeFolder();
  });

  it('blocks passports signed with a compromised key, also cached ones', async () => {
    const own = await startApi();
    const sidecar = await startTestSidecar({ api: own });
    const gate = await own.createGate();
    const passport = await own.issuePassport();
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.decision).toBe('PERMIT');
    const key = own.deps.signingKeys.all().find(({ purpose }) => purpose === 'passport');
    await changeTransaction(own.deps, (_tx, change) =>
      change('global', {
        kind: 'signing_key.put',
        body: { ...must(key, 'a passport key'), compromised: true },
      }),
    );
    await sidecar.caughtUp();
    const reply = await sidecar.check(gate.gate_id, passport.jwt, order);
    expect(reply.body.reason).toBe('passport_unknown_key');
    const url = `/v1/attestations/${reply.body.attestation_id}`;
    await until(async () => (await own.call({ url })).status === 200, { what: 'the record' });
    expect((await own.call({ url })).body).toMatchObject({ chain_id: gate.gate_id, passport_id: null });
    await sidecar.close();
    sidecar.removeFolder();
    await own.close();
  });

  it('blocks passports of a retired key once it is declared compromised, within the bound of a change', async () => {
    const own = await startApi();
    const sidecar = await startTestSidecar({ api: own });
    const gate = await own.createGate();
    const rotate = (body: object) => own.call({ url: '/v1/signing-keys/rotate', body });
    await expectWithin(2_000, 'a BLOCK', async () => {
      const { jwt } = await own.issuePassport();
      const { previous } = (await rotate({ purpose: 'passport' })).body;
      await own.deps.sql`
        UPDATE signing_keys SET not_before_ms = not_before_ms - ${limits.signingKeyLeadMs},
          retired_at_ms = retired_at_ms - ${limits.signingKeyLeadMs}
        WHERE purpose = 'passport'`;
      await own.deps.signingKeys.reload();
      await sidecar.caughtUp();
      const decision = async () => (await sidecar.check(gate.gate_id, jwt, order)).body;
      expect(await decision()).toMatchObject({ decision: 'PERMIT' });
      const declared = await rotate({ purpose: 'passport', compromised: true, kid: previous.kid });
      expect(declared.status).toBe(200);
      return timeUntil(async () => (await decision()).reason === 'passport_unknown_key', 'a BLOCK');
    });
    await sidecar.close();
    sidecar.removeFolder();
    await own.close();
  });
});
