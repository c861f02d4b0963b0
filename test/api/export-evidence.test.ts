import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset, parseJwks } from '../../shared/crypto/keyset.ts';
import { evidenceLimits } from '../../shared/wire/evidence/evidence.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { verdictOf } from '../support/data/verify-export.ts';
import { type LoggedIn, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { exportText } from '../support/service/exports.ts';
import { giveAnswer, registerPasskey, signAnswer } from '../support/service/signed-answers.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { approveAhead, order } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(() => startOwnApi({ origin: 'http://localhost:8080' }));
let ada: LoggedIn;
beforeAll(async () => {
  goToNoon(api);
  ada = await api.createUser({ role: 'approver' });
});
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
});

const check = async (gateId: string, passport: string, request: object) =>
  (await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } })).body;

const exported = (format: 'json' | 'jsonl' = 'jsonl') => exportText(api, `?format=${format}`);

/** What the verifier says with the engines of the service and with WebCrypto, and what another one says. */
async function verdictsOf(file: string) {
  const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
  const ours = await verdictOf(file.trimEnd().split('\n'), keyset(chooseEd25519(), parseJwks(jwks)));
  const client = await verifyAttestations(file, jwks);
  let another: string | null = null;
  try {
    verifyExport(Buffer.from(file), jwks);
  } catch (error) {
    another = (error as Error).message;
  }
  return {
    ours: ours.kind === 'valid' ? null : ours.fault,
    client: client.valid ? null : client.fault,
    another,
  };
}
const allValid = { ours: null, client: null, another: null };

// biome-ignore lint/suspicious/noExplicitAny: lines of several kinds
type Line = any;
const linesOf = (file: string): Line[] =>
  file
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const attached = (file: string, kind: 'policy' | 'catalog' | 'passport' | 'approval'): Line[] =>
  linesOf(file).flatMap((line) => (kind in line ? [line[kind].body ?? line[kind]] : []));

