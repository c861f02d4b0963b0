import { describe, expect, it } from 'vitest';
import { authzenLimits } from '../../control-plane/authzen/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const scopes = ['enforcement:check', 'enforcement:delegate'];
const api = useApi();

/** An account of its own, with a key that searches. */
async function account() {
  const { key: admin } = await api.createAccount();
  const { key } = await api.createKey({ scopes }, admin);
  const search = (kind: string, body: unknown, as = key): Promise<Reply> =>
    api.call({ url: `/access/v1/search/${kind}`, body, key: as });
  return { admin, key, search };
}
/** Who may create orders at the gate? */
const subjectsAt = (id: string) => ({
  ...{ subject: { type: 'agent' }, action: { name: 'orders:create' }, resource: { type: 'gate', id } },
});
const files = { action: { name: 'order' }, resource: { type: 'file' } };
const idsOf = ({ body }: Reply): string[] => body.results.map(({ id, name }: Reply['body']) => id ?? name);

/** Every page, by its tokens. */
async function walk(search: (body: unknown) => Promise<Reply>, body: object, limit?: number) {
  const pages: string[][] = [];
  for (let token = ''; ; ) {
    const page = { ...(limit !== undefined && { limit }), ...(token !== '' && { token }) };
    const reply = await search({ ...body, page });
    expect(reply.status).toBe(200);
    expect(reply.body.page.count).toBe(reply.body.results.length);
    pages.push(idsOf(reply));
    token = reply.body.page.next_token;
    if (token === '') return pages;
    expect(pages.length).toBeLessThan(50);
  }
}

it('finds what an evaluation then permits, and nothing else', async () => {
  const { admin, key, search } = await account();
  const make = (constraints: object, trust_level = 'L1') =>
    api.createGate({ constraints, trust_level }, admin).then(({ gate_id }) => gate_id as string);
  const gates = await Promise.all([
    make({}),
    make({ allowed_domains: ['shop.example.com'] }),
    make({ spend_limits: { per_transaction_usd: 10 } }),
    make({ approvals: { above_usd: 0.5 } }),
    make({ rate_limits: { requests_per_day: 1_000 } }),
    make({ pii_controls: { mode: 'block', types: ['email'] } }),
  ]);
  const agents: string[] = [];
  for (const permissions of [['orders:create'], ['orders:*'], ['orders:read'], ['users:create']])
    agents.push((await api.issuePassport({ permissions }, admin)).agent_id);
  for (const verb of ['revoke', 'suspend']) {
    const { passport_id, agent_id } = await api.issuePassport({}, admin);
    await api.call({ method: 'POST', url: `/v1/passports/${passport_id}/${verb}`, body: {}, key: admin });
    agents.push(agent_id);
  }

  for (const [name, context] of [
    ['orders:create', {}],
    ['orders:read', { amount: 1 }],
    ['orders:create', { amount: 11, domain: 'shop.example.com' }],
    ['orders:create', { note: 'a@example.com' }],
  ] as const) {
    const asked = { action: { name }, context };
    const permitted = new Set<string>();
    for (const agent of agents) {
      const subject = { type: 'agent', id: agent };
      for (const gate of gates) {
        const body = { ...asked, subject, resource: { type: 'gate', id: gate } };
        const { body: answer } = await api.call({ url: '/access/v1/evaluation', body, key });
        if (answer.decision === true) permitted.add(`${agent} ${gate}`);
      }
      const found = await search('resource', { ...asked, subject, resource: { type: 'gate' } });
      expect(idsOf(found).toSorted()).toEqual(
        gates.filter((gate) => permitted.has(`${agent} ${gate}`)).toSorted(),
      );
    }
    for (const gate of gates) {
      const resource = { type: 'gate', id: gate };
      const found = await search('subject', { ...asked, subject: { type: 'agent' }, resource });
      expect(idsOf(found).toSorted()).toEqual(
        agents.filter((agent) => permitted.has(`${agent} ${gate}`)).toSorted(),
      );
    }
  }
});

it('takes and records nothing', async () => {
  const { admin, search } = await account();
  const constraints = { rate_limits: { requests_per_day: 1 } };
  const { gate_id: id } = await api.createGate({ constraints }, admin);
  const { agent_id } = await api.issuePassport({}, admin);
  const body = { ...subjectsAt(id), subject: { type: 'user', id: agent_id } };
  for (let round = 0; round < 3; round++) {
    expect(idsOf(await search('subject', body))).toEqual([agent_id]);
    expect(idsOf(await search('resource', body))).toEqual([id]);
    expect(idsOf(await search('action', body))).toEqual(['orders:create']);
  }
  const { body: page } = await api.call({ url: '/v1/attestations', key: admin });
  expect(page.attestations).toEqual([]);
  const { stats } = (await api.call({ url: `/v1/gates/${id}`, key: admin })).body;
  expect(stats.total_requests).toBe(0);
});

