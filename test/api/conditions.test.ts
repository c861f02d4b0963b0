import { beforeAll, describe, expect, it } from 'vitest';
import { takeSnapshot } from '../../control-plane/sync/take-snapshot.ts';
import { canonicalJson } from '../../shared/crypto/canonical-json.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type GateConstraints, hideFromOlder } from '../../shared/wire/api/constraints.ts';
import { mergePatch } from '../../shared/wire/api/merge-patch.ts';
import { until } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

/** Conditions (contract §4 and §5). `test/cases/conditions.yaml` has what they decide. */
const api = useApi(startOwnApi);
const sidecar = useSidecar(() => ({ api }));
let accountId: AccountId;
beforeAll(async () => {
  accountId = (await api.call({ url: '/v1/accounts' })).body.items[0].account_id;
});

const few = { id: 'few-rows', require: 'request.rows <= 100', message: 'At most 100 rows.' };
const asked = { id: 'no-rows', require: 'request.rows == 0', otherwise: 'approve' };
const request = { permission_key: 'orders:create', rows: 5 };

const createGate = (body: object): Promise<Reply> =>
  api.call({ url: '/v1/gates', body: { name: `Gate ${Math.random()}`, trust_level: 'L1', ...body } });
const gateWith = async (conditions: readonly object[], more: object = {}): Promise<string> =>
  (await api.createGate({ constraints: { conditions, ...more } })).gate_id;

async function inSnapshot(id: string) {
  const pieces = await takeSnapshot(api.deps, accountId);
  const { gates } = JSON.parse(JSON.parse(Buffer.concat([...pieces]).toString()).snapshot);
  return gates.find((gate: { gate_id: string }) => gate.gate_id === id);
}
const inFeed = async (id: string) =>
  (await api.changes(accountId)).findLast(({ kind, body }) => kind === 'gate.put' && body.gate_id === id)
    ?.body;

/** What the record of an answer says, once it has arrived. */
async function recordOf({ body }: Reply): Promise<Reply['body']> {
  const url = `/v1/attestations/${body.attestation_id}`;
  await until(async () => (await api.call({ url })).status === 200, { what: 'the record arrives' });
  return (await api.call({ url })).body;
}

