import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApiDocument, forPrograms } from '../../clients/node/scripts/generate-api.ts';
import { resources } from '../../clients/node/src/generated/api.ts';
import {
  AgentTrust,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  ForbiddenError,
  InvalidRequestError,
  NotFoundError,
  PreconditionFailedError,
  RateLimitedError,
  responseOf,
  ServiceError,
} from '../../clients/node/src/index.ts';
import { freePort } from '../support/base/free-port.ts';
import { documentOf } from '../support/service/api.ts';
import { type GoodCalls, goodCalls } from '../support/service/good-calls.ts';
import { errorBody, http, startScriptedServer } from './support/scripted-server.ts';
import { type ClientService, startClientService } from './support/service.ts';

let service: ClientService;
let calls: GoodCalls;
beforeAll(async () => {
  service = await startClientService();
  calls = goodCalls(service.api);
});
afterAll(() => service.close());

type Operation = readonly [method: string, path: string, flags: string];
const operations = Object.entries(resources).flatMap(([resource, methods]) =>
  Object.entries<Operation>(methods).map(([name, operation]) => ({ resource, name, operation })),
);

/** The arguments with which a method of the client makes this call. */
function argsOf([, template, flags]: Operation, url: URL, body: unknown): unknown[] {
  const ids = new RegExp(`^${template.replaceAll(/\{\w+\}/g, '([^/]+)')}$`).exec(url.pathname)?.slice(1);
  if (ids === undefined) throw new Error(`${url.pathname} is not ${template}`);
  return [
    ...ids.map(decodeURIComponent),
    ...(flags.includes('body') ? [body] : []),
    ...(flags.includes('query') ? [Object.fromEntries(url.searchParams)] : []),
  ];
}

describe('every operation of the API', () => {
  it('has a method, if it is for programs', () => {
    const document: ApiDocument = JSON.parse(JSON.stringify(documentOf(service.api.app)));
    const published = Object.entries(forPrograms(document).paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const known = operations.map(({ operation: [method, path] }) => `${method} ${path}`);
    expect(known.toSorted()).toEqual(published.toSorted());
  });

  it.each(operations)('answers $resource: $name', async ({ resource, name, operation }) => {
    const [method, path, flags] = operation;
    const id = must(documentOf(service.api.app).paths[path]?.[method.toLowerCase()]).operationId;
    const { url, body, headers, key = service.api.adminKey } = await must(calls[id])();
    const client = new AgentTrust({ url: service.url, apiKey: key ?? service.api.adminKey });
    const call = must((client as unknown as Methods)[resource]?.[name]);
    const ifMatch = headers?.['if-match'];
    const answer = await call(
      ...argsOf(operation, new URL(url, service.url), body),
      ...(ifMatch === undefined ? [] : [{ ifMatch }]),
    );
    if (flags.includes('stream'))
      expect((await read(answer as AsyncIterable<Uint8Array>)).length).toBeGreaterThan(0);
    else if (flags.includes('text')) expect(answer).toMatch(/^# HELP|^c2sp.org\/tlog-proof@v1\n/);
    else expect(responseOf(answer as object)).toMatchObject({ request_id: expect.stringMatching(/^req_/) });
    client.close();
  });
});

type Methods = Record<string, Record<string, (...args: unknown[]) => Promise<unknown>>>;

function must<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error('missing');
  return value;
}

async function read(bytes: AsyncIterable<Uint8Array>): Promise<string> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of bytes) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
}

describe('lists', () => {
  it('go through all pages of an offset, and are their first page when awaited', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    for (const name of names) {
      await service.agentTrust.templates.create({ name: `list ${name}` });
      // Those of one millisecond are in no order.
      service.api.advance(1);
    }
    const found: string[] = [];
    for await (const { name } of service.agentTrust.templates.list({ limit: 2 })) found.push(name);
    expect(found.filter((name) => name.startsWith('list '))).toEqual(
      names.map((name) => `list ${name}`).reverse(),
    );
    expect(await service.agentTrust.templates.list({ limit: 2 })).toMatchObject({ limit: 2, offset: 0 });
  });

  it('go through all pages of a cursor', async () => {
    const gate = await service.agentTrust.gates.create({ name: 'Listed', trust_level: 'L1' });
    const { jwt, passport_id } = await service.agentTrust.passports.issue({
      agent_id: 'listed',
      permissions: ['a:b'],
    });
    const ids = new Set<string | null>();
    for (let i = 0; i < 5; i++) {
      const decision = await service.agentTrust.decisions.check(gate.gate_id, {
        passport: must(jwt),
        request: { permission_key: 'a:b' },
      });
      ids.add(decision.attestation_id);
    }
    const pages: number[] = [];
    const listed = new Set<string>();
    for await (const page of service.agentTrust.attestations.list({ passport_id, limit: 2 }).pages()) {
      pages.push(page.attestations.length);
      for (const { id } of page.attestations) listed.add(id);
    }
    expect(pages).toEqual([2, 2, 1]);
    expect(listed).toEqual(ids);
  });

  it('follow the cursor of a search, whose first page may have an offset', async () => {
    const catalog = { permissions: [{ key: 'paged:search' }] };
    for (const name of ['1', '2', '3']) {
      await service.agentTrust.gates.create({ name, trust_level: 'L1', catalog });
    }
    const names: string[] = [];
    const query = { capability: 'paged', limit: 1, offset: 1 };
    for await (const result of service.agentTrust.gates.discover(query)) names.push(result.gate_name);
    expect(names).toHaveLength(2);
  });
});

