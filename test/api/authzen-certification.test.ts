import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * The certification scenario of OpenID AuthZEN (certification/authorization-api-1_0-scenario.md of
 * openid/authzen), by its section numbers and with its payloads as they are, over HTTP. Its fixture (§1) is
 * what examples/authzen-certification.mjs makes.
 */
const api = useApi(startOwnApi);
let origin: string;
let key: string;
beforeAll(async () => {
  origin = await api.app.listen({ host: '127.0.0.1', port: 0 });
  const seed = new URL('../../examples/authzen-certification.mjs', import.meta.url);
  const env = { ...process.env, AGENT_TRUST_URL: origin, AGENT_TRUST_API_KEY: api.adminKey };
  const { stdout } = await promisify(execFile)(process.execPath, [seed.pathname], { env, timeout: 30_000 });
  key = stdout.trim();
});

interface Answered {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: the answers of three APIs.
  readonly body: any;
}

async function send(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answered> {
  const response = await fetch(`${origin}/access/v1/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const alice = { type: 'user', id: 'alice' };
const bob = { type: 'user', id: 'bob' };
const admin = { ...bob, properties: { role: 'admin' } };
const record1 = { type: 'record', id: 'record-1' };
const record2 = { type: 'record', id: 'record-2' };
const active1 = { ...record1, properties: { status: 'active' } };
const archived2 = { ...record2, properties: { status: 'archived' } };
const read = { name: 'read' };
const write = { name: 'write' };
const softly = (soft: boolean) => ({ name: 'delete', properties: { soft } });
const context = { time: '2025-06-27T18:03-07:00', ip: '192.168.1.1' };
const aliceReads = { subject: alice, action: read, resource: record1 };

describe('Basic', () => {
  it.each([
    ['2.2.1', true, aliceReads],
    ['2.2.2', false, { subject: bob, action: write, resource: record1 }],
    ['2.2.3', true, { ...aliceReads, context }],
    ['2.2.4', false, { subject: alice, action: write, resource: archived2 }],
    ['2.2.5', true, { subject: admin, action: write, resource: archived2 }],
    ['2.2.6', true, { subject: alice, action: softly(true), resource: record1 }],
    ['2.2.7', false, { subject: alice, action: softly(false), resource: record1 }],
    [
      '2.2.8',
      true,
      {
        subject: { ...alice, properties: { department: 'Sales', role: 'manager' } },
        action: { ...read, properties: { method: 'GET' } },
        resource: { ...record1, properties: { status: 'active', owner: 'bob' } },
      },
    ],
    ['2.2.9', true, { ...aliceReads, foo: 'bar', futureField: { nested: true } }],
    ['1.4 rule 2', true, { subject: alice, action: write, resource: record1 }],
    ['1.4 rule 3', true, { subject: bob, action: read, resource: record1 }],
  ])('%s is decided %j, each time (2.3, 2.6)', async (_section, decision, body) => {
    for (let round = 0; round < 2; round++) {
      const answer = await send('evaluation', body);
      expect([answer.status, answer.body.decision]).toEqual([200, decision]);
      expect(answer.body.context).toBeTypeOf('object');
    }
  });

  it.each([
    ['2.4.1 subject', { action: read, resource: record1 }],
    ['2.4.1 action', { subject: alice, resource: record1 }],
    ['2.4.1 resource', { subject: alice, action: read }],
    ['2.4.2 subject.type', { ...aliceReads, subject: { id: 'alice' } }],
    ['2.4.2 subject.id', { ...aliceReads, subject: { type: 'user' } }],
    ['2.4.2 action.name', { ...aliceReads, action: {} }],
    ['2.4.2 resource.type', { ...aliceReads, resource: { id: 'record-1' } }],
    ['2.4.2 resource.id', { ...aliceReads, resource: { type: 'record' } }],
    ['2.4.4 malformed', '{"subject":'],
    ['2.4.5 empty', undefined],
    ['2.4.6 subject', { ...aliceReads, subject: 'alice' }],
    ['2.4.6 action.name', { ...aliceReads, action: { name: 123 } }],
  ])('%s is 400', async (_section, body) => {
    expect((await send('evaluation', body)).status).toBe(400);
  });

  it('2.4.3: another content type is 400', async () => {
    expect((await send('evaluation', aliceReads, { 'content-type': 'text/plain' })).status).toBe(400);
  });

  it('2.5: the request id comes back, and is not needed', async () => {
    const id = 'bfe9eb29-ab87-4ca3-be83-a1d5d8305716';
    for (const body of [aliceReads, {}])
      expect((await send('evaluation', body, { 'x-request-id': id })).headers.get('x-request-id')).toBe(id);
    expect((await send('evaluation', aliceReads)).status).toBe(200);
  });
});

describe('Batch', () => {
  const decisions = async (body: object) => {
    const answer = await send('evaluations', body);
    expect(answer.status).toBe(200);
    return answer.body.evaluations.map((each: { decision: boolean }) => each.decision);
  };

  const execute_all = { evaluations_semantic: 'execute_all' };
  const second = [{ resource: record1 }, {}];

  it.each([
    ['3.2.2', { subject: bob, resource: record1, evaluations: [{ action: read }, { action: write }] }],
    [
      '3.2.3',
      { subject: alice, action: write, evaluations: [{ resource: active1 }, { resource: archived2 }] },
    ],
    ['3.2.5', { evaluations: [aliceReads, { subject: bob, action: write, resource: record1 }] }],
    [
      '3.2.7',
      { subject: alice, action: write, resource: active1, evaluations: [{}, { resource: archived2 }] },
    ],
    ['3.4.1', { subject: alice, action: read, options: execute_all, evaluations: second }],
  ])('%s is permitted, then denied', async (_section, body) => {
    expect(await decisions(body)).toEqual([true, false]);
  });

  it('3.2.4 is denied, then permitted', async () => {
    const body = {
      ...{ action: write, resource: archived2, evaluations: [{ subject: alice }, { subject: admin }] },
    };
    expect(await decisions(body)).toEqual([false, true]);
  });

  it.each([
    ['3.2.1', { subject: alice, action: read, evaluations: [{ resource: record1 }, { resource: record2 }] }],
    [
      '3.2.6',
      {
        ...{ subject: alice, action: read, context: { time: '2025-06-27T18:03-07:00' } },
        evaluations: [
          { resource: record1 },
          { resource: record2, context: { time: '2025-06-27T19:00-07:00', source: 'batch-override' } },
        ],
      },
    ],
  ])('%s has as many decisions as evaluations (3.3)', async (_section, body) => {
    expect(await decisions(body)).toEqual([expect.any(Boolean), expect.any(Boolean)]);
  });

  it.each([
    ['3.4.2', aliceReads],
    ['3.4.3', { ...aliceReads, evaluations: [] }],
  ])('%s is a single evaluation', async (_section, body) => {
    expect((await send('evaluations', body)).body).toMatchObject({ decision: true });
  });
});

describe('Search', () => {
  const subjects = { subject: { type: 'user' }, action: read, resource: record1 };
  const resources = { subject: alice, action: read, resource: { type: 'record' } };
  const actions = { subject: alice, resource: record1 };
  const users = [
    { type: 'user', id: 'alice' },
    { type: 'user', id: 'bob' },
  ];
  const found = async (kind: string, body: object) => {
    const { status, body: answer } = await send(`search/${kind}`, body);
    expect(status).toBe(200);
    return answer.results;
  };

  it.each([
    ['4.2.1', subjects],
    ['4.2.2', { ...subjects, context }],
    ['4.2.3', { ...subjects, subject: alice }],
  ])('%s finds the subjects', async (_section, body) => {
    expect(await found('subject', body)).toEqual(users);
  });

  it('4.2.4 finds the subject by a property of the resource', async () => {
    const body = { subject: { type: 'user' }, action: write, resource: archived2 };
    expect(await found('subject', body)).toEqual([{ type: 'user', id: 'bob' }]);
  });

  it.each([
    ['4.3.1', resources],
    ['4.3.2', { ...resources, context }],
    ['4.3.3', { ...resources, resource: record1 }],
  ])('%s finds the resources', async (_section, body) => {
    expect(await found('resource', body)).toEqual([record1, record2]);
  });

  it('4.3.4 finds the resource by what is known of it', async () => {
    const body = { subject: admin, action: write, resource: { type: 'record' } };
    expect(await found('resource', body)).toEqual([record2]);
  });

  it.each([
    ['4.4.1', actions, ['read', 'write']],
    ['4.4.2', { ...actions, context }, ['read', 'write']],
    ['4.4.3', { subject: admin, resource: archived2 }, ['read', 'write']],
  ])('%s finds the actions', async (_section, body, names) => {
    expect(await found('action', body)).toEqual(names.map((name) => ({ name })));
  });

  it('4.5: a page ends with a token, by which the next one begins', async () => {
    const first = (await send('search/subject', { ...subjects, page: { limit: 1 } })).body;
    expect(first).toEqual({
      page: { next_token: expect.stringMatching(/./), count: 1 },
      results: [users[0]],
    });
    const next = (await send('search/subject', { ...subjects, page: { token: first.page.next_token } })).body;
    expect(next).toEqual({ page: { next_token: '', count: 1 }, results: [users[1]] });
  });

  it.each([
    ['4.6.1', 'action', { subject: { type: 'user', id: 'nonexistent-user' }, resource: record1 }],
    ['4.6.1', 'resource', { ...resources, subject: { type: 'user', id: 'nonexistent-user' } }],
    ['4.6.1', 'subject', { ...subjects, resource: { type: 'record', id: 'nonexistent' } }],
    ['4.6.2', 'subject', { ...subjects, subject: { type: 'spaceship' } }],
    ['4.6.2', 'resource', { ...resources, resource: { type: 'spaceship' } }],
    ['4.6.2', 'action', { ...actions, resource: { type: 'spaceship', id: 'x' } }],
  ])('%s: a search for %s finds nothing', async (_section, kind, body) => {
    expect(await found(kind, body)).toEqual([]);
  });

  it.each([
    ['4.7.1', 'subject', { subject: { type: 'user' }, resource: record1 }],
    ['4.7.1', 'resource', { action: read, resource: { type: 'record' } }],
    ['4.7.1', 'action', { subject: alice }],
    ['4.7.2', 'subject', { subject: { type: 'user' }, action: read, resource: { type: 'record' } }],
    ['4.7.2', 'resource', { subject: { type: 'user' }, action: read, resource: { type: 'record' } }],
    ['4.7.2', 'action', { subject: { type: 'user' }, resource: record1 }],
  ])('%s: an incomplete search for %s is 400', async (_section, kind, body) => {
    expect((await send(`search/${kind}`, body)).status).toBe(400);
  });
});

it('Discovery: the metadata names every endpoint that is served (6)', async () => {
  const response = await fetch(`${origin}/.well-known/authzen-configuration`);
  expect(response.headers.get('content-type')).toMatch(/^application\/json/);
  const metadata = (await response.json()) as Record<string, unknown>;
  const base = api.deps.baseUrl.replace(/\/v1$/, '');
  expect(metadata).toEqual({
    ...{ policy_decision_point: base, access_evaluation_endpoint: `${base}/access/v1/evaluation` },
    access_evaluations_endpoint: `${base}/access/v1/evaluations`,
    search_subject_endpoint: `${base}/access/v1/search/subject`,
    search_resource_endpoint: `${base}/access/v1/search/resource`,
    search_action_endpoint: `${base}/access/v1/search/action`,
    access_request_endpoint: `${base}/access/v1/requests`,
    ...{ capabilities: ['urn:openid:authzen:capability:access-request'], supported_obligations: ['custom'] },
  });
});
