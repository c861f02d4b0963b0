import { beforeAll, describe, expect, it } from 'vitest';
import type { Document } from '../../control-plane/openapi/document.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import { operationsOf } from '../support/data/document.ts';
import { type Api, documentOf, type LoggedIn, type Reply, startOwnApi } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { append, liveOwner, newRecord } from '../support/service/exports.ts';
import { logInAgain } from '../support/service/good-calls.ts';
import { askingRules, standingBody } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet } from '../support/service/wallets.ts';

/**
 * Every list of the document, walked page by page while items come and go: what is there from begin to end is
 * met once, and nothing twice.
 */
const api = useApi(startOwnApi);
let document: Document;
beforeAll(() => {
  document = documentOf(api.app);
});

interface Listed {
  readonly url: string;
  readonly key: string | null;
  readonly headers?: Readonly<Record<string, string>>;
  /** The member of an item that names it, and of the page that holds the items. */
  readonly id: string;
  readonly items?: string;
  /** Makes one more; its id, where the answer has it. */
  readonly make: () => Promise<unknown>;
  /** Takes one out of the list; null: nothing ever leaves it. */
  readonly remove: ((id: string) => Promise<unknown>) | null;
}

const account = () => api.createAccount();
const posted = (url: string, key: string, body?: object) =>
  api.call({ method: 'POST', url: `/v1${url}`, key, ...(body === undefined ? {} : { body }) });
const newId = (prefix: Parameters<Api['deps']['random']['newId']>[0]) =>
  api.deps.random.newId(prefix, api.deps.clock.now());

let number = 0;
const fresh = (what: string) => {
  number += 1;
  return `${what}-${number}`;
};

/** Takes one out of the list of this key. */
type Remove = (id: string, key: string) => Promise<unknown>;
/** Of a new account. */
async function ofAccount(
  url: string,
  id: string,
  make: (key: string, accountId: string) => Promise<unknown>,
  remove: Remove | 'by DELETE' | null = null,
): Promise<Listed> {
  const { accountId, key } = await account();
  const byDelete: Remove = (each) => api.call({ method: 'DELETE', url: `/v1${url}/${each}`, key });
  const removing = remove === 'by DELETE' ? byDelete : remove;
  return {
    url: `/v1${url}`,
    key,
    id,
    make: () => make(key, accountId),
    remove: removing === null ? null : (each) => removing(each, key),
  };
}
/** Of a new person. */
async function ofPerson(
  url: string,
  id: string,
  make: (person: LoggedIn) => Promise<unknown>,
  remove: (each: string, person: LoggedIn) => Promise<unknown>,
): Promise<Listed> {
  const person = await api.createUser();
  const { headers } = person;
  return { url, key: null, headers, id, make: () => make(person), remove: (each) => remove(each, person) };
}

const hook = { url: 'https://hooks.example.com/', events: ['gate.created'] };

