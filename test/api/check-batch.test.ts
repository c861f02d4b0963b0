import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';

let api: Api;
const sidecars: TestSidecar[] = [];
beforeAll(async () => {
  api = await startApi();
  for (const adapter of adapters) sidecars.push(await startTestSidecar({ api, adapter }));
});
afterAll(async () => {
  for (const sidecar of sidecars) {
    await sidecar.close();
    sidecar.removeFolder();
  }
  await api.close();
});

interface Program {
  check(gateId: string, body: unknown): Promise<Reply>;
  batch(gateId: string, body: unknown, key?: string | null): Promise<Reply>;
}

const controlPlane: Program = {
  check: (gateId, body) => api.call({ method: 'POST', url: `/v1/gates/${gateId}/check`, body }),
  batch: (gateId, body, key) =>
    api.call({
      method: 'POST',
      url: `/v1/gates/${gateId}/check/batch`,
      body,
      ...(key !== undefined && { key }),
    }),
};
const sidecarAt = (place: number): Program => {
  const call = (path: string, body: unknown, key?: string | null) =>
    (sidecars[place] as TestSidecar).call({ method: 'POST', path, body, ...(key !== undefined && { key }) });
  return {
    check: (gateId, body) => call(`/v1/gates/${gateId}/check`, body),
    batch: (gateId, body, key) => call(`/v1/gates/${gateId}/check/batch`, body, key),
  };
};
const programs: readonly (readonly [string, Program])[] = [
  ['the control plane', controlPlane],
  ...adapters.map(({ name }, place) => [`a sidecar on ${name}`, sidecarAt(place)] as const),
];

async function setUp(constraints: object = {}): Promise<{ gateId: string; token: string }> {
  const { gate_id: gateId } = await api.createGate({ constraints });
  const { jwt: token } = await api.issuePassport();
  await caughtUp();
  return { gateId, token };
}
const caughtUp = async () => {
  for (const sidecar of sidecars) await sidecar.caughtUp();
};

const order = { permission_key: 'orders:create', amount: 5 };
const saidOf = ({ body }: Reply): unknown[] =>
  body.results.map((each: Reply['body']) => each.error?.code ?? each.reason ?? each.decision);

describe.each(programs)('a batch of checks at %s', (_name, program) => {
  it('has an answer for each check, in their order, as the check alone has it', async () => {
    const { gateId, token } = await setUp({ approvals: { above_usd: 10 } });
    const checks = [
      { passport: token, request: order },
      { passport: token, request: { ...order, permission_key: 'orders:delete' } },
      { passport: token, request: { ...order, amount: 11 } },
      { passport: 'no token', request: order },
      { passport: token, request: { ...order, amount: 'five' } },
    ];
    const reply = await program.batch(gateId, { checks });
    expect(reply.status).toBe(200);
    expect(Object.keys(reply.body)).toEqual(['results']);
    expect(saidOf(reply)).toEqual([
      'PERMIT',
      'permission_not_granted',
      'approval_required',
      'passport_malformed',
      'invalid_request',
    ]);
    expect(reply.body.results[4].error).toMatchObject({
      param: 'request.amount',
      status: 400,
      request_id: reply.headers['x-request-id'],
    });
    for (const [place, check] of checks.entries()) {
      const alone = (await program.check(gateId, check)).body;
      const { message: _, request_id: __, ...error } = reply.body.results[place].error ?? {};
      expect(Object.keys(reply.body.results[place])).toEqual(Object.keys(alone));
      if (place === 4) expect(alone.error).toMatchObject(error);
    }
  });

  it('decides in order, also where a later passport is known and an earlier one is not', async () => {
    const { gateId, token } = await setUp({ rate_limits: { requests_per_day: 3 } });
    const { jwt: unseen } = await api.issuePassport();
    const { gateId: other } = await setUp();
    expect((await program.check(other, { passport: token, request: order })).body.decision).toBe('PERMIT');
    await caughtUp();
    const tokens = [unseen, token, unseen, token, token];
    const reply = await program.batch(gateId, {
      checks: tokens.map((passport) => ({ passport, request: order })),
    });
    expect(saidOf(reply)).toEqual([
      'PERMIT',
      'PERMIT',
      'PERMIT',
      'rate_limit_exceeded',
      'rate_limit_exceeded',
    ]);
  });

  it('records each decision by itself', async () => {
    const { gateId, token } = await setUp();
    const checks = Array.from({ length: 40 }, () => ({ passport: token, request: order }));
    const { body } = await program.batch(gateId, { checks });
    const ids = new Set(body.results.map((each: Reply['body']) => each.attestation_id));
    expect(ids.size).toBe(40);
  });

  it('lets nothing that is wrong with one check harm another', async () => {
    const { gateId, token } = await setUp();
    const sound = JSON.stringify({ passport: token, request: order });
    const request = (text: string) => `{"passport":"${token}","request":${text}}`;
    const checks = [
      sound,
      request('{"note":"\\ud800"}'),
      request('{"__proto__":{"amount":1}}'),
      request(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`),
      request('{"n":1e999}'),
      request(`{"note":"${'x'.repeat(limits.bodyBytesMax)}"}`),
      '7',
      '{"passport":"a","request":{},"more":1}',
      request('{"gate_id":"gate_01m7w8f9hmk9xzhvcz13er4z9h"}'),
      sound,
    ];
    const reply = await program.batch(gateId, `{"checks":[${checks.join(',')}]}`);
    const wrong = ['invalid_request', 'invalid_request', 'invalid_request', 'invalid_request'];
    expect(saidOf(reply)).toEqual([
      'PERMIT',
      ...wrong,
      'body_too_large',
      'invalid_request',
      'invalid_request',
      'invalid_request',
      'PERMIT',
    ]);
  });

  it('accepts 1 to 256 checks in 1 MiB, and names these bounds otherwise', async () => {
    const { gateId, token } = await setUp();
    const check = { passport: token, request: order };
    const many = (count: number) => ({ checks: Array.from({ length: count }, () => check) });
    expectError(await program.batch(gateId, many(0)), 'invalid_request', 'checks');
    expectError(await program.batch(gateId, many(257)), 'invalid_request', 'checks');
    expectError(await program.batch(gateId, { checks: check }), 'invalid_request', 'checks');
    expectError(await program.batch(gateId, { ...many(1), mode: 'fast' }), 'invalid_request', 'body');
    expectError(await program.batch(gateId, '[]'), 'invalid_request', 'body');
    expectError(await program.batch(gateId, '{"checks":[}'), 'invalid_json');
    const reply = await program.batch(gateId, many(256));
    expect(new Set(saidOf(reply))).toEqual(new Set(['PERMIT']));
    const padded = (bytes: number) => JSON.stringify({ checks: [check] }).padEnd(bytes);
    expect(saidOf(await program.batch(gateId, padded(limits.batchBodyBytesMax)))).toEqual(['PERMIT']);
    const refused = await program.batch(gateId, padded(limits.batchBodyBytesMax + 1));
    expectError(refused, 'body_too_large');
    expect(refused.body.error.message).toContain(`${limits.batchBodyBytesMax}`);
  });

  it('is for callers with a key that may check', async () => {
    const { gateId, token } = await setUp();
    const reader = await api.createKey({ scopes: ['gates:read'] });
    await caughtUp();
    const body = { checks: [{ passport: token, request: order }] };
    expectError(await program.batch(gateId, body, null), 'unauthorized');
    expectError(await program.batch(gateId, body, reader.key), 'insufficient_scope');
  });
});