describe('what comes with an answer', () => {
  it('is its ETag, which a change and a cache can be bound to', async () => {
    const { gate_id } = await service.agentTrust.gates.create({
      name: 'Tagged',
      trust_level: 'L1',
      catalog: { permissions: [] },
    });
    const ifMatch = String(responseOf(await service.agentTrust.gates.get(gate_id)).headers['etag']);
    await service.agentTrust.gates.update(gate_id, { name: 'Changed' }, { ifMatch });
    await expect(service.agentTrust.gates.update(gate_id, { name: 'Late' }, { ifMatch })).rejects.toThrow(
      PreconditionFailedError,
    );
    const catalog = must((await service.agentTrust.catalogs.get(gate_id)) ?? undefined);
    const ifNoneMatch = String(responseOf(catalog).headers['etag']);
    expect(await service.agentTrust.catalogs.get(gate_id, {}, { ifNoneMatch })).toBeNull();
    expect(() => responseOf({})).toThrow(TypeError);
  });

  it('says whether an answer is a replay', async () => {
    const idempotencyKey = 'order-of-a-test';
    const body = { agent_id: 'once', permissions: [] };
    const first = await service.agentTrust.passports.issue(body, { idempotencyKey });
    const again = await service.agentTrust.passports.issue(body, { idempotencyKey });
    expect(again.passport_id).toBe(first.passport_id);
    expect(responseOf(first).headers['idempotent-replayed']).toBeUndefined();
    expect(responseOf(again).headers['idempotent-replayed']).toBe('true');
  });
});

describe('refusals are thrown as errors of their class', () => {
  it.each([
    ['an unknown id', () => service.agentTrust.gates.get('gate_00000000000000000000000000'), NotFoundError],
    [
      'a wrong body',
      () => service.agentTrust.gates.create({ name: 'x', constraints: {} }),
      InvalidRequestError,
    ],
    ['a taken agent_id', () => twice({ agent_id: 'taken', permissions: [] }), ConflictError],
    [
      'a key without the scope',
      () => withScopes(['gates:read']).then((own) => own.accounts.list()),
      ForbiddenError,
    ],
    [
      'an unknown key',
      () => clientOf('at_live_0000000000000000000000000000000000').gates.list(),
      AuthenticationError,
    ],
  ])('%s', async (_, call, ErrorClass) => {
    const thrown = await Promise.resolve(call()).catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(ErrorClass);
    expect(thrown).toMatchObject({ name: ErrorClass.name, request_id: expect.stringMatching(/^req_/) });
  });

  const clientOf = (apiKey: string) => new AgentTrust({ url: service.url, apiKey });
  const twice = async (body: { readonly agent_id: string; readonly permissions: string[] }) => {
    await service.agentTrust.passports.issue(body);
    return service.agentTrust.passports.issue(body);
  };
  const withScopes = async (scopes: 'gates:read'[]) =>
    clientOf(must((await service.agentTrust.apiKeys.create({ name: 'weak', scopes })).key));
});

