import fc from 'fast-check';
import { Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { describe, expect, it } from 'vitest';
import { contentHash } from '../../../shared/crypto/content-hash.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import {
  parseCheckBody,
  parseGateChoice,
  parseGateTestBody,
  parseRequestFacts,
  RequestMembers,
} from '../../../shared/wire/api/check.ts';
import { closed, FreeForm } from '../../../shared/wire/api/fields.ts';
import { refusal } from '../../support/base/refusal.ts';

const gateId = makeId('gate', 0 as UnixMillis, new Uint8Array(10));
const approvalId = makeId('appr', 0 as UnixMillis, new Uint8Array(10));

describe('parseCheckBody', () => {
  it('takes a passport and a free-form request', () => {
    const body = { passport: 'a.b.c', request: { anything: [1] } };
    expect(parseCheckBody(body)).toEqual(body);
  });

  it.each([
    ['body', null],
    ['request', { passport: '' }],
    ['passport', { passport: 5, request: {} }],
    ['reqeust', { passport: '', request: {}, reqeust: {} }],
  ])('refuses naming %s', (param, body) => {
    expect(refusal(() => parseCheckBody(body))).toMatchObject({ code: 'invalid_request', param });
  });
});

describe('parseCheckBody, where it does not ask the schema', () => {
  const schema = Compile(closed({ passport: Type.String(), request: FreeForm }));

  it('accepts exactly what the schema accepts', () => {
    const value = fc.oneof(
      fc.string(),
      fc.jsonValue({ maxDepth: 2 }),
      fc.dictionary(fc.string(), fc.jsonValue()),
    );
    const names = fc.constantFrom('passport', 'request', 'more');
    fc.assert(
      fc.property(
        fc.oneof(fc.dictionary(names, value), fc.record({ passport: fc.string(), request: value })),
        (body) => {
          const parsed: unknown = JSON.parse(JSON.stringify(body));
          const isTaken = schema.Check(parsed);
          if (isTaken) expect(parseCheckBody(parsed)).toBe(parsed);
          else expect(refusal(() => parseCheckBody(parsed))).toMatchObject({ code: 'invalid_request' });
        },
      ),
      { numRuns: 150 },
    );
  });
});