describe('at the edge', () => {
  it('gates, templates and passports keep them as they were sent, without what is the default', async () => {
    const conditions = [
      { ...few, otherwise: 'block', permissions: null },
      { ...asked, permissions: ['orders:*'] },
    ];
    const kept = [few, { ...asked, permissions: ['orders:*'] }];
    const template = await api.call({
      url: '/v1/templates',
      body: { name: 'T', constraints: { conditions } },
    });
    expect(template.body.constraints).toEqual({ conditions: kept });
    const gate = await createGate({ template_id: template.body.template_id });
    expect(gate.body.constraints).toEqual({ conditions: kept });
    const renamed = {
      method: 'PUT',
      url: `/v1/gates/${gate.body.gate_id}`,
      body: { constraints: { conditions: [few] } },
    };
    expect((await api.call(renamed as never)).body.constraints).toEqual({ conditions: [few] });
    const passport = await api.issuePassport({ constraints: { conditions } });
    const shown = await api.call({ url: `/v1/passports/${passport.passport_id}` });
    expect(shown.body.constraints).toEqual({ conditions: kept });
  });

  const places: readonly (readonly [string, (conditions: unknown) => Promise<Reply>, string])[] = [
    ['a gate', (conditions) => createGate({ constraints: { conditions } }), 'constraints.conditions'],
    [
      'a template',
      (conditions) => api.call({ url: '/v1/templates', body: { name: 'T', constraints: { conditions } } }),
      'constraints.conditions',
    ],
    [
      'a passport',
      (conditions) =>
        api.call({
          url: '/v1/passports',
          body: { agent_id: `a-${Math.random()}`, permissions: ['a:b'], constraints: { conditions } },
        }),
      'constraints.conditions',
    ],
    [
      'an issuer of others',
      (conditions) =>
        api.call({
          url: '/v1/issuers',
          body: {
            name: `Issuer ${Math.random()}`,
            federation: {
              ...{ type: 'jwks', issuer: 'https://others.example', audiences: ['a'] },
              ...{ jwks_uri: 'https://others.example/jwks', constraints: { conditions } },
            },
          },
        }),
      'constraints.conditions',
    ],
  ];

  it.each(places)('%s refuses a faulty expression with its place and a caret', async (_of, write, param) => {
    const reply = await write([few, { id: 'faulty', require: 'request.rows\n  <= ' }]);
    const { details, message, ...error } = reply.body.error;
    expect(error).toMatchObject({ code: 'invalid_request', param: `${param}[1].require` });
    expect(details).toEqual({ line: 2, column: 6, message: expect.any(String) });
    expect(message).toContain(`line 2, column 6:\n    <= \n       ^ ${details.message}.`);
  });

  it.each<[object, string]>([
    [[few, few], 'constraints.conditions.1.id'],
    [[{ ...few, id: 'Few' }], 'constraints.conditions.0.id'],
    [[{ ...few, permissions: ['orders'] }], 'constraints.conditions.0.permissions.0'],
    [[{ ...few, permissions: [] }], 'constraints.conditions.0.permissions'],
    [[{ ...few, otherwise: 'permit' }], 'constraints.conditions.0.otherwise'],
    [[{ ...few, message: 'x'.repeat(201) }], 'constraints.conditions.0.message'],
    [[{ ...few, message: 'a\nb' }], 'constraints.conditions.0.message'],
    [[{ ...few, note: 1 }], 'constraints.conditions.0.note'],
    [[{ id: 'none' }], 'constraints.conditions.0.require'],
    [[{ ...few, require: '' }], 'constraints.conditions.0.require'],
    [[{ ...few, require: '1 + 1' }], 'constraints.conditions[0].require'],
    [Array.from({ length: 33 }, (_, n) => ({ ...few, id: `c-${n}` })), 'constraints.conditions'],
    [
      Array.from({ length: 3 }, (_, n) => ({
        id: `c-${n}`,
        require: Array.from({ length: 11 }, (_each, at) => `has(request.m${n}x${at})`).join(' && '),
      })),
      'constraints.conditions',
    ],
  ])('refuses %j', async (conditions, param) => {
    const { error } = (await createGate({ constraints: { conditions } })).body;
    expect(error).toMatchObject({ code: 'invalid_request', status: 400, param });
    expect(error.message).toMatch(/\.$/);
  });
});

describe('POST /conditions/check', () => {
  const check = (body: object) => api.call({ url: '/v1/conditions/check', body });

  it('answers what an expression reads, and refuses as a write does', async () => {
    const sound = await check({ require: "has(claims.group) && request.a['b/c'].d == user" });
    expect(sound.body).toEqual({ reads: ['/claims/group', '/request/a/b~1c/d', '/user'], warnings: [] });
    const reply = await check({ require: 'request.rows <= ' });
    expect(reply.body.error).toMatchObject({ param: 'require', details: { line: 1, column: 17 } });
  });

  it('warns of what no pinned tool and no catalog has', async () => {
    const { gate_id } = await api.createGate({
      catalog: { permissions: [{ key: 'tools:write_file' }, { key: 'tools:search' }] },
    });
    const tools = [
      ['write_file', { type: 'object', properties: { path: { type: 'string' }, to: { $ref: '#/x' } } }],
      ['search', { type: 'object', properties: { text: {} }, additionalProperties: false }],
      ['open', { type: 'object' }],
    ].map(([name, inputSchema]) => ({ definition: canonicalJson({ name, inputSchema }) }));
    const { key } = await api.createKey({ scopes: ['enforcement:check'] });
    const report = { gate_id, upstream: 'http://127.0.0.1:1/mcp', tools, is_whole: true };
    expect((await api.call({ url: '/v1/mcp-pins', key, body: report })).status).toBe(200);

    const about = async (source: string, permissions: readonly string[] | null) =>
      (await check({ require: source, permissions, gate_id })).body.warnings.map(
        ({ permission, path }: Reply['body']) => [permission, path],
      );
    const path = "request.arguments.path == '/a'";
    expect(await about(path, ['tools:write_file'])).toEqual([]);
    expect(await about(path, ['tools:search', 'tools:write_file'])).toEqual([
      ['tools:search', '/request/arguments/path'],
    ]);
    expect(await about('request.arguments.to.x.y == 1', ['tools:write_file'])).toEqual([]);
    expect(await about('request.arguments.text.x == 1', ['tools:search'])).toEqual([]);
    // A tool that says nothing of its members may have any.
    expect(await about('request.arguments.nobody == 1', null)).toEqual([]);
    expect(await about('true', ['tools:*', 'tools:open', 'mail:*'])).toEqual([
      ['tools:open', null],
      ['mail:*', null],
    ]);
  });

  it('knows no gate of another account', async () => {
    const stranger = await api.createAccount();
    const { gate_id } = await api.createGate({}, stranger.key);
    expectError(await check({ require: 'true', gate_id }), 'gate_not_found', 'gate_id');
    expectError(await check({ require: 'true', gate_id: 'x' }), 'gate_not_found');
  });
});