it('passes over resources of the vocabulary that contradict the search, or name a gate that is gone', async () => {
  const { admin, search } = await account();
  const [{ gate_id }, other] = [await api.createGate({}, admin), await api.createGate({}, admin)];
  const { agent_id } = await api.issuePassport({}, admin);
  const resource = (id: string, properties: object, gate = gate_id) => ({
    ...{ type: 'file', id, gate_id: gate, properties },
  });
  const vocabulary = {
    resources: [
      resource('broken', { amount: 'five' }),
      resource('other', { note: 'other' }),
      resource('gone', {}, other.gate_id),
      resource('fine', { note: 'same' }),
    ],
    actions: [{ resource_type: 'file', name: 'order', permission_key: 'orders:create' }],
  };
  await api.call({ method: 'PUT', url: '/v1/authzen/vocabulary', body: vocabulary, key: admin });
  await api.call({ method: 'DELETE', url: `/v1/gates/${other.gate_id}`, body: {}, key: admin });
  const body = { subject: { type: 'user', id: agent_id }, ...files };
  expect(idsOf(await search('resource', { ...body, context: { note: 'same' } }))).toEqual(['fine']);
  expect(await walk((of) => search('resource', of), body, 1)).toEqual([['other'], ['fine']]);
});

it('finds resources of a long vocabulary, whose gates are read a few at a time', async () => {
  const { admin, search } = await account();
  const { agent_id } = await api.issuePassport({}, admin);
  const gates: string[] = [];
  for (let each = 0; each < authzenLimits.gatesAtOnce + 3; each++) {
    const constraints = each % 5 === 0 ? { allowed_domains: ['shop.example.com'] } : {};
    gates.push((await api.createGate({ constraints }, admin)).gate_id);
  }
  const resources = Array.from({ length: 3 * gates.length }, (_, place) => ({
    ...{ type: 'file', id: `file-${place}`, gate_id: gates[(7 * place) % gates.length] },
  }));
  const actions = [{ resource_type: 'file', name: 'order', permission_key: 'orders:create' }];
  const vocabulary = { resources, actions };
  const put = await api.call({ method: 'PUT', url: '/v1/authzen/vocabulary', body: vocabulary, key: admin });
  expect(put.status).toBe(200);
  const open = resources.filter(({ gate_id }) => gates.indexOf(gate_id ?? '') % 5 !== 0).map(({ id }) => id);
  const body = { subject: { type: 'user', id: agent_id }, ...files };
  expect(idsOf(await search('resource', body))).toEqual(open);
  expect((await walk((of) => search('resource', of), body, 10)).flat()).toEqual(open);
});

it('finds actions of whole areas by what the gate names', async () => {
  const { admin, search } = await account();
  const { gate_id: id } = await api.createGate({}, admin);
  const { agent_id } = await api.issuePassport({ permissions: ['orders:*', 'users:read'] }, admin);
  const body = { subject: { type: 'user', id: agent_id }, resource: { type: 'gate', id } };
  expect(idsOf(await search('action', body))).toEqual(['users:read']);
  const permissions = ['orders:create', 'orders:cancel', 'carts:read'].map((key) => ({
    key,
    display_name: key,
  }));
  await api.call({ url: `/v1/gates/${id}/catalog`, body: { permissions }, key: admin });
  expect(idsOf(await search('action', body))).toEqual(['orders:cancel', 'orders:create']);
});

it('walks in pages that lose nothing and repeat nothing', async () => {
  const { admin, search } = await account();
  const { gate_id: id } = await api.createGate({}, admin);
  const agents: string[] = [];
  for (let each = 0; each < 7; each++) {
    const permissions = each === 3 ? ['orders:read'] : ['orders:create'];
    const { agent_id } = await api.issuePassport({ permissions }, admin);
    if (each !== 3) agents.push(agent_id);
  }
  const body = subjectsAt(id);
  const subjects = (of: unknown) => search('subject', of);
  for (const limit of [1, 3, 6, limits.pageItemsMax]) {
    const pages = await walk(subjects, body, limit);
    expect(pages.flat()).toEqual(agents);
    expect(pages.length).toBe(Math.ceil(agents.length / limit));
  }
  expect(await walk(subjects, body)).toEqual([agents]);
  const above = { ...body, page: { limit: limits.pageItemsMax + 1 } };
  expectError(await subjects(above), 'invalid_request', 'page.limit');
});

