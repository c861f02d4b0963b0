import { beforeAll, describe, expect, it } from 'vitest';
import { recordFormOf } from '../../control-plane/attestations/record-form.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import { noCarried } from '../../shared/model/attestation.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SpooledExtras } from '../../shared/wire/sync/sync.ts';
import { verifyExport } from '../support/data/independent-verifier.mjs';
import { replayText } from '../support/data/replay.ts';
import { sampleCarried } from '../support/data/sample-chains.ts';
import type { Api, Reply } from '../support/service/api.ts';
import { startSidecarPair } from '../support/service/sidecar-pair.ts';
import { connectSidecar, recordOf } from '../support/service/test-sidecar.ts';
import { useStarted } from '../support/service/use-api.ts';

const pair = useStarted(startSidecarPair);
let api: Api;
beforeAll(() => {
  ({ api } = pair);
});

const policyOf = async (gateId: string): Promise<string> => {
  const [row] = await api.deps.sql<{ hash: string }[]>`
    SELECT policy_hash AS hash FROM gate_policies JOIN gates USING (gate_id, policy_version) WHERE gate_id = ${gateId}`;
  return must(row, 'it is kept').hash;
};

async function exported(): Promise<readonly Reply['body'][]> {
  const { body, status } = await api.call({ url: '/v1/attestations/export' });
  expect(status).toBe(200);
  const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
  verifyExport(Buffer.from(body), jwks);
  return String(body)
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

describe('a record of a sidecar', () => {
  it('names the policy, the domain and the age of the state, and its export has the policy', async () => {
    const { gateId, token } = await pair.setUp({ gate: { allowed_domains: ['api.example.com'] } });
    const request = { permission_key: 'orders:create', amount: 1, domain: 'API.example.com' };
    const permit = await pair.check(0, gateId, token, request);
    const block = await pair.check(1, gateId, token, { ...request, domain: 'other.example' });
    expect([permit.body.decision, block.body.decision]).toEqual(['PERMIT', 'BLOCK']);
    const first = await pair.attestation(permit.body.attestation_id);
    const policy_hash = await policyOf(gateId);
    const common = { policy_hash, trust_level: 'L1', asserted: false, approval_id: null, proof: null };
    expect(first).toMatchObject({ ...common, domain: 'api.example.com' });
    expect(first.state_age_ms).toBeGreaterThanOrEqual(0);
    expect(first.state_age_ms).toBeLessThan(60_000);
    expect(await pair.attestation(block.body.attestation_id)).toMatchObject({
      ...common,
      domain: 'other.example',
    });
    const lines = await exported();
    const policy = lines.find((line) => line.policy?.policy_hash === policy_hash)?.policy;
    expect(contentHash(policy.body)).toBe(policy_hash);
    expect(policy.body.constraints).toEqual({ allowed_domains: ['api.example.com'] });
  });

  it('names the policy of its time after the gate has got another one', async () => {
    const { gateId, token } = await pair.setUp({ gate: {} });
    const request = { permission_key: 'orders:create' };
    const before = await policyOf(gateId);
    const old = await pair.check(0, gateId, token, request);
    const constraints = { pii_controls: { mode: 'log_only', types: ['ip_address'] } };
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: { constraints } });
    await pair.caughtUp();
    const after = await policyOf(gateId);
    expect(after).not.toBe(before);
    const now = await pair.check(0, gateId, token, { ...request, domain: '10.1.2.3' });
    expect(await pair.attestation(old.body.attestation_id)).toMatchObject({ policy_hash: before });
    expect(await pair.attestation(now.body.attestation_id)).toMatchObject({
      policy_hash: after,
      // An IP address, which these controls look for.
      domain: null,
    });
  });

  it('is the same where it is settled, and names the approval that it used', async () => {
    const { gateId, token } = await pair.setUp({ gate: { approvals: { above_usd: 1 } } });
    const request = { permission_key: 'orders:create', amount: 5, domain: 'api.example.com' };
    const suspend = (await pair.check(0, gateId, token, request)).body;
    expect(suspend.decision).toBe('SUSPEND');
    await api.call({ method: 'POST', url: `/v1/approvals/${suspend.approval_id}/approve` });
    const asked = { ...request, approval_id: suspend.approval_id };
    const permit = (await pair.check(1, gateId, token, asked)).body;
    expect(permit.decision).toBe('PERMIT');
    const policy_hash = await policyOf(gateId);
    const approval_id = suspend.approval_id;
    expect(await pair.attestation(permit.attestation_id)).toMatchObject({
      ...{ approval_id, policy_hash, trust_level: 'L1', domain: 'api.example.com', asserted: false },
      state_age_ms: expect.any(Number),
    });
    const { attestations } = (await api.call({ url: `/v1/attestations?gate_id=${gateId}&decision=SUSPEND` }))
      .body;
    expect(attestations).toHaveLength(1);
    expect(attestations[0]).toMatchObject({
      ...{ approval_id, policy_hash, trust_level: 'L1', state_age_ms: null },
    });
  });
});

