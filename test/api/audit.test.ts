import { describe, expect, it } from 'vitest';
import { updateGate } from '../../control-plane/gates/update-gate.ts';
import { verifyAuditEntry } from '../../shared/audit/entry.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { keyset } from '../../shared/crypto/keyset.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { operatorCaller } from '../support/data/caller.ts';
import { faultyDatabase } from '../support/database/faulty-sql.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

interface Asked {
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
}

const list = async ({ key = api.adminKey, query = {} }: Asked): Promise<Reply['body']> => {
  const reply = await api.call({ url: `/v1/audit?${new URLSearchParams(query)}`, key });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body;
};
const entries = async (asked: Asked): Promise<Reply['body'][]> => (await list(asked)).entries;

/** All entries, oldest first, held against the rules of the chain. */
async function wholeChain(key: string): Promise<Reply['body'][]> {
  const all: Reply['body'][] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Reply['body'] = await list({
      key,
      query: { limit: '200', ...(cursor === '' ? {} : { cursor }) },
    });
    all.push(...page.entries);
    cursor = page.next_cursor;
  }
  const chain = all.toSorted((one, other) => one.sequence - other.sequence);
  const keys = keyset(chooseEd25519(), api.deps.signingKeys.all());
  let head: { sequence: number; hash: string | null } = { sequence: 0, hash: null };
  for (const entry of chain) {
    expect(verifyAuditEntry(entry, head, keys)).toMatchObject({ kind: 'valid' });
    head = { sequence: entry.sequence, hash: entry.hash };
  }
  return chain;
}

describe('an entry', () => {
  it('names actor, operation, target, time and request, with the differences', async () => {
    const { key, accountId } = await api.createAccount();
    const maker = await api.createKey({ scopes: ['gates:manage'] }, key);
    const gate = await api.createGate({ constraints: { spend_limits: { daily_usd: 10.5 } } }, maker.key);
    const change = { method: 'PUT', url: `/v1/gates/${gate.gate_id}`, key: maker.key };
    const body = { name: 'Renamed', constraints: { spend_limits: { daily_usd: 0.1 } } };
    const { headers, body: updated } = await api.call({ ...change, body });
    const [last, first] = await entries({ key, query: { target: gate.gate_id } });
    expect(first).toMatchObject({ operation: 'createGate', before: null, after: { gate_id: gate.gate_id } });
    expect(last).toEqual({
      ...{ audit_id: expect.stringMatching(/^aud_/), account_id: accountId, mode: 'live' },
      ...{ actor: { type: 'api_key', id: maker.keyId, client_id: null }, operation: 'updateGate' },
      target: gate.gate_id,
      before: {
        name: 'Orders',
        constraints: { spend_limits: { daily_usd: 10.5 } },
        updated_at: gate.updated_at,
      },
      after: {
        name: 'Renamed',
        constraints: { spend_limits: { daily_usd: 0.1 } },
        updated_at: updated.updated_at,
      },
      ...{ request_id: headers['x-request-id'], created_at: expect.stringMatching(/Z$/) },
      ...{ sequence: first.sequence + 1, previous_hash: first.hash, hash: expect.stringMatching(/^sha256:/) },
      ...{ signature: expect.any(String), signing_key_id: api.deps.signingKeys.current('attestation').kid },
    });
    await wholeChain(key);
  });

  it('is not written for a change that changes nothing', async () => {
    const { key } = await api.createAccount();
    const gate = await api.createGate({}, key);
    const { passport_id } = await api.issuePassport({}, key);
    const revoke = { method: 'POST', url: `/v1/passports/${passport_id}/revoke`, key };
    const update = { method: 'PUT', url: `/v1/gates/${gate.gate_id}`, key, body: { name: gate.name } };
    for (const call of [revoke, revoke, update]) expect((await api.call(call)).status).toBe(200);
    expect((await wholeChain(key)).map(({ operation }) => operation)).toEqual([
      'createGate',
      'issuePassport',
      'revokePassport',
    ]);
  });

  it('is not written for a refused change', async () => {
    const { key } = await api.createAccount();
    const reader = await api.createKey({ scopes: ['gates:read'] }, key);
    const refused = [
      { url: '/v1/gates', key, body: { name: 'no trust level' } },
      { url: '/v1/gates', key: reader.key, body: { name: 'a', trust_level: 'L1' } },
      { method: 'DELETE', url: '/v1/gates/gate_01m7w8f9hmk9xzhvcz13er4z9h', key },
    ];
    const statuses = [];
    for (const call of refused) statuses.push((await api.call(call)).status);
    expect(statuses).toEqual([400, 403, 404]);
    expect((await wholeChain(key)).map(({ operation }) => operation)).toEqual(['createApiKey']);
  });

  it('names a webhook without what protects its receiver', async () => {
    const { key } = await api.createAccount();
    const url = 'https://hooks.example.com/services/T0/B0/XXXX?token=YYYY';
    const made = await api.call({ url: '/v1/webhooks', key, body: { url, events: ['gate.created'] } });
    const target = made.body.webhook_id;
    const moved = { method: 'PUT', url: `/v1/webhooks/${target}`, key, body: { url: `${url}Z` } };
    expect((await api.call(moved)).status).toBe(200);
    const [update, creation] = await entries({ key, query: { target } });
    expect(creation.after.url).toBe('https://hooks.example.com');
    expect(update.after.url_hash).not.toBe(update.before.url_hash);
    expect(JSON.stringify([update, creation])).not.toMatch(/XXXX|YYYY/);
  });
});