describe('an export', () => {
  it('carries the passports of its records as issued, with what became of them', async () => {
    const { gate_id: gateId } = await api.createGate();
    const constraints = { spend_limits: { daily_usd: 5.5 } };
    const issued = await api.issuePassport({ agent_name: 'Größe 😀', constraints, owner: 'team-7' });
    const id: string = issued.passport_id;
    const unused = await api.issuePassport();
    await check(gateId, issued.jwt, order(1));
    for (const move of ['suspend', 'reactivate', 'suspend', 'revoke']) {
      api.advance(1_000);
      const moved = await api.call({ url: `/v1/passports/${id}/${move}`, body: {} });
      expect(moved.status).toBe(200);
    }
    const file = await exported();
    expect(await verdictsOf(file)).toEqual(allValid);
    const passports = attached(file, 'passport');
    expect(passports.map(({ passport_id }) => passport_id)).not.toContain(unused.passport_id);
    const passport = passports.find(({ passport_id }) => passport_id === id);
    expect(passport).toMatchObject({
      agent_name: 'Größe 😀',
      owner: 'team-7',
      permissions: issued.permissions,
      constraints,
      public_key: issued.public_key,
      issued_at: issued.issued_at,
      status_changes_omitted: 0,
      status_changes: [
        { status: 'suspended' },
        { status: 'active' },
        { status: 'suspended' },
        { status: 'revoked' },
      ],
    });
    const times = passport.status_changes.map(({ at }: { at: string }) => Date.parse(at));
    for (const [i, time] of times.slice(1).entries()) expect(time).toBeGreaterThanOrEqual(times[i] + 1_000);
    expect(await verdictsOf(await exported('json'))).toMatchObject({ ours: null, client: null });
  });

  it('names the newest changes of a passport that had too many', async () => {
    const { gate_id: gateId } = await api.createGate();
    const { passport_id: id, jwt } = await api.issuePassport();
    await check(gateId, jwt, order(1));
    for (const move of ['suspend', 'reactivate'])
      await api.call({ url: `/v1/passports/${id}/${move}`, body: {} });
    const { sql } = api.deps;
    const far = 1_000_000_000;
    await sql`
      INSERT INTO audit_entries
      SELECT (jsonb_populate_record(e, jsonb_build_object('sequence', ${far}::bigint + n,
        'created_at_ms', e.created_at_ms + n))).*
      FROM audit_entries e, generate_series(1, ${evidenceLimits.statusChangesMax}) n
      WHERE target = ${id} AND operation = 'reactivatePassport'`;
    try {
      const file = await exported();
      const [passport] = attached(file, 'passport').filter(({ passport_id }) => passport_id === id);
      expect(passport.status_changes).toHaveLength(evidenceLimits.statusChangesMax);
      expect(passport.status_changes_omitted).toBe(2);
      expect(Math.max(...file.split('\n').map((line) => line.length))).toBeLessThan(1024 * 1024);
    } finally {
      await sql`DELETE FROM audit_entries WHERE sequence > ${far}`;
    }
  });

  it('carries the catalog that a policy names, also of a gate that is gone', async () => {
    const catalog = { permissions: [{ key: 'orders:create', requires_approval: false }], note: 'é' };
    const gate = await api.createGate({ catalog });
    const { jwt } = await api.issuePassport();
    await check(gate.gate_id, jwt, order(1));
    const deleted = await api.call({ method: 'DELETE', url: `/v1/gates/${gate.gate_id}` });
    expect(deleted.status).toBe(200);
    const file = await exported();
    expect(await verdictsOf(file)).toEqual(allValid);
    const [found] = attached(file, 'catalog').filter(({ gate_id }) => gate_id === gate.gate_id);
    expect(found).toMatchObject({ note: 'é', version: 1 });
    const names = attached(file, 'policy').map(({ catalog_hash }) => catalog_hash);
    expect(names).toContain(found.content_hash);
  });

  it('carries approvals with the signed answers of people', async () => {
    const made = await registerPasskey(api, ada);
    const gate = await api.createGate({ constraints: { approvals: { above_usd: 1, passkey: true } } });
    const { jwt, passport_id: passportId } = await api.issuePassport();
    const asked = await check(gate.gate_id, jwt, order(5));
    expect(asked).toMatchObject({ decision: 'SUSPEND' });
    const id: string = asked.approval_id;
    const assertion = await signAnswer(api, { person: ada, made, id }, 'approved');
    expect((await giveAnswer(api, ada, { id, answer: 'approved' }, assertion)).status).toBe(200);
    expect(await check(gate.gate_id, jwt, order(5, { approval_id: id }))).toMatchObject({
      decision: 'PERMIT',
    });
    const file = await exported();
    expect(await verdictsOf(file)).toEqual(allValid);
    const [approval] = attached(file, 'approval').filter(({ approval_id }) => approval_id === id);
    expect(approval).toMatchObject({
      passport_id: passportId,
      answers: [
        { user_id: ada.userId, answer: 'approved', undone_at: null, assertion: { rp_id: 'localhost' } },
      ],
      answers_omitted: 0,
    });
    expect(file).not.toContain('"note":null');
  });

  it('verifies where money of a PERMIT went back that an approval had allowed', async () => {
    const gate = await api.createGate({ constraints: { approvals: { above_usd: 1 } } });
    const { jwt } = await api.issuePassport();
    const permit = async (request: object) => {
      const { approval_id: id } = await check(gate.gate_id, jwt, { ...order(5), ...request });
      const approved = await api.call({ url: `/v1/approvals/${id}/approve`, body: {} });
      expect(approved.status).toBe(200);
      const permitted = await check(gate.gate_id, jwt, { ...order(5, { approval_id: id }), ...request });
      expect(permitted).toMatchObject({ decision: 'PERMIT' });
      return { id, attestationId: permitted.attestation_id as string };
    };
    const change = async (path: string, body: object) => {
      const { status, body: answer } = await api.call({ url: `/v1/attestations/${path}`, body });
      expect(status, JSON.stringify(answer)).toBeLessThan(300);
    };
    const paid = await permit({ note: 'paid' });
    await change(`${paid.attestationId}/refund`, { amount: 2 });
    const held = await permit({ hold: true });
    await change(`${held.attestationId}/outcome`, { outcome: 'served', amount: 1 });
    const failed = await permit({ hold: { expires_in_s: 60 } });
    await change(`${failed.attestationId}/outcome`, { outcome: 'failed' });
    const file = await exported();
    const counted = linesOf(file)
      .filter(({ decision, resolution }) => decision === 'PERMIT' && resolution !== null)
      .map((line) => [line.approval_id, line.resolution, line.amount_micro_usd]);
    expect(counted).toEqual([
      [paid.id, 'refunded', 3e6],
      [held.id, 'settled', 1e6],
      [failed.id, 'released', 0],
    ]);
    expect(await verdictsOf(file)).toEqual(allValid);
    expect(await verdictsOf(await exported('json'))).toMatchObject({ ours: null, client: null });
  });

  it('carries standing approvals, and states an approval that was removed', async () => {
    const gate = await api.createGate({ constraints: { approvals: { above_usd: 1 } } });
    const { jwt, passport_id: passportId } = await api.issuePassport();
    const about = { gate_id: gate.gate_id, passport_id: passportId };
    const { standing_approval_id: standing } = await approveAhead(api, about);
    expect(await check(gate.gate_id, jwt, order(5))).toMatchObject({ decision: 'PERMIT' });
    const asked = await check(gate.gate_id, jwt, order(500));
    const denied = await api.call({
      url: `/v1/approvals/${asked.approval_id}/deny`,
      body: { note: 'secret' },
    });
    expect(denied.status).toBe(200);
    const file = await exported();
    expect(await verdictsOf(file)).toEqual(allValid);
    expect(file).not.toContain('secret');
    const find = (text: string, id: string) =>
      attached(text, 'approval').find(({ approval_id }) => approval_id === id);
    expect(find(file, standing)).toMatchObject({ passport_id: passportId, each_micro_usd: 10e6 });
    const owned = await approveAhead(api, { gate_id: gate.gate_id, owner: 'team' });
    const ofTeam = [await api.issuePassport({ owner: 'team' }), await api.issuePassport({ owner: 'team' })];
    for (const each of ofTeam)
      expect(await check(gate.gate_id, each.jwt, order(5))).toMatchObject({ decision: 'PERMIT' });
    const both = await exported();
    expect(await verdictsOf(both)).toEqual(allValid);
    expect(
      attached(both, 'approval').filter(({ approval_id }) => approval_id === owned.standing_approval_id),
    ).toMatchObject(ofTeam.map(({ passport_id }) => ({ passport_id, owner: 'team' })));
    const { sql } = api.deps;
    await sql`UPDATE approvals SET approval_id = 'gone' WHERE approval_id = ${asked.approval_id}`;
    const later = await exported();
    expect(find(later, asked.approval_id)).toEqual({
      ...{ approval_id: asked.approval_id, passport_id: passportId, removed: true },
    });
    expect(await verdictsOf(later)).toEqual(allValid);
    await sql`UPDATE approvals SET approval_id = ${asked.approval_id} WHERE approval_id = 'gone'`;
  });
});