const lists: Readonly<Record<string, () => Promise<Listed>>> = {
  listPassports: () =>
    ofAccount(
      '/passports?status=active',
      'passport_id',
      (key) => api.issuePassport({}, key),
      (id, key) => posted(`/passports/${id}/revoke`, key),
    ),
  listGates: () => ofAccount('/gates', 'gate_id', (key) => api.createGate({}, key), 'by DELETE'),
  listIssuers: () => ofAccount('/issuers', 'issuer_id', (key) => api.createIssuer({}, key)),
  listTemplates: () =>
    ofAccount('/templates', 'template_id', (key) => posted('/templates', key, { name: fresh('template') })),
  listApiKeys: () =>
    ofAccount('/api-keys', 'key_id', (key) => api.createKey({ scopes: ['gates:read'] }, key), 'by DELETE'),
  listAccounts: async () => ({
    ...{ url: '/v1/accounts', key: api.adminKey, id: 'account_id', remove: null },
    make: () => api.createAccount(),
  }),
  listMcpPins: () =>
    ofAccount('/mcp-pins', 'pin_id', async (key) => {
      const { gate_id } = await api.createGate({}, key);
      const tools = [{ definition: JSON.stringify({ name: fresh('tool') }) }];
      return posted('/mcp-pins', key, { gate_id, upstream: 'http://127.0.0.1:3000/mcp', tools });
    }),
  listWallets: () => ofAccount('/wallets', 'wallet_id', (key) => makeWallet(api, {}, key), 'by DELETE'),
  listStandingApprovals: () =>
    ofAccount('/approvals/standing', 'standing_approval_id', async (key) => {
      const { passport_id } = await api.issuePassport({}, key);
      const { gate_id } = await api.createGate({ constraints: askingRules }, key);
      return posted('/approvals/standing', key, standingBody(api, { gate_id, passport_id }));
    }),
  listChannels: () =>
    ofAccount(
      '/channels',
      'channel_id',
      async (key) => {
        // An account has eight channels of its own, and each of its gates as many.
        const { gate_id } = await api.createGate({}, key);
        return posted('/channels', key, {
          name: fresh('channel'),
          kind: 'webhook',
          target: hook.url,
          gate_id,
        });
      },
      'by DELETE',
    ),
  listWebhooks: () =>
    ofAccount('/webhooks', 'webhook_id', (key) => posted('/webhooks', key, hook), 'by DELETE'),
  listDeliveries: async () => {
    const { key } = await account();
    const { webhook_id } = (await posted('/webhooks', key, hook)).body;
    return {
      ...{ url: `/v1/webhooks/${webhook_id}/deliveries`, key, id: 'delivery_id' },
      make: () => posted(`/webhooks/${webhook_id}/test`, key, {}),
      // As trimming does.
      remove: (id) => api.deps.sql`DELETE FROM webhook_deliveries WHERE delivery_id = ${id}`,
    };
  },
  listApprovals: () =>
    ofAccount(
      '/approvals?status=pending',
      'approval_id',
      (key) => openAnApproval(api, { key }),
      (id, key) => posted(`/approvals/${id}/deny`, key),
    ),
  listUsers: () =>
    ofAccount(
      '/users',
      'user_id',
      (key) => posted('/users', key, { email: `${fresh('u')}@example.com`, role: 'auditor' }),
      'by DELETE',
    ),
  listSessions: () =>
    ofPerson(
      '/v1/sessions',
      'session_id',
      (person) => logInAgain(api, person),
      (id, { headers }) => api.call({ method: 'DELETE', url: `/v1/sessions/${id}`, key: null, headers }),
    ),
  listPasskeys: () =>
    ofPerson(
      '/v1/users/me/passkeys',
      'passkey_id',
      ({ userId }) => api.deps.sql`
        INSERT INTO passkeys (passkey_id, user_id, credential_id, public_key, counter, transports, name, created_at_ms)
        VALUES (${newId('pkey')}, ${userId}, ${fresh('credential')}, '\\x00', 0, '{}', 'one', ${api.deps.clock.now()})`,
      (id) => api.deps.sql`DELETE FROM passkeys WHERE passkey_id = ${id}`,
    ),
  listSidecars: () =>
    ofAccount(
      '/sidecars',
      'sidecar_id',
      (_key, accountId) => api.deps.sql`
        INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms,
          acked_account_revision, acked_global_revision, clock_offset_ms)
        VALUES (${newId('side')}, ${accountId}, 'conn_1', 1, 1, 0, 0, 0)`,
      (id) => api.deps.sql`DELETE FROM sidecars WHERE sidecar_id = ${id}`,
    ),
  listAttestations: async () => {
    const make = async (key: string, accountId: string) => {
      const { gate_id: gateId } = await api.createGate({}, key);
      return append(api, [newRecord(api, { passport: null, gateId, gateOwner: liveOwner(accountId) })]);
    };
    return { ...(await ofAccount('/attestations', 'id', make)), items: 'attestations' };
  },
  listAuditEntries: async () => ({
    ...(await ofAccount('/audit', 'audit_id', (key) => api.createIssuer({}, key))),
    items: 'entries',
  }),
  listGatePolicies: async () => {
    const { key } = await account();
    const { gate_id } = await api.createGate({}, key);
    const make = () => {
      number += 1;
      const body = { constraints: { spend_limits: { daily_usd: number } } };
      return api.call({ method: 'PUT', url: `/v1/gates/${gate_id}`, key, body });
    };
    return { url: `/v1/gates/${gate_id}/policies`, key, id: 'policy_version', make, remove: null };
  },
  listHolds: () =>
    ofAccount(
      '/holds?status=open',
      'attestation_id',
      async (key) => {
        const { gate_id } = await api.createGate({}, key);
        const { jwt } = await api.issuePassport({}, key);
        const request = { permission_key: 'orders:create', amount: 1, hold: true };
        return posted(`/gates/${gate_id}/check`, key, { passport: jwt, request });
      },
      (id, key) => posted(`/attestations/${id}/outcome`, key, { outcome: 'failed' }),
    ),
  listOutcomes: () =>
    ofAccount(
      '/outcomes?status=waiting',
      'outcome_id',
      // As one that waits for a PERMIT that does not come.
      (_key, accountId) => api.deps.sql`
        INSERT INTO reported_outcomes (outcome_id, account_id, mode, sidecar_id, attestation_id, outcome,
          reported_at_ms, received_at_ms, due_at_ms)
        VALUES (${newId('out')}, ${accountId}, 'live', ${newId('side')}, ${newId('att')}, 'served', 1, 1, ${api.deps.clock.now()})`,
      (id) => api.deps.sql`DELETE FROM reported_outcomes WHERE outcome_id = ${id}`,
    ),
  discoverGates: async () => {
    const { key } = await account();
    const area = fresh('walk').replace('-', '');
    const catalog = { permissions: [{ key: `${area}:create` }] };
    return {
      ...{ url: `/v1/discover?capability=${area}`, key: null, id: 'gate_id', items: 'results' },
      make: () => api.createGate({ catalog }, key),
      remove: (id) => api.call({ method: 'DELETE', url: `/v1/gates/${id}`, key }),
    };
  },
};

