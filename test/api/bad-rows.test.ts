import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { operationsRoutes } from '../../control-plane/operations/routes.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { until } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

describe('a row that cannot be used', () => {
  it('costs its gate alone, which is named in log, /readyz and /metrics', async () => {
    const bad = await api.createGate();
    const good = await api.createGate();
    const { jwt } = await api.issuePassport({ permissions: ['a:b'] });
    await api.deps.sql`UPDATE gates SET constraints = '{"moon": 1}' WHERE gate_id = ${bad.id}`;
    const log = keptLog();
    const sidecar = await startTestSidecar({ api, logger: log });
    await sidecar.caughtUp();
    const decide = (id: string) => sidecar.check(id, jwt, { permission_key: 'a:b' });
    expect((await decide(good.id)).body.decision).toBe('PERMIT');
    expect((await decide(bad.id)).status).toBe(404);

    const { body, status } = await sidecar.call({ path: '/readyz' });
    expect(status).toBe(200);
    expect(body.state).toMatchObject({
      bad_row_count: 1,
      bad_rows: [{ of: 'gate', id: bad.id, reason: expect.stringContaining('moon') }],
    });
    expect((await sidecar.call({ path: '/metrics' })).body).toContain('agent_trust_sidecar_bad_rows 1');
    const told = log.lines.filter(({ message }) => message.startsWith('cannot be used'));
    expect(told).toMatchObject([{ level: 'error', fields: { of: 'gate', id: bad.id } }]);

    // It is put right by a change, like any other.
    await api.deps.sql`UPDATE gates SET constraints = '{}' WHERE gate_id = ${bad.id}`;
    await api.call({ method: 'PUT', url: `/v1/gates/${bad.id}`, body: { name: 'right again' } });
    await sidecar.caughtUp();
    expect((await decide(bad.id)).body.decision).toBe('PERMIT');
    expect((await sidecar.call({ path: '/readyz' })).body.state.bad_rows).toEqual([]);
    await sidecar.close();
    sidecar.removeFolder();
  });
});

describe('a list', () => {
  /** Past what a Date can say. */
  const noTime = 9_000_000_000_000_000;

  it('leaves out a row that cannot be read, names it in the log, and goes on after it', async () => {
    const log = keptLog();
    const own = await startOwnApi({ logger: log });
    const { sql } = own.deps;
    const three = async (make: () => Promise<string>) => [await make(), await make(), await make()] as const;
    const gates = await three(async () => (await own.createGate()).gate_id);
    const issuers = await three(async () => (await own.createIssuer()).issuer_id);
    for (const [path, name, made] of [
      ['gates', 'gate', gates],
      ['issuers', 'issuer', issuers],
    ] as const) {
      const [, bad] = made;
      if (name === 'gate') await sql`UPDATE gates SET constraints = '{"moon": 1}' WHERE gate_id = ${bad}`;
      else await sql`UPDATE issuers SET created_at_ms = ${noTime} WHERE issuer_id = ${bad}`;
      log.lines.length = 0;
      const whole = await own.call({ url: `/v1/${path}` });
      const idsOf = (items: readonly Record<string, string>[]) => items.map((item) => item[`${name}_id`]);
      expect(whole.status, path).toBe(200);
      const ids = idsOf(whole.body.items);
      expect(ids).toEqual(expect.arrayContaining([made[0], made[2]]));
      expect(ids).not.toContain(made[1]);
      expect(whole.body.total).toBe(ids.length + 1);
      const told = log.lines.filter(({ level }) => level === 'error');
      expect(told).toMatchObject([
        {
          level: 'error',
          fields: { of: name, count: 1, rows: [{ id: made[1], reason: expect.any(String) }] },
        },
      ]);
      // Page by page the same, also where the bad one ends a page.
      const walked: unknown[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page = await own.call({ url: `/v1/${path}?limit=1${cursor && `&cursor=${cursor}`}` });
        walked.push(...idsOf(page.body.items));
        cursor = page.body.next_cursor;
      }
      expect(walked).toEqual(ids);
    }
    await own.close();
  });
});

