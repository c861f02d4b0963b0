import { describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const api = useApi();
// What is answered is tested, and not how soon.
const sidecar = useSidecar(() => ({ api, quotaWaitMs: 2.5 * secondMs }));

/** `key`: undefined, the admin key. */
type Ask = (path: string, body: unknown, key?: string | null) => Promise<Reply>;
const programs: readonly (readonly [string, Ask])[] = [
  [
    'the control plane',
    (path, body, key) => api.call({ url: path, method: 'POST', body, ...(key !== undefined && { key }) }),
  ],
  [
    'a sidecar',
    (path, body, key) => sidecar.call({ path, method: 'POST', body, ...(key !== undefined && { key }) }),
  ],
];

async function setUp(constraints: object = {}): Promise<{ gateId: string; token: string }> {
  const { gate_id: gateId } = await api.createGate({ constraints });
  const { jwt: token } = await api.issuePassport();
  await sidecar.caughtUp();
  return { gateId, token };
}

const order = { permission_key: 'orders:create', amount: 5 };
const saidOf = ({ body }: Reply): unknown[] =>
  body.results.map((each: Reply['body']) => each.error?.code ?? each.reason ?? each.decision);

describe.each(programs)('a batch of checks at %s', (_name, ask) => {
  const program = {
    check: (gateId: string, body: unknown) => ask(`/v1/gates/${gateId}/check`, body),
    batch: (gateId: string, body: unknown, key?: string | null) =>
      ask(`/v1/gates/${gateId}/check/batch`, body, key),
  };

  it('has an answer for each check, in their order, as the check alone has it', async () => {
    const { gateId, token } = await setUp();
    const wrong = { passport: token, request: { ...order, amount: 'five' } };
    const reply = await program.batch(gateId, { checks: [{ passport: token, request: order }, wrong] });
    expect([reply.status, Object.keys(reply.body)]).toEqual([200, ['results']]);
    expect(saidOf(reply)).toEqual(['PERMIT', 'invalid_request']);
    const { request_id: id, ...error } = reply.body.results[1].error;
    expect(id).toBe(reply.headers['x-request-id']);
    const { request_id: _, ...alone } = (await program.check(gateId, wrong)).body.error;
    const { message: __, ...rest } = alone;
    expect(error).toMatchObject({ ...rest, param: 'request.amount', status: 400 });
  });

  it('decides in order, also where a later passport is known and an earlier one is not', async () => {
    const { gateId, token } = await setUp({ rate_limits: { requests_per_day: 3 } });
    const { jwt: unseen } = await api.issuePassport();
    const { gateId: other } = await setUp();
    expect((await program.check(other, { passport: token, request: order })).body.decision).toBe('PERMIT');
    await sidecar.caughtUp();
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
    // Each is answered without a decision, which takes the control plane longer.
    const wrong = { checks: Array(256).fill({ passport: token, request: { ...order, amount: 'five' } }) };
    expect(saidOf(await program.batch(gateId, wrong))).toEqual(Array(256).fill('invalid_request'));
    const padded = (bytes: number) => JSON.stringify({ checks: [check] }).padEnd(bytes);
    expect(saidOf(await program.batch(gateId, padded(limits.batchBodyBytesMax)))).toEqual(['PERMIT']);
    const refused = await program.batch(gateId, padded(limits.batchBodyBytesMax + 1));
    expectError(refused, 'body_too_large');
    expect(refused.body.error.message).toContain(`${limits.batchBodyBytesMax}`);
  });

  it('is for callers with a key that may check', async () => {
    const { gateId, token } = await setUp();
    const reader = await api.createKey({ scopes: ['gates:read'] });
    await sidecar.caughtUp();
    const body = { checks: [{ passport: token, request: order }] };
    expectError(await program.batch(gateId, body, null), 'unauthorized');
    expectError(await program.batch(gateId, body, reader.key), 'insufficient_scope');
  });
});