const paged = (): readonly string[] =>
  operationsOf(document)
    .filter(({ operation }) =>
      (operation.parameters ?? []).some((each) => (each as { name?: string }).name === 'cursor'),
    )
    .map(({ operation }) => String(operation.operationId));

const withQuery = (url: string, query: string) => `${url}${url.includes('?') ? '&' : '?'}${query}`;

function read(listed: Listed, query: string): Promise<Reply> {
  const { url, key, headers = {} } = listed;
  return api.call({ url: withQuery(url, query), key, headers });
}

function itemsOf({ id, items = 'items' }: Listed, page: Reply['body']): string[] {
  return page[items].map((each: Record<string, string>) => String(each[id]));
}

it('are all walked below', () => {
  expect(paged().toSorted()).toEqual(Object.keys(lists).toSorted());
  // What answers a page has a cursor too, whatever it is called.
  for (const { operation, key } of operationsOf(document)) {
    const answer = JSON.stringify(operation.responses?.['200'] ?? {});
    const name = /"\$ref":"#\/components\/schemas\/(\w*Page)"/.exec(answer)?.[1];
    if (name === undefined) continue;
    expect(paged(), key).toContain(operation.operationId);
    expect(document.components.schemas[name]?.['properties'], key).toHaveProperty('next_cursor');
  }
});

describe.each(Object.keys(lists))('%s', (name) => {
  const made = 7;
  let listed: Listed;
  beforeAll(async () => {
    listed = await must(lists[name], name)();
    for (let i = 0; i < made; i++) await listed.make();
  });

  it('is walked while items come and go: none twice, none passed over', async () => {
    const whole = await read(listed, 'limit=200');
    expect(whole.status, JSON.stringify(whole.body)).toBe(200);
    const before = itemsOf(listed, whole.body);
    expect(before.length).toBeGreaterThanOrEqual(made);
    const gone = new Set<string>();
    const met: string[] = [];
    let pages = 0;
    for (let cursor: string | null = ''; cursor !== null; pages++) {
      const { status, body } = await read(listed, `limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`);
      expect(status, JSON.stringify(body)).toBe(200);
      met.push(...itemsOf(listed, body));
      cursor = body.next_cursor;
      if (listed.remove !== null) {
        // All of this page, as somebody does who cleans up; and one that is still ahead.
        const ahead = before.find((id) => !met.includes(id) && !gone.has(id));
        const wanted = [...met.slice(-2), ...(pages === 0 && ahead !== undefined ? [ahead] : [])];
        for (const id of wanted.filter((each) => !gone.has(each) && isRemovable(listed, each, before))) {
          gone.add(id);
          await listed.remove(id);
        }
      }
      await listed.make();
      expect(pages, 'the walk ends').toBeLessThan(400);
    }
    expect(pages).toBeGreaterThan(2);
    expect(new Set(met).size).toBe(met.length);
    const passedOver = before.filter((id) => !met.includes(id) && !gone.has(id));
    expect(passedOver).toEqual([]);
  });

  it('refuses a cursor of anything else, and one beside an offset', async () => {
    for (let i = 0; i < 3; i++) await listed.make();
    const { next_cursor: cursor } = (await read(listed, 'limit=1')).body;
    expect(cursor).toEqual(expect.any(String));
    for (const wrong of ['x', `${cursor}A`])
      expectError(await read(listed, `cursor=${wrong}`), 'invalid_request', 'cursor');
    const offers = paged().includes(name) && !['listAttestations', 'listAuditEntries'].includes(name);
    if (offers) expectError(await read(listed, `cursor=${cursor}&offset=1`), 'invalid_request', 'offset');
    expect((await read(listed, `cursor=${cursor}&limit=200`)).status, 'another limit is the same walk').toBe(
      200,
    );
    // The same list of somebody else, and another list of the same one.
    if (name !== 'discoverGates' && name !== 'listAccounts') {
      const other = await must(lists[name], name)();
      expectError(await read(other, `cursor=${cursor}`), 'invalid_request', 'cursor');
    }
    const another = await must(lists[name === 'listGates' ? 'listIssuers' : 'listGates'], name)();
    const asOwner = { ...another, key: listed.key ?? another.key };
    expectError(await read(asOwner, `cursor=${cursor}`), 'invalid_request', 'cursor');
  });
});