describe('a passport or a gate whose constraints cannot be read', () => {
  const sidecar = useSidecar(() => ({ api }));

  it('of a passport: it is listed and revoked like others, and holds up no record of others', async () => {
    const gate = await api.createGate();
    const bad = await api.issuePassport();
    const good = await api.issuePassport();
    await sidecar.caughtUp();
    await api.deps
      .sql`UPDATE passports SET constraints = '{"rate_limits": 5}' WHERE passport_id = ${bad.passport_id}`;
    const ask = async ({ jwt }: { readonly jwt: string }) => {
      const { body } = await sidecar.check(gate.gate_id, jwt, { permission_key: 'orders:create' });
      expect(body.decision).toBe('PERMIT');
      return body.attestation_id;
    };
    const unreadable = await ask(bad);
    const readable = await ask(good);
    const found = async (id: string) => (await api.call({ url: `/v1/attestations/${id}` })).status;
    await until(async () => (await found(readable)) === 200, { what: 'the record of the good one' });
    // Nobody can say that it is true: its sidecar keeps it, with the reason.
    expect(await found(unreadable)).toBe(404);
    const folder = join(sidecar.folder, 'spool', 'refused');
    const kept = readdirSync(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
    expect(kept.join('')).toContain('the constraints in the row of passport_id cannot be read');

    const { items } = (await api.call({ url: '/v1/passports?limit=200' })).body;
    expect(items).toContainEqual(expect.objectContaining({ passport_id: bad.passport_id }));
    const revoked = await api.call({
      ...{ method: 'POST', url: `/v1/passports/${bad.passport_id}/revoke`, body: { reason: 'leaked' } },
    });
    expect(revoked).toMatchObject({ status: 200, body: { status: 'revoked' } });
    await sidecar.caughtUp();
    const after = await sidecar.check(gate.gate_id, bad.jwt, { permission_key: 'orders:create' });
    expect(after.body.reason).toBe('passport_revoked');
  });

  it('of a passport: no other settlement is affected', async () => {
    const gate = await api.createGate();
    const [bad, good] = [await api.issuePassport(), await api.issuePassport()];
    await sidecar.caughtUp();
    await api.deps
      .sql`UPDATE passports SET constraints = '{"rate_limits": 5}' WHERE passport_id = ${bad.passport_id}`;
    const keyed = ({ jwt }: { readonly jwt: string }, key: string) => {
      const request = { permission_key: 'orders:create', idempotency_key: key };
      return sidecar.check(gate.gate_id, jwt, request);
    };
    // The first travels alone, and those that come meanwhile in one call.
    const before = [keyed(good, 'a'), keyed(good, 'b'), keyed(good, 'c')];
    const refused = keyed(bad, 'd');
    const after = [keyed(good, 'e'), keyed(good, 'f'), keyed(good, 'g')];
    for (const each of [...before, ...after]) expect((await each).body.decision).toBe('PERMIT');
    expect((await refused).body.decision).not.toBe('PERMIT');
  });

  it('of a gate: it lends no units, and keeps no other gate from its own', async () => {
    const constraints = { rate_limits: { requests_per_day: 100 } };
    const bad = await api.createGate({ constraints });
    const good = await api.createGate({ constraints });
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    await api.deps.sql`UPDATE gates SET constraints = '{"moon": 1}' WHERE gate_id = ${bad.gate_id}`;
    const ask = ({ gate_id }: { readonly gate_id: string }) =>
      sidecar.check(gate_id, jwt, { permission_key: 'orders:create' });
    // Asked in one turn: both go with one call.
    const [blocked, permitted] = await Promise.all([ask(bad), ask(good)]);
    expect(permitted.body.decision).toBe('PERMIT');
    // Its limit may be on its way here, for all that the sidecar knows.
    expect(blocked.body.error?.code).toBe('overloaded');
  });

  it('of a gate: it keeps no record of money out of its chain', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    // Of a limit of which somebody would be alerted, if it could be read.
    const bad = '{"moon": 1, "spend_limits": {"daily_usd": 100}}';
    await api.deps.sql`UPDATE gates SET constraints = ${bad}::text::jsonb WHERE gate_id = ${gate.gate_id}`;
    const request = { permission_key: 'orders:create', amount: 1 };
    const { body } = await sidecar.check(gate.gate_id, jwt, request);
    expect(body.decision).toBe('PERMIT');
    const url = `/v1/attestations/${body.attestation_id}`;
    await until(async () => (await api.call({ url })).status === 200, { what: 'its record' });
  });
});

describe('/readyz', () => {
  it('is asked a hundred times and logs each change once', async () => {
    const log = keptLog();
    const { default: Fastify } = await import('fastify');
    const app = Fastify();
    const draining = { isDraining: false };
    await app.register(operationsRoutes({ ...api.deps, draining, logger: log }));
    const probe = () => app.inject('/readyz');
    const probeOften = () => Promise.all(Array.from({ length: 50 }, probe));
    await probeOften();
    expect(log.lines).toEqual([]);
    draining.isDraining = true;
    await probeOften();
    await probeOften();
    draining.isDraining = false;
    await probeOften();
    await until(async () => (await probe()).statusCode === 200, { what: 'it is ready' });
    expect(log.lines.map(({ message }) => message)).toEqual(['not ready', 'ready again']);
    await app.close();
  });
});