it('looks at no more than its bound in one call, and goes on from there', async () => {
  const { admin, search } = await account();
  const { gate_id: id } = await api.createGate(
    { constraints: { trusted_issuers: ['iss_01m7w8f9hmk9xzhvcz13er4z9h'] } },
    admin,
  );
  const { passport_id: passportId } = await api.issuePassport({}, admin);
  // Rows alone: signing as many takes longer than the search.
  await api.deps.sql`
    INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions,
      constraints, trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, expires_at_ms, metadata)
    SELECT 'pass_' || lpad(n::text, 26, '0'), account_id, mode, issuer_id, 'bulk-' || n, agent_name, subject, permissions,
      constraints, trust_tier, public_key, encode(sha256(n::text::bytea), 'hex'), signing_key_id, status, issued_at_ms,
      expires_at_ms, metadata
    FROM passports, generate_series(1, ${authzenLimits.examinedMax + 5}) AS n WHERE passport_id = ${passportId}`;
  const body = subjectsAt(id);
  const first = await search('subject', body);
  expect(first.body.results).toEqual([]);
  expect(first.body.page.next_token).not.toBe('');
  expect(await walk((of) => search('subject', of), body)).toEqual([[], []]);
});

describe('a page token', () => {
  it('belongs to its search, its limit and its account', async () => {
    const one = await account();
    const two = await account();
    const { gate_id: id } = await api.createGate({}, one.admin);
    for (let each = 0; each < 3; each++) await api.issuePassport({}, one.admin);
    const body = subjectsAt(id);
    const { next_token: token } = (await one.search('subject', { ...body, page: { limit: 1 } })).body.page;
    expect((await one.search('subject', { ...body, page: { token } })).body.page.count).toBe(1);
    expect((await one.search('subject', { ...body, page: { token, limit: 1 } })).status).toBe(200);
    const ignored = { ...body, subject: { type: 'agent', id: 'ignored' }, page: { token } };
    expect((await one.search('subject', ignored)).status).toBe(200);
    const refused: [typeof one, string, object][] = [
      [two, 'subject', body],
      [one, 'subject', { ...body, action: { name: 'orders:read' } }],
      [one, 'subject', { ...body, context: { amount: 1 } }],
      [one, 'subject', { ...body, subject: { type: 'user' } }],
      [one, 'resource', { ...body, subject: { type: 'agent', id: 'x' }, resource: { type: 'gate' } }],
    ];
    for (const [who, kind, asked] of refused)
      expectError(await who.search(kind, { ...asked, page: { token } }), 'invalid_request', 'page.token');
    const other = { ...body, page: { token, limit: 2 } };
    expectError(await one.search('subject', other), 'invalid_request', 'page.token');
  });

  it('that is made up is refused, whatever it says', async () => {
    const { admin, search } = await account();
    const { gate_id: id } = await api.createGate({}, admin);
    const body = subjectsAt(id);
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    for (const token of [
      'x',
      '!',
      encode(null),
      encode(['pass_00000000000000000000000000', 1, '0'.repeat(16)]),
      encode(["' OR true --", 1, '0'.repeat(16)]),
      encode(['a', -1, '']),
      encode([{ toString: 'a' }, 1, '']),
    ])
      expectError(await search('subject', { ...body, page: { token } }), 'invalid_request', 'page.token');
    for (const page of [{ token: 'x'.repeat(10_000) }, { token: 7 }, { limit: 0 }])
      expect((await search('subject', { ...body, page })).status).toBe(400);
  });
});

it('needs enforcement:delegate, and shows nothing of others', async () => {
  const one = await account();
  const two = await account();
  const { gate_id: id } = await api.createGate({}, one.admin);
  const { agent_id } = await api.issuePassport({}, one.admin);
  const body = { ...subjectsAt(id), subject: { type: 'agent', id: agent_id } };
  const { key: plain } = await api.createKey({ scopes: ['enforcement:check'] }, one.admin);
  const inTest = await api.createKey({ scopes, mode: 'test' }, one.admin);
  for (const kind of ['subject', 'resource', 'action']) {
    expect(idsOf(await one.search(kind, body))).not.toEqual([]);
    expectError(await one.search(kind, body, plain), 'insufficient_scope');
    expect(idsOf(await two.search(kind, body))).toEqual([]);
    expect(idsOf(await one.search(kind, body, inTest.key))).toEqual([]);
  }
});

it('finds nothing for words that nobody knows, and refuses what no search is', async () => {
  const { admin, search } = await account();
  const { gate_id: id } = await api.createGate({}, admin);
  const { agent_id } = await api.issuePassport({}, admin);
  const body = { ...subjectsAt(id), subject: { type: 'agent', id: agent_id } };
  for (const change of [
    { action: { name: 'orders:*' } },
    { action: { name: 'x'.repeat(10_000) } },
    { resource: { type: 'gate', id: 'x'.repeat(10_000) } },
    { resource: { type: 'record', id } },
  ])
    expect(idsOf(await search('subject', { ...body, ...change }))).toEqual([]);
  expect((await search('subject', { ...body, context: { amount: 'much' } })).status).toBe(400);
  expect((await search('subject', { ...body, context: 7 })).status).toBe(400);
  const long = { ...body, context: { note: 'x'.repeat(authzenLimits.searchBytesMax) } };
  expectError(await search('subject', long), 'body_too_large');
  expect((await search('subject', '{"a":1,"a":2}')).status).toBe(400);
});
