import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { syncLimits } from '../../control-plane/sync/limits.ts';
import { takeSnapshot } from '../../control-plane/sync/take-snapshot.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const second = useStarted(() => secondControlPlane(api));

type Account = Awaited<ReturnType<Api['createAccount']>>;

const summed = async (accountId: string): Promise<number> => {
  const [feed] = await api.deps.sql<{ bytes: number }[]>`
    SELECT items_bytes AS bytes FROM feeds WHERE feed_id = ${accountId}`;
  return must(feed, 'an account has a feed').bytes;
};
const bytesOf = async (itemId: string): Promise<number> => {
  const [item] = await api.deps.sql<{ bytes: number }[]>`
    SELECT bytes FROM feed_items WHERE item_id = ${itemId}`;
  return must(item, 'it is counted').bytes;
};
const setSum = (accountId: string, bytes: number) => api.deps.sql`
  UPDATE feeds SET items_bytes = ${bytes} WHERE feed_id = ${accountId}`;

/** What gates and keys take of the snapshot as it travels, each with a comma. */
async function recounted(accountId: string): Promise<number> {
  const pieces = await takeSnapshot(api.deps, accountId as AccountId);
  const body = Buffer.concat([...pieces]).toString();
  const snapshot = JSON.parse(JSON.parse(body).snapshot);
  const bytes = (value: unknown) => Buffer.byteLength(JSON.stringify(JSON.stringify(value)));
  expect(body).toContain(JSON.stringify(JSON.stringify(snapshot)).slice(1, -1));
  const lists = [snapshot.gates, snapshot.api_keys].filter((list) => list.length > 0);
  return bytes(snapshot) - bytes({ ...snapshot, gates: [], api_keys: [] }) + lists.length;
}

const domains = (count: number) => Array.from({ length: count }, (_, place) => `host-${place}.example.com`);
const permissions = (count: number) =>
  Array.from({ length: count }, (_, place) => ({
    key: `orders:number-${place}`,
    pricing: place % 2 === 0 ? null : { model: 'per_call', price_cents: place, currency: 'USD' },
    ...(place % 3 === 0 ? { requires_approval: true } : {}),
  }));
const routes = (count: number) =>
  Array.from({ length: count }, (_, place) => ({
    ...(place % 2 === 0 ? {} : { methods: ['GET', 'POST'], amount_usd: 0.25 }),
    path: `/größe/"${place}"/:id`,
    permission_key: `orders:number-${place}`,
  }));

type Operation = readonly [kind: (typeof kinds)[number], place: number, size: number];
const kinds = ['create', 'constrain', 'route', 'publish', 'delete', 'key', 'roll', 'revoke'] as const;

/** Does it to one of the gates or keys that the account has; what it does not have is refused. */
async function operate({ key }: Account, [kind, place, size]: Operation): Promise<Reply> {
  const pick = async (url: string, id: string): Promise<string> => {
    const { body } = await api.call({ url, key });
    return body.items[place % body.items.length]?.[id] ?? 'none';
  };
  const gate = () => pick('/v1/gates', 'gate_id');
  const apiKey = () => pick('/v1/api-keys?limit=200', 'key_id');
  const constraints = { allowed_domains: domains(size), spend_limits: { daily_usd: size / 8 } };
  switch (kind) {
    case 'create': {
      const catalog = size % 2 === 0 ? {} : { catalog: { permissions: permissions(size) } };
      return api.call({
        url: '/v1/gates',
        key,
        body: { name: 'A', trust_level: 'L1', constraints, ...catalog },
      });
    }
    case 'constrain':
      return api.call({ method: 'PUT', url: `/v1/gates/${await gate()}`, key, body: { constraints } });
    case 'route':
      return api.call({
        method: 'PUT',
        url: `/v1/gates/${await gate()}`,
        key,
        body: { routes: routes(size) },
      });
    case 'publish':
      return api.call({
        url: `/v1/gates/${await gate()}/catalog`,
        key,
        body: { permissions: permissions(size) },
      });
    case 'delete':
      return api.call({ method: 'DELETE', url: `/v1/gates/${await gate()}`, key });
    case 'key':
      return api.call({
        url: '/v1/api-keys',
        key,
        body: { name: 'A', scopes: ['gates:read', 'keys:manage'].slice(size % 2) },
      });
    case 'roll':
      return api.call({ url: `/v1/api-keys/${await apiKey()}/roll`, key, body: { overlap_s: 60 } });
    case 'revoke': {
      // Never the key that all of this is done with.
      const { body } = await api.call({ url: '/v1/api-keys?limit=200', key });
      const others = body.items.filter((each: { scopes: string[] }) => !each.scopes.includes('admin:*'));
      return api.call({
        method: 'DELETE',
        url: `/v1/api-keys/${others[place % others.length]?.key_id}`,
        key,
      });
    }
  }
}

