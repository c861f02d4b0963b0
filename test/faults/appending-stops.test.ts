import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { InvariantError } from '../../shared/errors/assert.ts';
import { parseMicroUsd } from '../../shared/model/money.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { connectSidecar, recordOf } from '../support/service/test-sidecar.ts';

let api: Api;
beforeEach(async () => {
  api = await startOwnApi();
});
afterEach(() => api.close());

it('appends nothing more after a broken invariant in the appender, and /readyz says so', async () => {
  const { jwt } = await api.issuePassport();
  const gate = await api.createGate();
  const check = () =>
    api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create' } },
    });
  expect((await check()).status).toBe(200);

  const broken = vi.spyOn(api.deps.signingKeys, 'current').mockImplementation(() => {
    throw new InvariantError('a chain that was begun has a head');
  });
  expectError(await check(), 'internal_error');
  broken.mockRestore();
  expect(await api.deps.metrics.metrics()).toMatch(/agent_trust_internal_errors_total\{kind="invariant"\} 1/);

  const refused = await check();
  expectError(refused, 'service_unavailable');
  expect(refused.body.error.message).toContain('restarted');
  const ready = await api.call({ url: '/readyz', key: null });
  expect([ready.status, ready.body.appending]).toEqual([503, 'stopped']);
  // What appends nothing goes on.
  expect((await api.call({ url: '/v1/gates' })).status).toBe(200);
  const [row] = await api.deps.sql<{ n: number }[]>`SELECT count(*) AS n FROM attestations`;
  expect(row?.n).toBe(1);
});

it('goes on after a fault in what hangs on a record: only its own batch fails', async () => {
  const passport = await api.issuePassport();
  const gate = await api.createGate();
  const sidecar = await connectSidecar(api);
  await api.deps.sql.unsafe(`
    CREATE FUNCTION break_use() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'what a test breaks'; END $$;
    CREATE TRIGGER break_use BEFORE INSERT OR UPDATE ON gate_use FOR EACH ROW
    WHEN (NEW.gate_id = '${gate.gate_id}') EXECUTE FUNCTION break_use()`);
  const spending = recordOf(
    api,
    { gateId: gate.gate_id, passport },
    { amount_micro_usd: parseMicroUsd(1_000_000) },
  );
  expectError(await sidecar.send(1, [spending]), 'internal_error');

  const elsewhere = await api.createGate();
  const check = await api.call({
    url: `/v1/gates/${elsewhere.gate_id}/check`,
    body: { passport: passport.jwt, request: { permission_key: 'orders:create' } },
  });
  expect(check.body.decision).toBe('PERMIT');
  expect((await api.call({ url: '/readyz', key: null })).status).toBe(200);
});
