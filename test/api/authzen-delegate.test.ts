import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { makeAgentKey, proofFor } from '../support/data/proofs.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const both = ['enforcement:check', 'enforcement:delegate'];
const api = useApi();
const sidecar = useSidecar(() => ({ api }));
/** May name subjects. */
let key: string;
beforeAll(async () => {
  ({ key } = await api.createKey({ scopes: both }));
});

const evaluate = (body: unknown, more: object = {}): Promise<Reply> =>
  api.call({ url: '/access/v1/evaluation', body, key, ...more });
const evaluateAll = (body: unknown, more: object = {}): Promise<Reply> =>
  api.call({ url: '/access/v1/evaluations', body, key, ...more });

async function setUp(gate: object = {}, passport: object = {}, adminKey = api.adminKey) {
  const { gate_id } = await api.createGate(gate, adminKey);
  const issued = await api.issuePassport(passport, adminKey);
  return {
    issued,
    gateId: gate_id,
    evaluation: {
      subject: { type: 'agent', id: issued.agent_id },
      action: { name: 'orders:create', properties: { amount: 5 } },
      resource: { type: 'gate', id: gate_id },
      context: { note: 'hello' },
    },
  };
}

describe('a subject without a token', () => {
  it.each([
    ['agent', 'agent_id'],
    ['user', 'passport_id'],
  ] as const)('of type %s is found by its %s, charged, and recorded in its chain', async (type, name) => {
    const { evaluation, issued } = await setUp({
      constraints: { spend_limits: { daily_usd: 8 }, approvals: { above_usd: 100 } },
    });
    const subject = { type, id: issued[name] };
    const permitted = await evaluate({ ...evaluation, subject });
    expect(permitted.body).toMatchObject({ decision: true, context: { decision: 'PERMIT' } });
    const record = (await api.call({ url: `/v1/attestations/${permitted.body.context.attestation_id}` }))
      .body;
    expect(record).toMatchObject({
      ...{ chain_id: issued.passport_id, source: 'control-plane', asserted: true, trust_level: 'L1' },
    });
    const again = await evaluate({ ...evaluation, subject });
    expect(again.body).toMatchObject({ decision: false, context: { reason: 'spend_limit_exceeded' } });
  });

  it('is decided as its token would be, by the same request hash', async () => {
    const { evaluation, issued, gateId } = await setUp();
    const named = (await evaluate(evaluation)).body.context.attestation_id;
    const request = { permission_key: 'orders:create', amount: 5, note: 'hello' };
    const body = { passport: issued.jwt, request };
    const checked = (await api.call({ url: `/v1/gates/${gateId}/check`, body })).body.attestation_id;
    const hashes = await Promise.all(
      [named, checked].map(
        async (id) => (await api.call({ url: `/v1/attestations/${id}` })).body.request_hash,
      ),
    );
    expect(hashes[0]).toBe(hashes[1]);
    const record = (await api.call({ url: `/v1/attestations/${checked}` })).body;
    expect(record.asserted).toBe(false);
  });

  it('needs enforcement:delegate', async () => {
    const { evaluation, issued } = await setUp();
    const { key: plain } = await api.createKey({ scopes: ['enforcement:check'] });
    const refused = await evaluate(evaluation, { key: plain });
    expectError(refused, 'insufficient_scope', 'subject.properties.passport');
    const several = await evaluateAll({ ...evaluation, evaluations: [{}] }, { key: plain });
    expect(several.body.evaluations).toMatchObject([
      { decision: false, context: { error: { code: 'insufficient_scope' } } },
    ]);
    const shown = { ...evaluation.subject, properties: { passport: issued.jwt } };
    expect((await evaluate({ ...evaluation, subject: shown }, { key: plain })).body.decision).toBe(true);
    const { key: alone } = await api.createKey({ scopes: ['enforcement:delegate'] });
    expectError(await evaluate(evaluation, { key: alone }), 'insufficient_scope');
  });

  it('counts as L1: a gate of L2 wants its token, whatever its tier', async () => {
    const { evaluation, issued } = await setUp({ trust_level: 'L2' }, { trust_tier: 'L3' });
    expect((await evaluate(evaluation)).body).toMatchObject({
      decision: false,
      context: { reason: 'trust_level_insufficient' },
    });
    const shown = { ...evaluation.subject, properties: { passport: issued.jwt } };
    expect((await evaluate({ ...evaluation, subject: shown })).body.decision).toBe(true);
  });

  it('proves no possession, also with a proof in its request', async () => {
    const demanding = { constraints: { proof_of_possession: 'required' } };
    const { evaluation } = await setUp(demanding);
    expect((await evaluate(evaluation)).body.context.reason).toBe('proof_missing');
    const proof = { dpop: 'a.b.c', method: 'POST', url: 'https://shop.example.com/' };
    const withProof = { ...evaluation, context: { ...evaluation.context, proof } };
    expect((await evaluate(withProof)).body.context.reason).toBe('proof_invalid');
    const ofPassport = await setUp({}, demanding);
    expect((await evaluate(ofPassport.evaluation)).body.context.reason).toBe('proof_missing');
  });

  it('draws on its wallet', async () => {
    const wallet = await api.call({ url: '/v1/wallets', body: { name: 'pot', limits: { daily_usd: 8 } } });
    expect(wallet.status, JSON.stringify(wallet.body)).toBe(201);
    const { evaluation } = await setUp({}, { wallet_id: wallet.body.wallet_id });
    const permitted = await evaluate(evaluation);
    expect(permitted.body.decision).toBe(true);
    const record = await api.call({ url: `/v1/attestations/${permitted.body.context.attestation_id}` });
    expect(record.body).toMatchObject({ wallet_id: wallet.body.wallet_id, asserted: true });
    expect((await evaluate(evaluation)).body.context.reason).toBe('wallet_limit_exceeded');
    const url = `/v1/wallets/${wallet.body.wallet_id}/freeze`;
    await api.call({ method: 'POST', url, body: {} });
    expect((await evaluate(evaluation)).body.context.reason).toBe('wallet_frozen');
  });

  it('is refused by its own state, and recorded so', async () => {
    const { evaluation, issued } = await setUp();
    const act = (verb: string) =>
      api.call({ method: 'POST', url: `/v1/passports/${issued.passport_id}/${verb}`, body: {} });
    await act('suspend');
    expect((await evaluate(evaluation)).body.context.reason).toBe('passport_suspended');
    await act('reactivate');
    expect((await evaluate(evaluation)).body.decision).toBe(true);
    await act('revoke');
    const blocked = await evaluate(evaluation);
    expect(blocked.body).toMatchObject({ decision: false, context: { reason: 'passport_revoked' } });
    const record = await api.call({ url: `/v1/attestations/${blocked.body.context.attestation_id}` });
    expect(record.body.chain_id).toBe(issued.passport_id);
    // Another passport of the agent takes its name over.
    const next = await api.issuePassport({ agent_id: issued.agent_id });
    const taken = await evaluate(evaluation);
    const chain = await api.call({ url: `/v1/attestations/${taken.body.context.attestation_id}` });
    expect([taken.body.decision, chain.body.chain_id]).toEqual([true, next.passport_id]);
  });

  it('is refused when it has expired, its key or issuer is bad, or its gate trusts others', async () => {
    const issuer = await api.createIssuer();
    const { evaluation } = await setUp({}, { issuer_id: issuer.issuer_id });
    await api.call({ method: 'PUT', url: `/v1/issuers/${issuer.issuer_id}`, body: { status: 'suspended' } });
    expect((await evaluate(evaluation)).body.context.reason).toBe('issuer_untrusted');
    const other = await api.createIssuer();
    const elsewhere = await setUp({ constraints: { trusted_issuers: [other.issuer_id] } });
    expect((await evaluate(elsewhere.evaluation)).body.context.reason).toBe('issuer_untrusted');

    const own = await startOwnApi();
    try {
      const resource = { type: 'gate', id: (await own.createGate()).gate_id };
      const reasonOf = async ({ agent_id }: { agent_id: string }) => {
        const body = { ...evaluation, subject: { type: 'agent', id: agent_id }, resource };
        return (await own.call({ url: '/access/v1/evaluation', body })).body.context.reason;
      };
      const passport = await own.issuePassport({ expires_in: '60s' });
      const ofBadKey = await own.issuePassport();
      own.advance(61_000);
      expect(await reasonOf(passport)).toBe('passport_expired');
      expect(await reasonOf(ofBadKey)).toBeNull();
      await own.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'passport', compromised: true } });
      expect(await reasonOf(ofBadKey)).toBe('passport_unknown_key');
    } finally {
      await own.close();
    }
  });

  it('is not found by names that nobody has, however long or strange', async () => {
    const { evaluation } = await setUp();
    const unknown = makeId('pass', 1 as UnixMillis, new Uint8Array(10));
    const names = ['', '%', 'x'.repeat(50_000), '\u0000', "'; --", unknown];
    for (const id of names) {
      const reply = await evaluate({ ...evaluation, subject: { type: 'user', id } });
      expect([reply.status, id.length]).toEqual([404, id.length]);
    }
    const refused = async (subject: unknown, param: string) =>
      expectError(await evaluate({ ...evaluation, subject }), 'invalid_request', param);
    for (const id of [null, {}]) await refused({ type: 'user', id }, 'subject.id');
    await refused({ type: 'robot', id: 'x' }, 'subject.type');
    await refused({ type: 'user', id: 'x', properties: { passport: 'y' } }, 'subject.type');
  });

  it('is decided among others in one batch, each for itself', async () => {
    const one = await setUp();
    const two = await api.issuePassport({ permissions: ['orders:read'] });
    const reply = await evaluateAll({
      ...one.evaluation,
      evaluations: [
        {},
        { subject: { type: 'user', id: two.agent_id } },
        { subject: { type: 'user', id: 'nobody' } },
        { subject: { type: 'agent', id: one.issued.agent_id, properties: { passport: one.issued.jwt } } },
      ],
    });
    const told = reply.body.evaluations.map(
      ({ decision, context }: Reply['body']) => `${decision} ${context.error?.code ?? context.reason}`,
    );
    expect(told).toEqual([
      'true null',
      'false permission_not_granted',
      'false passport_not_found',
      'true null',
    ]);
  });
});

