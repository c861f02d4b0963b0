import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Document } from '../../control-plane/openapi/document.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import { type Api, documentOf, type LoggedIn, type Reply, startApi } from '../support/api.ts';
import { openAnApproval } from '../support/approvals.ts';
import { operationsOf } from '../support/document.ts';
import { expectError } from '../support/expect-error.ts';
import { append, liveOwner, newRecord } from '../support/exports.ts';
import { logInAgain } from '../support/good-calls.ts';
import { askingRules, standingBody } from '../support/standing-approvals.ts';
import { makeWallet } from '../support/wallets.ts';

/**
 * Every list of the document, walked page by page while items come and go: what is there from begin to end is
 * met once, and nothing twice.
 */
let api: Api;
let document: Document;
beforeAll(async () => {
  api = await startApi();
  document = documentOf(api.app);
});
afterAll(() => api.close());

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
  api.call({ method: 'POST', url, key, ...(body === undefined ? {} : { body }) });
const deleted = (path: string, key: string) => (id: string) =>
  api.call({ method: 'DELETE', url: `/v1/${path}/${id}`, key });
const asPerson = ({ headers }: Pick<LoggedIn, 'headers'>, method: string, url: string) =>
  api.call({ method, url, key: null, headers });
const newId = (prefix: Parameters<Api['deps']['random']['newId']>[0]) =>
  api.deps.random.newId(prefix, api.deps.clock.now());

let number = 0;
const fresh = (what: string) => {
  number += 1;
  return `${what} ${number}`;
};