describe('the published members of a request', () => {
  const published = Compile(RequestMembers);
  const names = Object.keys(RequestMembers.properties);

  it('accept everything that the parser accepts', () => {
    const value = fc.oneof(
      fc.constantFrom(null, 'orders:create', 'orders:*', 'USD', 'a.example.com', 'https://a.example.com/x'),
      fc.constantFrom(0, -1, 12.5, 1e9, 1e9 + 1, '', 'x'.repeat(200), 'a\0b', true, {}),
      fc.jsonValue({ maxDepth: 1 }),
    );
    let taken = 0;
    const members = fc.dictionary(fc.constantFrom(...names, 'more'), value, { maxKeys: 2 });
    fc.assert(
      fc.property(members, (request) => {
        try {
          parseRequestFacts(request);
          parseGateChoice(request);
        } catch (error) {
          if (error instanceof ApiError && error.code !== 'gate_not_found') return;
        }
        taken++;
        expect([...published.Errors(request)]).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
    expect(taken).toBeGreaterThan(100);
  });

  it.each([
    { amount: '12' },
    { amount: -1 },
    { permission_key: 'orders:*' },
    { idempotency_key: '' },
    { approval_id: 1 },
    { gate_id: {} },
  ])('refuse %j, as the parser does', (request) => {
    expect(published.Check(request)).toBe(false);
    expect(() => [parseGateChoice(request), parseRequestFacts(request)]).toThrow(ApiError);
  });
});

describe('parseGateTestBody', () => {
  it('makes one request of the action and the context', () => {
    const body = {
      passport_token: 'a.b.c',
      requested_action: 'orders:create',
      context: { domain: 'api.example.com', estimated_cost_usd: 5 },
    };
    expect(parseGateTestBody(body)).toEqual({
      passport: 'a.b.c',
      request: { domain: 'api.example.com', estimated_cost_usd: 5, requested_action: 'orders:create' },
    });
  });

  it('takes an action that is null in one place from the other', () => {
    const body = { passport_token: '', requested_action: 'a:b', context: { requested_action: null } };
    expect(parseGateTestBody(body).request).toEqual({ requested_action: 'a:b' });
  });

  it.each([
    ['passport_token', {}],
    ['requested_action', { passport_token: '', requested_action: 'orders:*' }],
    ['context', { passport_token: '', context: [] }],
    [
      'context.requested_action',
      { passport_token: '', requested_action: 'a:b', context: { requested_action: 'a:c' } },
    ],
  ])('refuses naming %s', (param, body) => {
    expect(refusal(() => parseGateTestBody(body))).toMatchObject({ code: 'invalid_request', param });
  });
});

describe('parseRequestFacts', () => {
  it('reads every name of the context', () => {
    const request = {
      ...{ permission_key: 'orders:create', amount: 12.5, currency: 'USD', domain: 'API.example.com:443' },
      ...{ approval_id: approvalId, idempotency_key: 'order-7' },
      display: { title: 'Order', lines: [{ label: 'To', value: 'you' }] },
      ...{ note: 'kept for the hash only', proof: { dpop: 'read where it is demanded' } },
    };
    expect(parseRequestFacts(request)).toEqual({
      ...{ permissionKey: 'orders:create', amountMicroUsd: 12_500_000, currency: 'USD' },
      ...{ domain: 'api.example.com', approvalId, approval: 'unasked', idempotencyKey: 'order-7' },
      ...{ hold: null, proof: { kind: 'unread' } },
      display: { title: 'Order', lines: [{ label: 'To', value: 'you' }], url: null },
      ...{ pii: null, asked: request },
      requestHash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    });
  });

  it('takes null under any name for absent, and hashes what was sent', () => {
    const names = [
      ...['permission_key', 'requested_action', 'action', 'amount', 'amount_usd', 'estimated_cost_usd'],
      ...['currency', 'domain', 'url', 'approval_id', 'idempotency_key', 'display'],
    ];
    const request = Object.fromEntries(names.map((name) => [name, null]));
    const { approval_id: _, ...hashed } = request;
    expect(parseRequestFacts(request)).toEqual({
      ...parseRequestFacts({}),
      ...{ requestHash: contentHash(hashed), asked: request },
    });
    expect(parseRequestFacts({ amount: null, amount_usd: 5 }).amountMicroUsd).toBe(5_000_000);
  });

  it('takes false for a hold or a receipt for absent', () => {
    for (const request of [{ hold: false }, { receipt: false }, { hold: false, receipt: false }])
      expect(parseRequestFacts(request)).toEqual({
        ...parseRequestFacts({}),
        ...{ requestHash: contentHash(request), asked: request },
      });
  });

  it('refuses a member of a proof that is none, and looks at no other', () => {
    for (const name of ['htu', 'Method', 'content-digest', 'until'])
      expect(refusal(() => parseRequestFacts({ proof: { dpop: 'x', [name]: null } }))).toMatchObject({
        ...{ code: 'invalid_request', param: `request.proof.${name}` },
      });
    for (const proof of [
      'x',
      [],
      {},
      { dpop: 1, method: [], url: {}, nonce: 2, headers: 3, content_digest: 4 },
    ])
      expect(parseRequestFacts({ proof }).proof).toEqual({ kind: 'unread' });
  });

  it('finds nothing in an empty request', () => {
    expect(parseRequestFacts({})).toEqual({
      ...{ permissionKey: null, amountMicroUsd: null, currency: null, domain: null, approvalId: null },
      ...{ approval: 'none', idempotencyKey: null, proof: { kind: 'none' }, hold: null, display: null },
      ...{ pii: null, requestHash: contentHash({}), asked: {} },
    });
  });

  it.each([
    ['permission_key', 'requested_action', 'orders:create'],
    ['permission_key', 'action', 'orders:create'],
    ['amount', 'amount_usd', 5],
    ['amount_usd', 'estimated_cost_usd', 5],
  ])('takes %s and %s for one thing', (one, other, value) => {
    expect(() => parseRequestFacts({ [one]: value, [other]: value })).not.toThrow();
  });

  it('takes a domain and the host of a URL for one thing', () => {
    expect(
      parseRequestFacts({ domain: 'Api.example.com.', url: 'https://api.EXAMPLE.com:8443/x' }).domain,
    ).toBe('api.example.com');
  });

  it.each([
    ['requested_action', { permission_key: 'orders:create', requested_action: 'orders:delete' }],
    ['action', { requested_action: 'orders:create', action: 'orders:delete' }],
    ['amount_usd', { amount: 5, amount_usd: 6 }],
    ['estimated_cost_usd', { amount: 0, estimated_cost_usd: 6 }],
    ['url', { domain: 'a.example', url: 'https://b.example/' }],
  ])('refuses two names with different values, naming %s', (name, request) => {
    expect(refusal(() => parseRequestFacts(request))).toMatchObject({
      code: 'invalid_request',
      param: `request.${name}`,
    });
  });

  it.each([
    ['amount', -1],
    ['amount', '5'],
    ['amount', 1_000_000_001],
    ['permission_key', 'orders:*'],
    ['action', 5],
    ['currency', 840],
    ['domain', ''],
    ['url', '/orders'],
    ['idempotency_key', ''],
    ['idempotency_key', 'k'.repeat(129)],
    ['idempotency_key', 'k\0'],
    ['approval_id', 1],
  ])('refuses %s: %j', (name, value) => {
    expect(refusal(() => parseRequestFacts({ [name]: value }))).toMatchObject({
      code: 'invalid_request',
      param: `request.${name}`,
    });
  });

  it.each(['k', 'k'.repeat(128), 'Bestellung \u{1f9fe} 7'])('takes the idempotency_key %j', (key) => {
    expect(parseRequestFacts({ idempotency_key: key }).idempotencyKey).toBe(key);
  });

  it.each(['', 'appr_1', 'the one of yesterday'])(
    'reads the approval_id %j, which no approval has, as one that does not fit',
    (id) => {
      expect(parseRequestFacts({ approval_id: id })).toMatchObject({
        approvalId: null,
        approval: 'mismatch',
      });
    },
  );

  it('names the place in which the request stands', () => {
    expect(refusal(() => parseRequestFacts({ amount: -1 }, 'context'))).toMatchObject({
      param: 'context.amount',
    });
  });
});

describe('the hash of a request', () => {
  const hashOf = (request: Record<string, unknown>) => parseRequestFacts(request).requestHash;

  it('is that of its canonical form', () => {
    expect(hashOf({ b: 1, a: 2 })).toBe(contentHash({ a: 2, b: 1 }));
    expect(hashOf({ b: 1, a: 2 })).toBe(hashOf({ a: 2, b: 1 }));
  });

  it('changes with everything else', () => {
    const request = { permission_key: 'orders:create', amount: 5 };
    expect(hashOf({ ...request, note: '' })).not.toBe(hashOf(request));
    expect(hashOf({ ...request, nested: { proof: 'x' } })).not.toBe(hashOf({ ...request, nested: {} }));
  });
});

describe('parseGateChoice', () => {
  it('finds the gate or none', () => {
    expect(parseGateChoice({ gate_id: gateId })).toBe(gateId);
    expect(parseGateChoice({})).toBeNull();
    expect(parseGateChoice({ gate_id: null })).toBeNull();
  });

  it('never turns a gate that cannot be into no gate', () => {
    expect(refusal(() => parseGateChoice({ gate_id: 'gate_1' }))).toMatchObject({ code: 'gate_not_found' });
    expect(refusal(() => parseGateChoice({ gate_id: '' }))).toMatchObject({ code: 'gate_not_found' });
    expect(refusal(() => parseGateChoice({ gate_id: 5 }))).toMatchObject({
      code: 'invalid_request',
      param: 'request.gate_id',
    });
  });
});