describe('a caller that may name subjects, and lies', () => {
  const token = (jwt: string) => ({ properties: { passport: jwt } });

  it('cannot tell names of other accounts and modes from names that nobody has', async () => {
    const { evaluation } = await setUp();
    const other = await api.createAccount();
    const theirs = await api.issuePassport({ agent_id: randomUUID() }, other.key);
    const admin = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const inTest = await api.issuePassport({ agent_id: randomUUID() }, admin.key);
    const unknown = makeId('pass', 1 as UnixMillis, new Uint8Array(10));
    const ids = [theirs.passport_id, theirs.agent_id, inTest.passport_id, inTest.agent_id, unknown];
    const told = async (id: string) => {
      const reply = await evaluate({ ...evaluation, subject: { type: 'user', id } });
      const { request_id: _own, ...error } = reply.body.error;
      return { status: reply.status, error };
    };
    const [first, ...others] = await Promise.all(ids.map(told));
    expect(first).toMatchObject({ status: 404, error: { code: 'passport_not_found' } });
    for (const answer of others) expect(answer).toEqual(first);
  });

  it('makes no passport of an id at any other way in', async () => {
    const { issued, gateId } = await setUp();
    await sidecar.caughtUp();
    const request = { permission_key: 'orders:create', amount: 5 };
    for (const passport of [issued.passport_id, issued.agent_id]) {
      const check = { passport, request };
      const batch = { checks: [check] };
      const path = `/v1/gates/${gateId}/check`;
      const stream = await StreamClient.open(sidecar.origin, api.adminKey);
      const answers = [
        (await api.call({ url: path, body: check })).body,
        (await api.call({ url: '/v1/enforce', body: check })).body,
        (await sidecar.call({ path, body: check })).body,
        (await sidecar.call({ path: `${path}/batch`, body: batch })).body.results[0],
        await stream.ask({ gate_id: gateId, ...check }),
      ];
      await stream.leave();
      for (const answer of answers)
        expect(answer).toMatchObject({ decision: 'BLOCK', reason: 'passport_malformed' });
      const shown = { type: 'agent', id: issued.agent_id, ...token(passport) };
      const resource = { type: 'gate', id: gateId };
      const body = { subject: shown, action: { name: 'orders:create' }, resource };
      for (const reply of [await evaluate(body), await sidecar.call({ path: '/access/v1/evaluation', body })])
        expect(reply.body).toMatchObject({ decision: false, context: { reason: 'passport_malformed' } });
      const tested = { passport_token: passport, context: request };
      const gateTest = await api.call({ url: `/v1/gates/${gateId}/test`, body: tested });
      expect(gateTest.body).toMatchObject({ decision: 'block' });
    }
  });

  it('names another subject than the token that it shows: neither is decided on', async () => {
    const { evaluation, issued } = await setUp();
    const other = await api.issuePassport();
    for (const id of [other.agent_id, other.passport_id]) {
      const subject = { type: 'agent', id, ...token(issued.jwt) };
      expectError(await evaluate({ ...evaluation, subject }), 'invalid_request', 'subject.id');
      const all = await evaluateAll({ ...evaluation, evaluations: [{ subject }, {}] });
      expect(all.body.evaluations).toMatchObject([
        { decision: false, context: { error: { code: 'invalid_request' } } },
        { decision: true },
      ]);
    }
    // A token that is bad is not made good by the name beside it.
    const bad = { ...evaluation.subject, ...token(`${issued.jwt.slice(0, -6)}AAAAAA`) };
    const refused = await evaluate({ ...evaluation, subject: bad });
    expect(refused.body).toMatchObject({
      decision: false,
      context: { reason: 'passport_signature_invalid' },
    });
    const records = await api.call({ url: `/v1/attestations?passport_id=${other.passport_id}` });
    expect(records.body.attestations).toEqual([]);
  });

  it.each([
    ['a gate of L2', { trust_level: 'L2' }, 'trust_level_insufficient'],
    ['a gate that demands proof', { constraints: { proof_of_possession: 'required' } }, 'proof_missing'],
  ])('gets no copy of the PERMIT that the token has got at %s', async (_name, gate, reason) => {
    const key = makeAgentKey();
    const passport = { trust_tier: 'L3', public_key: key.publicJwk };
    const { evaluation, issued } = await setUp(gate, passport);
    const context = { ...evaluation.context, idempotency_key: `once-${issued.agent_id}` };
    const subject = { ...evaluation.subject, ...token(issued.jwt) };
    const proof = proofFor({ jwt: issued.jwt, key });
    const permitted = await evaluate({ ...evaluation, subject, context: { ...context, proof } });
    expect(permitted.body.decision, JSON.stringify(permitted.body)).toBe(true);
    const named = await evaluate({ ...evaluation, context });
    expect(named.body).toMatchObject({ decision: false, context: { reason } });
    expect(named.body.context.attestation_id).not.toBe(permitted.body.context.attestation_id);
    const record = await api.call({ url: `/v1/attestations/${named.body.context.attestation_id}` });
    expect(record.body).toMatchObject({ decision: 'BLOCK', asserted: true });
  });

  it('does not use up an approval that the token has got at a gate of L2', async () => {
    const constraints = { approvals: { above_usd: 1 } };
    const { evaluation, issued } = await setUp({ trust_level: 'L2', constraints }, { trust_tier: 'L3' });
    const subject = { ...evaluation.subject, ...token(issued.jwt) };
    const suspended = await evaluate({ ...evaluation, subject });
    const { approval_id: id } = suspended.body.context;
    await api.call({ method: 'POST', url: `/v1/approvals/${id}/approve`, body: {} });
    const context = { ...evaluation.context, approval: { id } };
    const named = await evaluate({ ...evaluation, context });
    expect(named.body.context.reason).toBe('trust_level_insufficient');
    expect((await evaluate({ ...evaluation, subject, context })).body.decision).toBe(true);
  });
});