const lists: Readonly<Record<string, () => Promise<Listed>>> = {
  listPassports: async () => {
    const { key } = await account();
    return {
      url: '/v1/passports?status=active',
      key,
      id: 'passport_id',
      make: () => api.issuePassport({}, key),
      remove: (id) => posted(`/v1/passports/${id}/revoke`, key),
    };
  },
  listGates: async () => {
    const { key } = await account();
    return {
      url: '/v1/gates',
      key,
      id: 'gate_id',
      make: () => api.createGate({}, key),
      remove: deleted('gates', key),
    };
  },
  listIssuers: async () => {
    const { key } = await account();
    return { url: '/v1/issuers', key, id: 'issuer_id', make: () => api.createIssuer({}, key), remove: null };
  },
  listTemplates: async () => {
    const { key } = await account();
    const make = () => posted('/v1/templates', key, { name: fresh('template') });
    return { url: '/v1/templates', key, id: 'template_id', make, remove: null };
  },
  listApiKeys: async () => {
    const { key } = await account();
    return {
      url: '/v1/api-keys',
      key,
      id: 'key_id',
      make: () => api.createKey({ scopes: ['gates:read'] }, key),
      remove: deleted('api-keys', key),
    };
  },
  listAccounts: async () => ({
    url: '/v1/accounts',
    key: api.adminKey,
    id: 'account_id',
    make: () => api.createAccount(),
    remove: null,
  }),
  listMcpPins: async () => {
    const { key } = await account();
    const { gate_id } = await api.createGate({}, key);
    return {
      url: '/v1/mcp-pins',
      key,
      id: 'pin_id',
      make: async () => {
        const tools = [{ definition: JSON.stringify({ name: fresh('tool').replaceAll(' ', '-') }) }];
        const report = { gate_id, upstream: 'http://127.0.0.1:3000/mcp', tools };
        const { body } = await api.call({ url: '/v1/mcp-pins', key, body: report });
        return body.pins.at(-1);
      },
      remove: null,
    };
  },
  listWallets: async () => {
    const { key } = await account();
    return {
      url: '/v1/wallets',
      key,
      id: 'wallet_id',
      make: () => makeWallet(api, {}, key),
      remove: deleted('wallets', key),
    };
  },
  listStandingApprovals: async () => {
    const { key } = await account();
    const { passport_id } = await api.issuePassport({}, key);
    return {
      url: '/v1/approvals/standing',
      key,
      id: 'standing_approval_id',
      make: async () => {
        const { gate_id } = await api.createGate({ constraints: askingRules }, key);
        return posted('/v1/approvals/standing', key, standingBody(api, { gate_id, passport_id }));
      },
      remove: null,
    };
  },
  listChannels: async () => {
    const { key } = await account();
    return {
      url: '/v1/channels',
      key,
      id: 'channel_id',
      make: async () => {
        // An account has eight channels of its own, and each of its gates as many.
        const { gate_id } = await api.createGate({}, key);
        const body = { name: 'pager', kind: 'webhook', target: 'https://hooks.example.com/', gate_id };
        return posted('/v1/channels', key, body);
      },
      remove: deleted('channels', key),
    };
  },
  listWebhooks: async () => {
    const { key } = await account();
    return {
      url: '/v1/webhooks',
      key,
      id: 'webhook_id',
      make: () =>
        posted('/v1/webhooks', key, { url: 'https://hooks.example.com/', events: ['gate.created'] }),
      remove: deleted('webhooks', key),
    };
  },
  listDeliveries: async () => {
    const { key } = await account();
    const body = { url: 'https://hooks.example.com/', events: ['gate.created'] };
    const { webhook_id } = (await posted('/v1/webhooks', key, body)).body;
    return {
      url: `/v1/webhooks/${webhook_id}/deliveries`,
      key,
      id: 'delivery_id',
      make: () => posted(`/v1/webhooks/${webhook_id}/test`, key, {}),
      // As trimming does.
      remove: (id) => api.deps.sql`DELETE FROM webhook_deliveries WHERE delivery_id = ${id}`,
    };
  },
  listApprovals: async () => {
    const { key } = await account();
    return {
      url: '/v1/approvals?status=pending',
      key,
      id: 'approval_id',
      make: () => openAnApproval(api, { key }),
      remove: (id) => posted(`/v1/approvals/${id}/deny`, key),
    };
  },
  listUsers: async () => {
    const { key } = await account();
    return {
      url: '/v1/users',
      key,
      id: 'user_id',
      make: () =>
        posted('/v1/users', key, { email: `${fresh('u').replace(' ', '-')}@example.com`, role: 'auditor' }),
      remove: deleted('users', key),
    };
  },
  listSessions: async () => {
    const person = await api.createUser();
    return {
      url: '/v1/sessions',
      key: null,
      headers: person.headers,
      id: 'session_id',
      make: () => logInAgain(api, person),
      remove: (id) => asPerson(person, 'DELETE', `/v1/sessions/${id}`),
    };
  },
  listPasskeys: async () => {
    const person = await api.createUser();
    const make = () => api.deps.sql`
      INSERT INTO passkeys (passkey_id, user_id, credential_id, public_key, counter, transports, name, created_at_ms)
      VALUES (${newId('pkey')}, ${person.userId}, ${fresh('credential')}, '\\x00', 0, '{}', 'one', ${api.deps.clock.now()})`;
    return {
      url: '/v1/users/me/passkeys',
      key: null,
      headers: person.headers,
      id: 'passkey_id',
      make,
      remove: (id) => api.deps.sql`DELETE FROM passkeys WHERE passkey_id = ${id}`,
    };
  },
  listSidecars: async () => {
    const { accountId, key } = await account();
    const make = () => api.deps.sql`
      INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms, acked_account_revision,
        acked_global_revision, clock_offset_ms)
      VALUES (${newId('side')}, ${accountId}, 'conn_1', 1, 1, 0, 0, 0)`;
    return {
      url: '/v1/sidecars',
      key,
      id: 'sidecar_id',
      make,
      remove: (id) => api.deps.sql`DELETE FROM sidecars WHERE sidecar_id = ${id}`,
    };
  },
  listAttestations: async () => {
    const { accountId, key } = await account();
    const gateId = (await api.createGate({}, key)).gate_id;
    const about = { passport: null, gateId, gateOwner: liveOwner(accountId) };
    return {
      url: '/v1/attestations',
      key,
      id: 'id',
      items: 'attestations',
      make: () => append(api, [newRecord(api, about)]),
      remove: null,
    };
  },
  listAuditEntries: async () => {
    const { key } = await account();
    return {
      url: '/v1/audit',
      key,
      id: 'audit_id',
      items: 'entries',
      make: () => api.createIssuer({}, key),
      remove: null,
    };
  },
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
  listHolds: async () => {
    const { key } = await account();
    const { gate_id } = await api.createGate({}, key);
    const { jwt } = await api.issuePassport({ permissions: ['orders:create'] }, key);
    const request = { permission_key: 'orders:create', amount: 1, hold: true };
    return {
      url: '/v1/holds?status=open',
      key,
      id: 'attestation_id',
      make: () => posted(`/v1/gates/${gate_id}/check`, key, { passport: jwt, request }),
      remove: (id) => posted(`/v1/attestations/${id}/outcome`, key, { outcome: 'failed' }),
    };
  },
  listOutcomes: async () => {
    const { accountId, key } = await account();
    // As one that waits for a PERMIT that does not come.
    const make = () => api.deps.sql`
      INSERT INTO reported_outcomes (outcome_id, account_id, mode, sidecar_id, attestation_id, outcome,
        reported_at_ms, received_at_ms, due_at_ms)
      VALUES (${newId('out')}, ${accountId}, 'live', ${newId('side')}, ${newId('att')}, 'served', 1, 1, ${api.deps.clock.now()})`;
    return {
      url: '/v1/outcomes?status=waiting',
      key,
      id: 'outcome_id',
      make,
      remove: (id) => api.deps.sql`DELETE FROM reported_outcomes WHERE outcome_id = ${id}`,
    };
  },
  discoverGates: async () => {
    const { key } = await account();
    const area = `walk${number}`;
    const catalog = { permissions: [{ key: `${area}:create` }] };
    return {
      url: `/v1/discover?capability=${area}`,
      key: null,
      id: 'gate_id',
      items: 'results',
      make: () => api.createGate({ catalog }, key),
      remove: deleted('gates', key),
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
    for (const wrong of [
      '',
      'x',
      `${cursor}A`,
      cursor.slice(1),
      Buffer.from('["a",1,"b"]').toString('base64url'),
    ])
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
  ])('of /%s?%s is refused for ?%s', async (path, given, other) => {
    const { key } = await account();
    for (let i = 0; i < 3; i++) {
      if (path === 'passports') await api.issuePassport({}, key);
      else await openAnApproval(api, { key });
    }
    const { body } = await api.call({ url: `/v1/${path}?${given}&limit=1`, key });
    const reply = await api.call({ url: `/v1/${path}?${other}&cursor=${body.next_cursor}`, key });
    expectError(reply, 'invalid_request', 'cursor');
  });

  it.each(['\0', '\ud800', 'Ä', ' ', 'a'.repeat(65)])(
    'with a check of its own that names %j is refused, and reaches no database',
    async (behind) => {
      const { accountId, key } = await account();
      const query = JSON.stringify(['issuers', accountId, 'live']);
      const check = sha256Hex(`agent-trust.list-cursor.v1:${JSON.stringify([behind, 1, query])}`).slice(
        0,
        16,
      );
      const cursor = encodeBase64url(Buffer.from(JSON.stringify([behind, 1, check])));
      expectError(await api.call({ url: `/v1/issuers?cursor=${cursor}`, key }), 'invalid_request', 'cursor');
    },
  );

  it('with a check of its own is a place like any other', async () => {
    const { accountId, key } = await account();
    const query = JSON.stringify(['issuers', accountId, 'live']);
    const check = sha256Hex(`agent-trust.list-cursor.v1:${JSON.stringify(['zzz', 1, query])}`).slice(0, 16);
    const cursor = encodeBase64url(Buffer.from(JSON.stringify(['zzz', 1, check])));
    expect((await api.call({ url: `/v1/issuers?cursor=${cursor}`, key })).status).toBe(200);
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
