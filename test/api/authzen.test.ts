import { expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

/** AuthZEN 1.0 at a sidecar. */
const api = useApi();
const sidecar = useSidecar(() => ({ api }));

const one = (body: unknown, more: object = {}) =>
  sidecar.call({ method: 'POST', path: '/access/v1/evaluation', body, ...more });
const several = (body: unknown, more: object = {}) =>
  sidecar.call({ method: 'POST', path: '/access/v1/evaluations', body, ...more });

async function setUp(constraints: object = {}) {
  const { gate_id: gateId } = await api.createGate({ constraints });
  const passport = await api.issuePassport();
  await sidecar.caughtUp();
  return {
    passport,
    gateId,
    evaluation: {
      subject: { type: 'agent', id: passport.agent_id, properties: { passport: passport.jwt } },
      action: { name: 'orders:create', properties: { amount: 5 } },
      resource: { type: 'gate', id: gateId },
      context: { note: 'hello' },
    },
  };
}
/** As soon as the record is in its chain. */
const requestHashOf = async (id: string): Promise<string> => {
  let record: Reply | null = null;
  await until(
    async () => {
      record = await api.call({ url: `/v1/attestations/${id}` });
      return record.status === 200;
    },
    { what: `record ${id}` },
  );
  return (record as Reply | null)?.body.request_hash;
};
const decisionsOf = ({ body }: Reply): unknown[] =>
  body.evaluations.map((each: Reply['body']) => [
    each.decision,
    each.context.error?.code ?? each.context.reason ?? each.context.decision,
  ]);

it('is true for a PERMIT alone, and its context is the answer of check', async () => {
  const { evaluation, gateId, passport } = await setUp();
  const permitted = await one(evaluation);
  expect(permitted.status).toBe(200);
  expect(permitted.body).toEqual({
    decision: true,
    context: {
      ...{ decision: 'PERMIT', reason: null, attestation_id: expect.stringMatching(/^att_/) },
      constraints_evaluated: expect.any(Array),
    },
  });

  // The record is that of the same request through check.
  const request = { permission_key: 'orders:create', amount: 5, note: 'hello' };
  const checked = (await sidecar.check(gateId, passport.jwt, request)).body;
  const ids = [permitted.body.context.attestation_id, checked.attestation_id];
  const hashes = await Promise.all(ids.map(requestHashOf));
  expect(hashes[0]).toMatch(/^sha256:/);
  expect(hashes[1]).toBe(hashes[0]);
});

it('takes the passport_id for the subject, and refuses every other id of a passport that verifies', async () => {
  const { evaluation, passport } = await setUp();
  const { passport_id: id } = passport;
  expect((await one({ ...evaluation, subject: { ...evaluation.subject, id } })).body.decision).toBe(true);
  const other = { ...evaluation, subject: { ...evaluation.subject, id: 'somebody-else' } };
  // The first time its signature is checked; the second time it is known.
  for (let round = 0; round < 2; round++) expectError(await one(other), 'invalid_request', 'subject.id');
});

it('refuses a gate that is unknown before it looks whose passport it is', async () => {
  const { evaluation } = await setUp();
  const { gate_id: id } = await api.createGate();
  await api.call({ method: 'DELETE', url: `/v1/gates/${id}` });
  const other = { ...evaluation, subject: { ...evaluation.subject, id: 'somebody-else' } };
  const elsewhere = { ...other, resource: { type: 'gate', id } };
  expectError(await one(elsewhere), 'gate_not_found');
  expectError(await one(other), 'invalid_request', 'subject.id');
  // Now the passport is known.
  expectError(await one(elsewhere), 'gate_not_found');
});

it('makes one request of the properties and the context, which must not contradict each other', async () => {
  const { evaluation, gateId } = await setUp({ spend_limits: { per_transaction_usd: 4 } });
  const over = { ...evaluation, action: { name: 'orders:create' }, context: { amount: 5 } };
  expect((await one(over)).body.context.reason).toBe('spend_limit_exceeded');
  const inResource = { type: 'gate', id: gateId, properties: { amount: 5 } };
  expect((await one({ ...over, context: {}, resource: inResource })).body.context.reason).toBe(
    'spend_limit_exceeded',
  );
  expect((await one({ ...over, resource: inResource })).body.context.reason).toBe('spend_limit_exceeded');
  const contradicting = { ...over, resource: { ...inResource, properties: { amount: 3 } } };
  expectError(await one(contradicting), 'invalid_request', 'context');
  const renamed = { ...over, context: { permission_key: 'orders:read' } };
  expectError(await one(renamed), 'invalid_request', 'context');
});

it('takes null for absent wherever a member is optional', async () => {
  const { evaluation } = await setUp({ spend_limits: { per_transaction_usd: 4 } });
  const { subject, action, resource } = evaluation;
  const free = {
    ...{ subject, action: { name: 'orders:create', properties: null } },
    ...{ resource: { ...resource, properties: null }, context: { amount: 1, domain: null } },
  };
  expect((await one(free)).body).toMatchObject({ decision: true });
  expect((await one({ ...evaluation, context: null })).body.context.reason).toBe('spend_limit_exceeded');
  expect((await several({ ...free, evaluations: null, options: null })).body.decision).toBe(true);
  // What is absent in an evaluation is taken from the members beside it.
  const evaluations = [{ action, context: null }, { action: null }, { subject: null }];
  const reply = await several({ ...free, evaluations, options: { evaluations_semantic: null } });
  expectError(await several({ ...free, evaluations, options: 7 }), 'invalid_request', 'options');
  expect(decisionsOf(reply)).toEqual([
    [false, 'invalid_request'],
    [true, 'PERMIT'],
    [true, 'PERMIT'],
  ]);
  expect(reply.body.evaluations[0].context.error.param).toBe('context');
  expectError(await one({ ...free, subject: null }), 'invalid_request', 'subject');
  expectError(await one({ ...free, action: { name: null } }), 'invalid_request', 'action.name');
});

it('names a missing or mistyped member', async () => {
  const { evaluation } = await setUp();
  const todo = await one({ ...evaluation, resource: { type: 'todo', id: '1' } });
  expectError(todo, 'invalid_request', 'resource.type');
  const renamed = await one({ ...evaluation, action: { name: 'can_read' } });
  expectError(renamed, 'invalid_request', 'request.permission_key');
  expectError(await one(evaluation, { key: null }), 'unauthorized');
  expectError(await one('{'), 'invalid_json');
});

it('sends back the request id of its caller, also with an error', async () => {
  const { evaluation } = await setUp();
  const headers = { 'x-request-id': 'bfe9eb29-ab87-4ca3-be83-a1d5d8305716' };
  for (const reply of [
    await one(evaluation, { headers }),
    await several({ evaluations: [evaluation] }, { headers }),
    await one({}, { headers }),
    await one(evaluation, { headers, key: null }),
  ]) {
    expect(reply.headers['x-request-id']).toBe(headers['x-request-id']);
  }
  const own = await one(evaluation, { headers: { 'x-request-id': 'two words' } });
  expect(own.headers['x-request-id']).toMatch(/^req_/);
});

it('evaluates several in order, with the members beside them as defaults', async () => {
  const { evaluation } = await setUp({ rate_limits: { requests_per_day: 2 } });
  const { subject, resource } = evaluation;
  const reply = await several({
    ...{ subject, resource, action: { name: 'orders:create' } },
    evaluations: [{}, { action: { name: 'orders:delete' } }, { resource: { type: 'todo' } }, 7, {}, {}],
  });
  expect(decisionsOf(reply)).toEqual([
    [true, 'PERMIT'],
    [false, 'permission_not_granted'],
    [false, 'invalid_request'],
    [false, 'invalid_request'],
    [true, 'PERMIT'],
    [false, 'rate_limit_exceeded'],
  ]);
  expect(reply.body.evaluations[2].context.error).toMatchObject({ status: 400, param: 'resource.id' });
});

it('ends at the first denial, or at the first permit, and decides nothing after it', async () => {
  const { evaluation, gateId } = await setUp({ rate_limits: { requests_per_day: 2 } });
  const denied = { action: { name: 'orders:delete' } };
  const { action: _, ...defaults } = evaluation;
  const permitted = { action: { name: 'orders:create' } };
  const ask = (evaluations_semantic: string, evaluations: object[]) =>
    several({ ...defaults, evaluations, options: { evaluations_semantic } });
  expect(decisionsOf(await ask('deny_on_first_deny', [permitted, denied, permitted]))).toEqual([
    [true, 'PERMIT'],
    [false, 'permission_not_granted'],
  ]);
  expect(decisionsOf(await ask('permit_on_first_permit', [denied, permitted, permitted]))).toEqual([
    [false, 'permission_not_granted'],
    [true, 'PERMIT'],
  ]);
  // Both requests of the day were used by the two PERMITs.
  expect(decisionsOf(await ask('execute_all', [permitted]))).toEqual([[false, 'rate_limit_exceeded']]);
  expectError(await ask('fastest', [permitted]), 'invalid_request', 'options');
  const page = await api.call({ url: `/v1/attestations?gate_id=${gateId}&decision=PERMIT` });
  expect(page.body.attestations.length).toBeLessThanOrEqual(2);
});

it('takes a body without evaluations for a single one, and at most 256', async () => {
  const { evaluation } = await setUp();
  for (const body of [evaluation, { ...evaluation, evaluations: [] }]) {
    expect((await several(body)).body).toMatchObject({ decision: true, context: { decision: 'PERMIT' } });
  }
  const large = { ...evaluation, context: { note: 'x'.repeat(limits.bodyBytesMax) } };
  expectError(await several(large), 'body_too_large');
  expectError(await one(large), 'body_too_large');
  // 20 KiB count once for each of the evaluations whose default they are.
  const defaults = { ...evaluation, context: { note: 'x'.repeat(20 * 1024) } };
  const repeated = (length: number) => several({ ...defaults, evaluations: Array(length).fill({}) });
  expect((await repeated(40)).body.evaluations).toHaveLength(40);
  expectError(await repeated(60), 'body_too_large');
  const evaluations = Array.from({ length: 257 }, () => ({}));
  expectError(await several({ ...evaluation, evaluations }), 'invalid_request', 'evaluations');
});

it('describes itself without a key', async () => {
  const { body, status } = await sidecar.call({ path: '/.well-known/authzen-configuration', key: null });
  expect(status).toBe(200);
  expect(body).toEqual({
    policy_decision_point: sidecar.origin,
    access_evaluation_endpoint: `${sidecar.origin}/access/v1/evaluation`,
    access_evaluations_endpoint: `${sidecar.origin}/access/v1/evaluations`,
    access_request_endpoint: expect.stringMatching(/^http:.*\/access\/v1\/requests$/),
    capabilities: ['urn:openid:authzen:capability:access-request'],
    supported_obligations: ['custom'],
  });
});