it('a subject without a token has to wait while records are in form 1, which cannot say it', async () => {
  const early = await startOwnApi({ recordForm: 1 });
  try {
    const { gate_id: id } = await early.createGate();
    const passport = await early.issuePassport();
    const body = {
      subject: { type: 'agent', id: passport.agent_id },
      action: { name: 'orders:create' },
      resource: { type: 'gate', id },
    };
    const ask = (more: object) => early.call({ url: '/access/v1/evaluation', body: { ...body, ...more } });
    expectError(await ask({}), 'service_unavailable');
    const subject = { ...body.subject, properties: { passport: passport.jwt } };
    expect((await ask({ subject })).body.decision).toBe(true);
  } finally {
    await early.close();
  }
});

describe('a SUSPEND', () => {
  async function suspended() {
    const made = await setUp({ constraints: { approvals: { above_usd: 1 } } });
    const { body } = await evaluate(made.evaluation);
    return { ...made, context: body.context, decision: body.decision };
  }
  const submit = (body: unknown, more: object = {}) =>
    api.call({ url: '/access/v1/requests', body, key, ...more });

  it('names its access request, whose end permits the same evaluation once', async () => {
    const { evaluation, context, decision, issued } = await suspended();
    const base = api.deps.baseUrl.replace(/\/v1$/, '');
    const { approval_id: id, expires_at } = context;
    const status_endpoint = `${base}/access/v1/requests/${id}`;
    expect([decision, context]).toEqual([
      false,
      expect.objectContaining({
        decision: 'SUSPEND',
        evaluation_id: id,
        approval_url: `${base}/console/approvals/${id}`,
        access_request: {
          endpoint: `${base}/access/v1/requests`,
          ...{ id, status: 'pending', status_endpoint, expires_at },
        },
      }),
    ]);
    const task = { id, status: 'pending', status_endpoint, expires_at };
    const denial = { evaluation_id: id, expires_at, reason: context.reason };
    const submitted = await submit({ ...evaluation, denial, requested_access: {} });
    expect([submitted.status, submitted.headers['location'], submitted.body]).toEqual([
      202,
      status_endpoint,
      { task },
    ]);
    const poll = () => api.call({ url: `/access/v1/requests/${id}`, key });
    expect((await poll()).body).toEqual({ task });
    expect((await poll()).headers['retry-after']).toBe('5');

    await api.call({ method: 'POST', url: `/v1/approvals/${id}/approve`, body: {} });
    const { task: approved, result } = (await poll()).body;
    expect(approved.status).toBe('approved');
    const ends = (
      await api.call({ url: `/v1/attestations?decision=SUSPEND&passport_id=${issued.passport_id}` })
    ).body;
    expect(ends.attestations).toMatchObject([{ resolution: 'approved', asserted: true }]);
    expect(result).toEqual({
      mode: 'reevaluate',
      approval: { id, approved_at: expect.any(String), approved_until: approved.expires_at },
    });
    const reevaluate = (change: object = {}) =>
      evaluate({ ...evaluation, context: { ...evaluation.context, ...change, approval: result.approval } });
    expect((await reevaluate({ note: 'other' })).body.context).toMatchObject({
      reason: 'approval_mismatch',
      next_action: 'none',
    });
    expect((await reevaluate()).body.decision).toBe(true);
    expect((await reevaluate()).body.context).toMatchObject({ reason: 'approval_used', next_action: 'none' });
    expect((await poll()).body.task.status).toBe('used');
  });

  it('is not submitted for another subject, gate or permission, nor by another account', async () => {
    const { evaluation, context, issued } = await suspended();
    const denial = { evaluation_id: context.evaluation_id, expires_at: context.expires_at };
    const other = await setUp();
    for (const change of [
      { subject: other.evaluation.subject },
      { resource: other.evaluation.resource },
      { action: { name: 'orders:delete' } },
      { denial: { ...denial, evaluation_id: makeId('appr', 1 as UnixMillis, new Uint8Array(10)) } },
      { denial: { ...denial, evaluation_id: 'x'.repeat(10_000) } },
    ])
      expectError(
        await submit({ ...evaluation, denial, ...change }),
        'invalid_request',
        'denial.evaluation_id',
      );
    const byId = { type: 'agent', id: issued.passport_id };
    expect((await submit({ ...evaluation, denial, subject: byId })).status).toBe(202);
    expect((await submit({ ...evaluation, denial, items: [] })).status).toBe(400);
    const account = await api.createAccount();
    const foreign = await api.createKey({ scopes: both }, account.key);
    expect((await submit({ ...evaluation, denial }, { key: foreign.key })).status).toBe(400);
    const url = `/access/v1/requests/${context.evaluation_id}`;
    expectError(await api.call({ url, key: foreign.key }), 'approval_not_found');
    expectError(await api.call({ url: '/access/v1/requests/x', key }), 'approval_not_found');
  });

  it('ends as the person says', async () => {
    const { evaluation, context } = await suspended();
    const { evaluation_id: id } = context;
    await api.call({ method: 'POST', url: `/v1/approvals/${id}/deny`, body: {} });
    const { body } = await api.call({ url: `/access/v1/requests/${id}`, key });
    expect([body.task.status, body.result]).toEqual(['denied', undefined]);
    const again = await evaluate({ ...evaluation, context: { ...evaluation.context, approval: { id } } });
    expect(again.body.context).toMatchObject({ reason: 'approval_denied', next_action: 'none' });
  });

  it('and two names for its approval must agree', async () => {
    const { evaluation, context } = await suspended();
    const approval = { id: context.approval_id };
    const same = { ...evaluation.context, approval, approval_id: context.approval_id };
    expect((await evaluate({ ...evaluation, context: same })).body.context.decision).toBe('SUSPEND');
    const differs = { ...same, approval_id: makeId('appr', 1 as UnixMillis, new Uint8Array(10)) };
    expectError(await evaluate({ ...evaluation, context: differs }), 'invalid_request', 'context');
  });
});