describe('in the feed', () => {
  it('they travel with their checked forms, and one of 0.3.0 is told a gate that trusts nobody', async () => {
    const more = { proof_of_possession: 'required', trusted_issuers: ['own', '*'.replace('*', 'own')] };
    const id = await gateWith([few], { ...more, trusted_issuers: ['own'] });
    for (const told of [await inFeed(id), await inSnapshot(id)]) {
      expect(told.constraints).toEqual({ trusted_issuers: [] });
      expect(told.constraints_patch).toBeUndefined();
      expect(told.conditions_patch).toEqual({
        ...{ proof_of_possession: 'required', trusted_issuers: ['own'], conditions: [few] },
      });
      expect(told.condition_forms).toEqual([{ form: 1, expr: expect.any(Array) }]);
    }
    const plain = await gateWith([]);
    const told = await inFeed(plain);
    expect([told.constraints, told.conditions_patch, told.condition_forms]).toEqual([
      {},
      undefined,
      undefined,
    ]);
  });

  it.each<GateConstraints>([
    {},
    { trusted_issuers: ['*'], conditions: [few] },
    { proof_of_possession: 'required', conditions: [few], allowed_domains: ['a.example'] },
    { proof_of_possession: 'required', trusted_issuers: ['own'] },
  ])('both patches give %j again, and the first alone never less than it demands', (constraints) => {
    const {
      constraints: told,
      constraints_patch: first = {},
      conditions_patch: second = {},
    } = hideFromOlder(constraints);
    expect([first, second].reduce<unknown>(mergePatch, told)).toEqual(constraints);
    const of030 = mergePatch(told, first) as GateConstraints;
    expect(of030.conditions).toBeUndefined();
    if (constraints.conditions !== undefined) expect(of030.trusted_issuers).toEqual([]);
  });
});