const operation = fc.tuple(fc.constantFrom(...kinds), fc.nat(20), fc.integer({ min: 1, max: 40 }));

describe('the bytes of gates and keys in the snapshot of an account', () => {
  it('are the sum that is kept, whatever was created, changed and deleted, refused or not', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 4, maxLength: 14 }), async (operations) => {
        const account = await api.createAccount();
        for (const each of operations) await operate(account, each);
        expect(await summed(account.accountId)).toBe(await recounted(account.accountId));
      }),
      { numRuns: 8 },
    );
  });
});

describe('the limit of a snapshot', () => {
  const max = syncLimits.gatesBytesMax;
  const gate = { name: 'Orders', trust_level: 'L1', constraints: { allowed_domains: domains(50) } };
  const create = (key: string) => api.call({ url: '/v1/gates', key, body: gate });

  it('takes the gate that reaches it, and refuses a byte more with the sum and what to do', async () => {
    const { accountId, key } = await api.createAccount();
    const bytes = await bytesOf((await create(key)).body.gate_id);
    await setSum(accountId, max - bytes + 1);
    const refused = await create(key);
    expectError(refused, 'invalid_request');
    expect(refused.body.error.message).toContain(`${max + 1} bytes`);
    expect(refused.body.error.message).toContain(`at most ${max} are allowed. Delete gates`);
    expect(await summed(accountId)).toBe(max - bytes + 1);
    await setSum(accountId, max - bytes);
    expect((await create(key)).status).toBe(201);
    expect(await summed(accountId)).toBe(max);
    expect((await api.call({ url: '/v1/gates', key })).body.total).toBe(2);
  });

  it('refuses what grows, by a patch or a catalog, and takes what shrinks or ends, far above it too', async () => {
    const { accountId, key } = await api.createAccount();
    const { gate_id: gateId } = (await create(key)).body;
    const patch = (count: number) =>
      api.call({
        method: 'PUT',
        url: `/v1/gates/${gateId}`,
        key,
        body: { constraints: { allowed_domains: domains(count) } },
      });
    const publish = (count: number) =>
      api.call({ url: `/v1/gates/${gateId}/catalog`, key, body: { permissions: permissions(count) } });
    await publish(20);
    await setSum(accountId, max * 2);
    expectError(await patch(51), 'invalid_request');
    expectError(await publish(21), 'invalid_request');
    expect((await patch(49)).status).toBe(200);
    expect((await publish(19)).status).toBe(201);
    expect((await api.call({ method: 'DELETE', url: `/v1/gates/${gateId}`, key })).status).toBe(200);
    expectError(await create(key), 'invalid_request');
  });

  it('leaves room for keys where gates have reached theirs, and bounds keys as well', async () => {
    const { accountId, key } = await api.createAccount();
    const createKey = () =>
      api.call({ url: '/v1/api-keys', key, body: { name: 'A', scopes: ['gates:read'] } });
    await setSum(accountId, max);
    const { key_id: keyId } = (await createKey()).body;
    expectError(await create(key), 'invalid_request');
    const roll = () => api.call({ url: `/v1/api-keys/${keyId}/roll`, key, body: {} });
    await setSum(accountId, limits.feedItemsBytesMax);
    expectError(await createKey(), 'invalid_request');
    expectError(await roll(), 'invalid_request');
    expect((await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}`, key })).status).toBe(200);
    expect((await createKey()).status).toBe(201);
  });

  it('is not passed by writers at two control planes', async () => {
    const operator = (await api.call({ url: '/v1/accounts' })).body.items.at(-1);
    const bytes = await bytesOf((await create(api.adminKey)).body.gate_id);
    for (let round = 0; round < 10; round++) {
      await setSum(operator.account_id, max - 3 * bytes);
      const replies = await Promise.all(
        Array.from({ length: 8 }, (_, place) =>
          place % 2 === 0 ? create(api.adminKey) : second.call('/v1/gates', gate),
        ),
      );
      expect(replies.map(({ status }) => status).sort()).toEqual([201, 201, 201, 400, 400, 400, 400, 400]);
      expect(await summed(operator.account_id)).toBe(max);
    }
  });
});

describe('one answer to a pull', () => {
  /** As many characters, with a number in them. */
  const padded = (place: number, chars: number) => String(place).padStart(chars, 'a');
  const each = <T>(count: number, make: (place: number) => T) =>
    Array.from({ length: count }, (_, i) => make(i));

  it('stays below what a sidecar reads, also where all of it is changes of the largest gates', async () => {
    const { accountId, key } = await api.createAccount();
    const host = (place: number) => each(4, () => padded(place, 58)).join('.');
    const allowed = { allowed_domains: each(256, (place) => `${host(place)}.example.com`) };
    const made = await api.createGate({ constraints: allowed }, key);
    const put = (body: object) => api.call({ method: 'PUT', url: `/v1/gates/${made.gate_id}`, key, body });
    const replies = [
      await put({
        constraints: {
          approvals: { permissions: each(64, (place) => `a:${padded(place, 126)}`) },
          trusted_issuers: each(256, () => api.deps.random.newId('iss', api.deps.clock.now())),
        },
      }),
      await put({
        routes: each(256, (place) => ({
          path: `/${padded(place, 70)}`,
          permission_key: `a:${padded(place, 126)}`,
        })),
      }),
      await api.call({
        url: `/v1/gates/${made.gate_id}/catalog`,
        key,
        body: {
          permissions: each(256, (place) => ({
            key: `a:${padded(place, 126)}`,
            requires_approval: true,
            pricing: { model: 'per_call', price_cents: 99_999_999_999, currency: 'USD' },
          })),
        },
      }),
    ];
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 201]);
    const largest = must((await api.changes(accountId)).at(-1), 'there is a change');
    const bytes = Buffer.byteLength(JSON.stringify(largest));
    expect(bytes).toBeGreaterThan(200_000);
    expect(bytes * syncLimits.changesPerAnswerMax).toBeLessThan(limits.changesBytesMax);
  });
});

it('shows a gate with a rule for answers as its changes do: what 0.2.0 does not know stays behind', async () => {
  const { accountId, key } = await api.createAccount();
  const approvals = { above_usd: 1, approvers: {} };
  await api.createUser({}, key);
  const gate = await api.createGate({ constraints: { approvals } }, key);
  const [change] = await api.deps.sql<{ body: object }[]>`
    SELECT body FROM changes WHERE kind = 'gate.put' AND body->>'gate_id' = ${gate.gate_id}`;
  const pieces = await takeSnapshot(api.deps, accountId as AccountId);
  const snapshot = JSON.parse(JSON.parse(Buffer.concat([...pieces]).toString()).snapshot);
  expect(snapshot.gates).toMatchObject([change?.body]);
  expect(snapshot.gates).toMatchObject([{ constraints: { approvals: { above_usd: 1 } }, names_asker: true }]);
  expect(JSON.stringify(snapshot.gates)).not.toMatch(/approvers|passkey/);
});