it('a redaction is an obligation', async () => {
  const { evaluation } = await setUp({ constraints: { pii_controls: { mode: 'redact', types: ['email'] } } });
  const context = { note: 'write to jane@example.com' };
  const { body } = await evaluate({ ...evaluation, context });
  expect(body).toMatchObject({ decision: true, context: { request_redacted: { note: expect.any(String) } } });
  expect(body.context.obligations).toEqual([
    {
      id: 'redact',
      type: 'custom',
      properties: { vendor: 'agent-trust', action: 'redact', redactions: body.context.redactions },
    },
  ]);
  expect(JSON.stringify(body)).not.toContain('jane@example.com');
});

describe('at a sidecar', () => {
  const ask = (path: string, body: unknown, more: object = {}) =>
    sidecar.call({ method: 'POST', path: `/access/v1/${path}`, body, ...more });

  it('a subject without its token is refused, with the address that takes it', async () => {
    const { evaluation } = await setUp();
    await sidecar.caughtUp();
    for (const more of [{}, { key }]) {
      const one = await ask('evaluation', evaluation, more);
      expectError(one, 'invalid_request', 'subject.properties.passport');
      expect(one.body.error.message).toMatch(
        /ask http:\S+\/access\/v1\/evaluation with .*enforcement:delegate/,
      );
    }
    const several = await ask('evaluations', { ...evaluation, evaluations: [{}] });
    expect(several.body.evaluations).toMatchObject([
      { decision: false, context: { error: { status: 400 } } },
    ]);
  });

  it('a SUSPEND names its access request at the control plane', async () => {
    const { evaluation, issued } = await setUp({ constraints: { approvals: { above_usd: 1 } } });
    await sidecar.caughtUp();
    const subject = { ...evaluation.subject, properties: { passport: issued.jwt } };
    const suspended = await ask('evaluation', { ...evaluation, subject });
    const { approval_id: id, access_request, evaluation_id } = suspended.body.context;
    expect(access_request).toMatchObject({ id, status: 'pending' });
    expect([evaluation_id, access_request.status_endpoint]).toEqual([id, `${access_request.endpoint}/${id}`]);
  });
});