describe('one change', () => {
  it('is there with its entry or not at all, whichever statement fails', async () => {
    const caller = await operatorCaller(api.deps);
    const stateOf = async (gateId: GateId) => ({
      name: (await api.call({ url: `/v1/gates/${gateId}` })).body.name,
      updates: (await entries({ query: { target: gateId, operation: 'updateGate' } })).length,
    });
    const rename = async (failAt: number) => {
      const { gate_id: gateId } = await api.createGate({ name: 'before' });
      const counted = faultyDatabase(api.deps.sql, failAt);
      const change = { gateId, patch: { name: 'after' }, ifMatch: () => true };
      const failed = await updateGate({ ...api.deps, sql: counted.sql }, caller, change).then(
        () => false,
        () => true,
      );
      return { failed, statements: counted.statements, state: await stateOf(gateId) };
    };
    let failAt = 1;
    for (; ; failAt += 1) {
      const { failed, state } = await rename(failAt);
      expect(state).toEqual(failed ? { name: 'before', updates: 0 } : { name: 'after', updates: 1 });
      if (!failed) break;
    }
    expect(failAt).toBeGreaterThan(5);
    // The commit itself was not answered: it happened.
    expect(await rename(0)).toMatchObject({ failed: true, state: { name: 'after', updates: 1 } });
  });
});

describe('the list', () => {
  it('is filtered by each of its parameters', async () => {
    const { key } = await api.createAccount();
    const one = await api.createKey({ scopes: ['gates:create'] }, key);
    const other = await api.createKey({ scopes: ['gates:create', 'issuers:create'] }, key);
    api.stopClock();
    api.advance(10_000);
    const gate = await api.createGate({}, one.key);
    api.advance(10_000);
    const between = new Date(api.deps.clock.now() - 5_000).toISOString();
    const gate2 = await api.createGate({}, other.key);
    const issuer = await api.createIssuer({}, other.key);
    const targets = async (query: Readonly<Record<string, string>>) =>
      (await entries({ key, query })).map(({ target }) => target);
    expect(await targets({ operation: 'createGate' })).toEqual([gate2.gate_id, gate.gate_id]);
    expect(await targets({ actor: one.keyId })).toEqual([gate.gate_id]);
    expect(await targets({ actor: other.keyId, operation: 'createIssuer' })).toEqual([issuer.issuer_id]);
    expect(await targets({ target: gate.gate_id })).toEqual([gate.gate_id]);
    expect(await targets({ since: between })).toEqual([issuer.issuer_id, gate2.gate_id]);
    expect(await targets({ until: between })).toEqual([gate.gate_id, other.keyId, one.keyId]);
    expect(await targets({ target: 'nothing' })).toEqual([]);
  });

  it('shows a key only its own account and mode', async () => {
    const { key } = await api.createAccount();
    const other = await api.createAccount();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, key);
    const live = await api.createGate({}, key);
    const inTest = await api.createGate({}, test.key);
    await api.createGate({}, other.key);
    const chains = [await wholeChain(key), await wholeChain(test.key)];
    // The test key itself was made by a live one.
    expect(chains.map((chain) => chain.map(({ target }) => target))).toEqual([
      [test.keyId, live.gate_id],
      [inTest.gate_id],
    ]);
    expect(chains.map(([first]) => first.sequence)).toEqual([1, 1]);
  });
});

describe('many changes of one account at once', () => {
  it('make one chain without a gap, and none of them waits in a circle', async () => {
    const { key } = await api.createAccount();
    const gate = await api.createGate({}, key);
    const { passport_id } = await api.issuePassport({}, key);
    const issuer = await api.createIssuer({}, key);
    const put = (url: string, body: object) => ({ method: 'PUT', url, key, body });
    const calls = Array.from({ length: 30 }, (_, round) => [
      { url: '/v1/passports', key, body: { agent_id: `a-${round}`, permissions: [] } },
      {
        ...{ url: '/v1/api-keys', key, body: { name: `k-${round}`, scopes: ['gates:read'] } },
        headers: { 'idempotency-key': `${round}` },
      },
      put(`/v1/gates/${gate.gate_id}`, { name: `g-${round}` }),
      put(`/v1/issuers/${issuer.issuer_id}`, { status: round % 2 === 0 ? 'suspended' : 'active' }),
      {
        method: 'POST',
        url: `/v1/passports/${passport_id}/${round % 2 === 0 ? 'suspend' : 'reactivate'}`,
        key,
      },
    ]).flat();
    const replies = await Promise.all(calls.map((call) => api.call(call)));
    const failed = replies.filter(({ status }) => status >= 500);
    expect(failed.map(({ body }) => body)).toEqual([]);
    const done = replies.filter(({ status }) => status < 300).length;
    expect(done).toBeGreaterThan(60);
    // Three to begin with. A PUT that found an issuer as it was to be has changed nothing.
    const chain = await wholeChain(key);
    const issuerPuts = replies.filter(
      ({ status, body }) => status === 200 && 'passport_count' in body,
    ).length;
    const written = chain.length - 3;
    expect(written).toBeLessThanOrEqual(done);
    expect(written).toBeGreaterThanOrEqual(done - issuerPuts);
    expect(new Set(chain.map(({ request_id }) => request_id)).size).toBe(chain.length);
  });
});