describe('repetitions', () => {
  const account = { account_id: 'acct_1' };
  const scripted = async (
    answers: readonly string[],
    call: (client: AgentTrust) => PromiseLike<unknown>,
  ): Promise<{ outcome: unknown; heads: string[] }> => {
    const server = await startScriptedServer((socket, { number }) => {
      const answer = answers[number - 1];
      if (answer === undefined || answer === '') socket.end();
      else socket.write(answer);
    });
    const client = new AgentTrust({ url: server.url, apiKey: 'at_live_secretsecretsecretsecret01' });
    const outcome = await Promise.resolve(call(client)).catch((error: unknown) => error);
    client.close();
    await server.close();
    return { outcome, heads: server.arrived.map(({ head }) => head) };
  };
  const busy = http(503, errorBody('service_unavailable', 503), { 'retry-after': '0' });
  const limited = http(429, errorBody('rate_limited', 429), { 'retry-after': '0' });
  const keyOf = (head: string | undefined) => /^idempotency-key: (.*)$/im.exec(head ?? '')?.[1];

  it('of a creation keep its idempotency key, and another creation has another one', async () => {
    const create = (client: AgentTrust) => client.accounts.create({ name: 'Acme', plan: 'free' });
    const { outcome, heads } = await scripted(['', busy, http(201, account)], create);
    expect(outcome).toEqual(account);
    const keys = heads.map(keyOf);
    expect(keys[0]).toMatch(/^[!-~]{1,128}$/);
    expect(keys).toEqual([keys[0], keys[0], keys[0]]);
    const other = await scripted([http(201, account)], create);
    expect(keyOf(other.heads[0])).not.toBe(keys[0]);
  });

  it('of a read follow a lost answer', async () => {
    const { outcome } = await scripted(['', http(200, account)], (client) => client.accounts.get('acct_1'));
    expect(outcome).toEqual(account);
  });

  it('of what may have been done follow neither a lost answer nor 503', async () => {
    const revoke = (client: AgentTrust) => client.passports.revoke('pass_1');
    for (const answer of ['', busy]) {
      const { outcome, heads } = await scripted([answer, http(200, account)], revoke);
      expect(outcome).toBeInstanceOf(answer === '' ? ConnectionError : ServiceError);
      expect(heads).toHaveLength(1);
    }
    const remove = await scripted([''], (client) => client.gates.delete('gate_1'));
    expect(remove.heads).toHaveLength(1);
  });

  it('of anything follow 429, because a plan limit takes nothing, and end', async () => {
    const revoke = (client: AgentTrust) => client.passports.revoke('pass_1');
    expect((await scripted([limited, http(200, account)], revoke)).outcome).toEqual(account);
    const { outcome, heads } = await scripted([limited, limited, limited, limited], revoke);
    expect(outcome).toBeInstanceOf(RateLimitedError);
    expect(outcome).toMatchObject({ retry_after_ms: 0 });
    expect(heads).toHaveLength(3);
  });

  it('of a decision follow a lost answer only under its own idempotency key', async () => {
    const permit = http(200, { decision: 'PERMIT' });
    const ask = (request: Record<string, unknown>) => (client: AgentTrust) =>
      client.decisions.enforce({ passport: 'a.b.c', request });
    expect((await scripted(['', permit], ask({}))).outcome).toBeInstanceOf(ConnectionError);
    expect((await scripted(['', permit], ask({ idempotency_key: 'k' }))).outcome).toEqual({
      decision: 'PERMIT',
    });
  });
});

it('says where it failed to connect, and neither inspection nor error shows the API key', async () => {
  const client = new AgentTrust({
    url: `http://127.0.0.1:${await freePort()}`,
    apiKey: 'at_live_secretsecretsecretsecret01',
  });
  const thrown = await Promise.resolve(client.gates.list()).catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(ConnectionError);
  expect(thrown).toMatchObject({ code: 'connection_failed', request_id: null, http_status: null });
  expect(inspect(thrown)).toContain('GET /v1/gates');
  expect(inspect([client, thrown], { depth: 20, showHidden: true })).not.toContain('secretsecret');
});

it('throws what a stream is refused with, and leaves a stream early', async () => {
  const weak = await service.agentTrust.apiKeys.create({ name: 'weak', scopes: ['gates:read'] });
  const refused = new AgentTrust({ url: service.url, apiKey: must(weak.key) }).attestations.export();
  await expect(refused).rejects.toThrow(ForbiddenError);
  for await (const chunk of await service.agentTrust.audit.export()) {
    expect(Buffer.from(chunk).toString()).toMatch(/^\{"manifest"/);
    break;
  }
});

describe('a sidecar', () => {
  it('answers a batch in order, with the error of a check in its place', async () => {
    const gate = await service.agentTrust.gates.create({ name: 'Batch', trust_level: 'L1' });
    const { jwt } = await service.agentTrust.passports.issue({ agent_id: 'batch', permissions: ['a:b'] });
    await service.testSidecar.caughtUp();
    const check = (request: Record<string, unknown>) => ({ passport: must(jwt), request });
    const results = await service.sidecar.checkBatch(gate.gate_id, [
      check({ permission_key: 'a:b' }),
      check({ permission_key: 'a:b', amount: -1 }),
      check({ permission_key: 'a:c' }),
    ]);
    expect(results).toMatchObject([
      { decision: 'PERMIT' },
      { code: 'invalid_request', http_status: 400 },
      { decision: 'BLOCK', reason: 'permission_not_granted' },
    ]);
    expect(results[1]).toBeInstanceOf(InvalidRequestError);
  });
});