describe('a decision', () => {
  const doors = {
    'the control plane': (gateId: string, passport: string, of: object) =>
      api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request: of } }),
    'a sidecar': async (gateId: string, passport: string, of: object) => {
      await sidecar.caughtUp();
      return sidecar.check(gateId, passport, of as Readonly<Record<string, unknown>>);
    },
  };

  it.each(Object.entries(doors))('of %s names what failed, in answer and record', async (_door, ask) => {
    const gateId = await gateWith([asked, { ...few, id: 'more' }, { ...few, require: 'request.rows < 5' }]);
    const { jwt } = await api.issuePassport();
    const blocked = await ask(gateId, jwt, request);
    expect(blocked.body).toMatchObject({
      ...{ reason: 'condition_not_met', condition: 'few-rows', detail: 'At most 100 rows.' },
    });
    expect((await recordOf(blocked)).conditions).toEqual(['no-rows', 'few-rows']);
    const permitted = await ask(gateId, jwt, { ...request, rows: 0 });
    expect((await recordOf(permitted)).conditions).toEqual([]);
    const early = await ask(gateId, jwt, { permission_key: 'orders:delete' });
    expect([early.body.reason, early.body.condition]).toEqual(['permission_not_granted', undefined]);
    expect((await recordOf(early)).conditions).toEqual([]);
    const plain = await ask(await gateWith([]), jwt, request);
    expect((await recordOf(plain)).conditions).toBeNull();
  });

  it.each(Object.entries(doors))(
    'of %s suspends, and the approval names the condition',
    async (_door, ask) => {
      const gateId = await gateWith([{ ...asked, message: 'Rows!' }]);
      const { jwt } = await api.issuePassport();
      const { body } = await ask(gateId, jwt, request);
      expect(body).toMatchObject({ decision: 'SUSPEND', condition: 'no-rows', detail: 'Rows!' });
      const url = `/v1/approvals/${body.approval_id}`;
      expect((await api.call({ url })).body.condition).toBe('no-rows');
      await api.call({ url: `${url}/approve`, body: {} });
      const permit = await ask(gateId, jwt, { ...request, approval_id: body.approval_id });
      expect(permit.body).toMatchObject({ decision: 'PERMIT' });
      expect((await recordOf(permit)).conditions).toEqual(['no-rows']);
      const { attestations } = (await api.call({ url: `/v1/attestations?gate_id=${gateId}` })).body;
      const resolved = attestations.find(({ resolution }: Reply['body']) => resolution === 'approved');
      expect(resolved.conditions).toEqual(['no-rows']);
    },
  );

  it.each(Object.entries(doors))(
    'of %s refuses a sent amount_micro_usd where there are conditions',
    async (_door, ask) => {
      const { jwt } = await api.issuePassport();
      const sent = { ...request, amount_micro_usd: 5 };
      expectError(await ask(await gateWith([few]), jwt, sent), 'invalid_request', 'request.amount_micro_usd');
      expect((await ask(await gateWith([]), jwt, sent)).body.decision).toBe('PERMIT');
      const own = await api.issuePassport({ constraints: { conditions: [few] } });
      expectError(
        await ask(await gateWith([]), own.jwt, sent),
        'invalid_request',
        'request.amount_micro_usd',
      );
      expect((await ask(await gateWith([few]), jwt, { ...sent, amount_micro_usd: null })).body.decision).toBe(
        'PERMIT',
      );
    },
  );

  it('is tried by a gate test', async () => {
    const gateId = await gateWith([few, asked]);
    const { jwt } = await api.issuePassport();
    const test = async (rows: unknown) =>
      (
        await api.call({
          url: `/v1/gates/${gateId}/test`,
          body: { passport_token: jwt, requested_action: 'orders:create', context: { rows } },
        })
      ).body;
    expect(await test(101)).toMatchObject({ decision: 'block', condition: 'few-rows', detail: few.message });
    expect(await test('x')).toMatchObject({
      decision: 'block',
      reason: 'condition_error',
      condition: 'few-rows',
    });
    expect(await test(1)).toMatchObject({ decision: 'suspend', condition: 'no-rows' });
    expect(await test(0)).toMatchObject({ decision: 'allow' });
  });

  it('reads the wallet of a passport, which a sidecar asks for first', async () => {
    const wallet = (await api.call({ url: '/v1/wallets', body: { name: `W ${Math.random()}` } })).body;
    const gateId = await gateWith([{ id: 'paid', require: `passport.wallet_id == '${wallet.wallet_id}'` }]);
    const inWallet = await api.issuePassport({ wallet_id: wallet.wallet_id });
    const without = await api.issuePassport();
    for (const ask of Object.values(doors)) {
      expect((await ask(gateId, inWallet.jwt, request)).body).toMatchObject({ decision: 'PERMIT' });
      expect((await ask(gateId, without.jwt, request)).body).toMatchObject({ condition: 'paid' });
    }
  });
});
