import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

/** Every field whose text people or models read, and a body that is right but for it. */
const fields: readonly (readonly [
  method: string,
  path: string,
  param: string,
  body: (text: string) => object,
])[] = [
  ['POST', '/v1/issuers', 'name', (name) => ({ name })],
  ['PUT', '/v1/issuers/:issuer', 'name', (name) => ({ name })],
  ['POST', '/v1/templates', 'name', (name) => ({ name })],
  ['POST', '/v1/templates', 'description', (description) => ({ name: 'a', description })],
  ['POST', '/v1/gates', 'name', (name) => ({ name, trust_level: 'L1' })],
  ['POST', '/v1/gates', 'description', (description) => ({ name: 'a', trust_level: 'L1', description })],
  ['PUT', '/v1/gates/:gate', 'name', (name) => ({ name })],
  ['PUT', '/v1/gates/:gate', 'description', (description) => ({ description })],
  ...(['display_name', 'description', 'category', 'risk_level'] as const).map(
    (field) =>
      [
        'POST',
        '/v1/gates/:gate/catalog',
        `permissions.0.${field}`,
        (text: string) => ({ permissions: [{ key: 'orders:create', [field]: text }] }),
      ] as const,
  ),
  ['POST', '/v1/api-keys', 'name', (name) => ({ name, scopes: ['gates:read'] })],
  ['POST', '/v1/accounts', 'name', (name) => ({ name, plan: 'pro' })],
  [
    'POST',
    '/v1/channels',
    'name',
    (name) => ({ name, kind: 'webhook', target: 'https://hooks.example.com/' }),
  ],
  [
    'POST',
    '/v1/webhooks',
    'description',
    (description) => ({ url: 'https://hooks.example.com/', events: ['gate.created'], description }),
  ],
  ['POST', '/v1/passports', 'agent_id', (agent_id) => ({ agent_id, permissions: [] })],
  ['POST', '/v1/passports', 'agent_name', (agent_name) => ({ agent_id: 'a', agent_name, permissions: [] })],
  ['POST', '/v1/passports', 'subject.agent_id', (agent_id) => ({ subject: { agent_id }, permissions: [] })],
  ['POST', '/api/passports', 'agent_type', (agent_type) => ({ agent_type, permissions: [] })],
  ['POST', '/v1/passports/:passport/revoke', 'reason', (reason) => ({ reason })],
  ['POST', '/v1/approvals/appr_a/deny', 'note', (note) => ({ note })],
];

/** What `:issuer`, `:gate` and `:passport` are replaced by. */
interface Ids {
  readonly issuer: string;
  readonly gate: string;
  readonly passport: string;
}

let ids: Ids;
beforeAll(async () => {
  const [issuer, gate, passport] = await Promise.all([
    api.createIssuer(),
    api.createGate(),
    api.issuePassport(),
  ]);
  ids = { issuer: issuer.issuer_id, gate: gate.gate_id, passport: passport.passport_id };
});

/** Each range that is refused, by one of its characters. */
const misleading: readonly (readonly [name: string, character: string])[] = [
  ['a line break', '\n'],
  ['an escape', '\u001b'],
  ['a control of the second block', '\u0085'],
  ['an Arabic letter mark', '\u061c'],
  ['a left-to-right mark', '\u200e'],
  ['a line separator', '\u2028'],
  ['a right-to-left override', '\u202e'],
  ['a bidirectional isolate', '\u2066'],
];

describe.each(fields)('%s %s: %s', (method, path, param, body) => {
  it.each(misleading)('cannot hold %s', async (_name, character) => {
    const text = `Pay ${character}eve`;
    const url = path.replace(/:(issuer|gate|passport)/, (_all, kind: keyof Ids) => ids[kind]);
    const reply = await api.call({
      method,
      url,
      body: { ...body(text), ...(param.startsWith('subject.') ? { issuer_id: ids.issuer } : {}) },
    });
    expectError(reply, 'invalid_request', param);
    expect(reply.body.error.message).toMatch(
      /must hold no .*control, bidirectional or line-separator characters\.$/,
    );
  });
});

it('may be in any script, with joiners and emoji', async () => {
  const name = 'שלום · नमस्ते · 👩‍💻 · naïve — “ok”';
  expect((await api.createIssuer({ name })).name).toBe(name);
  expect((await api.issuePassport({ agent_id: name })).agent_id).toBe(name);
});