describe('ingest', () => {
  const form2 = { trust_level: 'L1', state_age_ms: 7, extras: { domain: 'api.example.com' } };

  it('takes no policy on trust: one that is not the gate’s is null, and a level must be its own', async () => {
    const { gate_id: gateId } = await api.createGate();
    const other = await api.createGate({ constraints: { allowed_domains: ['x.example'] } });
    const passport = await api.issuePassport();
    const sidecar = await connectSidecar(api);
    const policy_hash = await policyOf(gateId);
    const made = (change: object) => recordOf(api, { gateId, passport }, { ...form2, ...change });
    const hashes = [policy_hash, await policyOf(other.gate_id), `sha256:${'0'.repeat(64)}`];
    const records = hashes.map((hash) => made({ policy_hash: hash }));
    expect((await sidecar.send(1, records, { form: 2 })).status).toBe(200);
    for (const [i, { id }] of records.entries()) {
      const { body } = await api.call({ url: `/v1/attestations/${id}` });
      expect(body).toMatchObject({ policy_hash: i === 0 ? policy_hash : null, state_age_ms: 7 });
    }
    const lie = await sidecar.send(4, [made({ policy_hash, trust_level: 'L3' })], { form: 2 });
    expect(lie.body.error).toMatchObject({ code: 'record_refused' });
    expect(lie.body.error.refused[0].message).toContain('trust_level');
  });

  it('carries the members of a newer sidecar through list, exports and verifiers, and replay judges what it can', async () => {
    const { gate_id: gateId } = await api.createGate();
    const passport = await api.issuePassport();
    const sidecar = await connectSidecar(api);
    const policy_hash = await policyOf(gateId);
    const made = (extras: object) => recordOf(api, { gateId, passport }, { ...form2, policy_hash, extras });
    const names = Object.entries(sampleCarried);
    const records = [...names.map(([name, value]) => made({ [name]: value })), made(sampleCarried), made({})];
    expect((await sidecar.send(1, records, { form: 2 })).status).toBe(200);
    const lines = await exported();
    const whole = records.map(({ id }) => lines.find((line) => line.id === id));
    for (const [place, [name, value]] of names.entries())
      expect(whole[place]).toMatchObject({ ...noCarried, [name]: value });
    expect(whole.slice(-2)).toMatchObject([sampleCarried, noCarried]);
    const { body } = await api.call({ url: `/v1/attestations/${records[7]?.id}` });
    expect(body).toEqual(whole[7]);
    const text = lines.map((line) => JSON.stringify(line)).join('\n');
    // External answers, permit tokens and units, and the record that has all of them.
    expect(replayText(text).unjudged).toMatchObject({ members: 4 });
  });

  it.each([
    [{ conditions: ['Not an id'] }],
    [{ conditions: Array(65).fill('a') }],
    [{ external: { decision: true } }],
    [{ facts: Array(33).fill(sampleCarried.facts?.[0]) }],
    [{ facts: [{ path: '/other/a', commitment: sampleCarried.user }] }],
    [{ facts: [{ path: '/request/\ud800', commitment: sampleCarried.user }] }],
    [{ permit_token: '' }],
    [{ shadow: { policy_hash: sampleCarried.user, decision: 'MAYBE', reason: null, condition: null } }],
    [{ units: { tokens: 0.5 } }],
    [{ units: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`u${i}`, 1])) }],
    [{ user: 'someone' }],
  ])('refuses a member that is not of its type or passes its bound: %o', async (extras) => {
    const passport = await api.issuePassport();
    const sidecar = await connectSidecar(api);
    const record = recordOf(
      api,
      { gateId: null, passport },
      { ...form2, trust_level: null, policy_hash: null, extras: extras as SpooledExtras },
    );
    const { body } = await sidecar.send(1, [record], { form: 2 });
    expect(body.error.refused).toEqual([{ seq: 1, message: 'extras is not valid' }]);
  });

  it('names a policy that was lost with a database once the gate has had the same one again', async () => {
    const { gate_id: gateId } = await api.createGate();
    const same = { constraints: { allowed_domains: ['again.example'] } };
    const policy_hash = await policyOf((await api.createGate(same)).gate_id);
    const passport = await api.issuePassport();
    const sidecar = await connectSidecar(api);
    const named = async (seq: number): Promise<string | null> => {
      const record = recordOf(api, { gateId, passport }, { ...form2, policy_hash });
      expect((await sidecar.send(seq, [record], { form: 2 })).status).toBe(200);
      return (await api.call({ url: `/v1/attestations/${record.id}` })).body.policy_hash;
    };
    expect(await named(1)).toBeNull();
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: same });
    expect(await named(2)).toBe(policy_hash);
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: { constraints: null } });
    expect(await named(3)).toBe(policy_hash);
  });

  it('passes over a record that was shipped in the other form before', async () => {
    const { gate_id: gateId } = await api.createGate();
    const passport = await api.issuePassport();
    const sidecar = await connectSidecar(api);
    const whole = recordOf(
      api,
      { gateId, passport },
      { ...form2, policy_hash: await policyOf(gateId), extras: null },
    );
    const { policy_hash: _1, trust_level: _2, state_age_ms: _3, extras: _4, ...form1 } = whole;
    expect((await sidecar.send(1, [form1])).status).toBe(200);
    expect((await sidecar.send(2, [whole], { form: 2 })).status).toBe(200);
    const { body } = await api.call({ url: `/v1/attestations?passport_id=${passport.passport_id}` });
    expect(body.attestations).toHaveLength(1);
  });

  it('refuses a form that it does not know, as a whole', async () => {
    const sidecar = await connectSidecar(api);
    const record = recordOf(api, { gateId: null, passport: await api.issuePassport() });
    const { status, body } = await sidecar.send(1, [record], { form: 3 as never });
    expect([status, body.error.code, body.error.param]).toEqual([400, 'invalid_request', 'form']);
  });
});

describe('the form of new records', () => {
  const formAt = async (nowMs: number) => {
    const clock = { ...api.deps.clock, now: () => nowMs as UnixMillis };
    return (await recordFormOf(api.deps.sql, { clock, afterMs: 1_000 }))();
  };

  it('is 2 in a new database, and 1 for the time given after an upgrade', async () => {
    expect(await formAt(0)).toBe(2);
    await api.deps.sql`UPDATE record_form SET upgraded_at_ms = 5000`;
    expect([await formAt(5_999), await formAt(6_000)]).toEqual([1, 2]);
    await api.deps.sql`UPDATE record_form SET upgraded_at_ms = NULL`;
  });
});
