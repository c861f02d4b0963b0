import { beforeAll, describe, expect, it } from 'vitest';
import { isPlainText } from '../../shared/model/plain-text.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();
/** What `:issuer`, `:gate` and `:passport` are replaced by. */
let ids: Readonly<Record<'issuer' | 'gate' | 'passport', string>>;
beforeAll(async () => {
  const [{ issuer_id }, { gate_id }] = [await api.createIssuer(), await api.createGate()];
  ids = { issuer: issuer_id, gate: gate_id, passport: (await api.issuePassport()).passport_id };
});

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
  ['POST', '/v1/passports', 'user', (user) => ({ agent_id: 'a', user, permissions: [] })],
  ['POST', '/v1/passports', 'subject.agent_id', (agent_id) => ({ subject: { agent_id }, permissions: [] })],
  ['POST', '/api/passports', 'agent_type', (agent_type) => ({ agent_type, permissions: [] })],
  ['POST', '/v1/passports/:passport/revoke', 'reason', (reason) => ({ reason })],
  ['POST', '/v1/approvals/appr_a/deny', 'note', (note) => ({ note })],
];

describe('text that people read', () => {
  // Each range that is refused, by its ends.
  it.each([
    ...['\u0000', '\n', '\u001b', '\u001f', '\u007f', '\u0085', '\u009f', '\u061c', '\u200e', '\u200f'],
    ...['\u2028', '\u2029', '\u202a', '\u202e', '\u2066', '\u2069'],
  ])('cannot hold %j', (character) => {
    expect(isPlainText(`Pay ${character}eve`)).toBe(false);
  });

  it.each(fields)('is held to that by %s %s: %s', async (method, path, param, body) => {
    const url = path.replace(/:(issuer|gate|passport)/, (_all, kind: keyof typeof ids) => ids[kind]);
    const issuer = param.startsWith('subject.') ? { issuer_id: ids.issuer } : {};
    const key = url === '/v1/accounts' ? api.operatorKey : api.adminKey;
    const reply = await api.call({ method, url, key, body: { ...body('Pay \u202eeve'), ...issuer } });
    expectError(reply, 'invalid_request', param);
    expect(reply.body.error.message).toMatch(
      /must hold no .*control, bidirectional or line-separator characters\.$/,
    );
  });

  it('may be in any script, with joiners and emoji', async () => {
    const name = 'שלום · नमस्ते · 👩‍💻 · naïve — “ok”';
    expect((await api.createIssuer({ name })).name).toBe(name);
    expect((await api.issuePassport({ agent_id: name })).agent_id).toBe(name);
  });
});