/** The own session and the own key stay: the walk goes on with them. */
const isRemovable = ({ id }: Listed, each: string, before: readonly string[]): boolean =>
  !['session_id', 'key_id'].includes(id) || each !== before.at(-1);

describe('a cursor', () => {
  it.each([
    ['passports', 'status=active', 'status=revoked'],
    ['passports', 'status=active', ''],
    ['passports', 'trust_tier=L1', 'trust_tier=L2'],
    ['approvals', 'status=pending', 'status=denied'],
    ['gates', 'name=Orders', 'name=other'],
  ])('of /%s?%s is refused for ?%s', async (path, given, other) => {
    const { key } = await account();
    for (let i = 0; i < 3; i++) {
      if (path === 'passports') await api.issuePassport({}, key);
      else if (path === 'gates') await api.createGate({}, key);
      else await openAnApproval(api, { key });
    }
    const { body } = await api.call({ url: `/v1/${path}?${given}&limit=1`, key });
    const reply = await api.call({ url: `/v1/${path}?${other}&cursor=${body.next_cursor}`, key });
    expectError(reply, 'invalid_request', 'cursor');
  });

  /** With a check of its own. */
  const cursorOf = (accountId: string, place: string): string => {
    const query = JSON.stringify(['issuers', accountId, 'live']);
    const checked = JSON.stringify([place, 1, query]);
    const check = sha256Hex(`agent-trust.list-cursor.v1:${checked}`).slice(0, 16);
    return encodeBase64url(Buffer.from(JSON.stringify([place, 1, check])));
  };

  it.each(['', 'x', 'no place', Buffer.from('["a",1,"b"]').toString('base64url')])(
    'that is %j is refused',
    async (cursor) =>
      expectError(await api.call({ url: `/v1/issuers?cursor=${cursor}` }), 'invalid_request', 'cursor'),
  );

  it.each(['\0', '\ud800', 'Ä', ' ', 'a'.repeat(65)])(
    'with a check of its own that names %j is refused, and reaches no database',
    async (behind) => {
      const { accountId, key } = await account();
      const url = `/v1/issuers?cursor=${cursorOf(accountId, behind)}`;
      expectError(await api.call({ url, key }), 'invalid_request', 'cursor');
    },
  );

  it('with a check of its own is a place like any other', async () => {
    const { accountId, key } = await account();
    const url = `/v1/issuers?cursor=${cursorOf(accountId, 'zzz')}`;
    expect((await api.call({ url, key })).status).toBe(200);
  });

  it('goes on from a page that was asked for by offset, and carries the total of its first page', async () => {
    const { key } = await account();
    for (let i = 0; i < 5; i++) await api.createIssuer({}, key);
    const all = (await api.call({ url: '/v1/issuers', key })).body;
    const first = (await api.call({ url: '/v1/issuers?limit=2&offset=1', key })).body;
    await api.createIssuer({}, key);
    const next = (await api.call({ url: `/v1/issuers?limit=2&cursor=${first.next_cursor}`, key })).body;
    expect(next.items).toEqual(all.items.slice(3, 5));
    expect(next).toMatchObject({ total: all.total, limit: 2, offset: 0 });
    expect((await api.call({ url: '/v1/issuers?limit=200', key })).body.next_cursor).toBeNull();
  });
});
