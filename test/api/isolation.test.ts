import { beforeAll, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

interface Room {
  readonly room: string;
  readonly notFound: ErrorCode;
  readonly idField: string;
  /** Makes one of it with that key; the id. */
  readonly make: (key: string) => Promise<string>;
  /** Everything that names it. `{}` stands for a body without fields. */
  readonly calls: readonly (readonly [method: string, suffix: string, body?: object])[];
}

const api = useApi();

const rooms: readonly Room[] = [
  {
    room: 'passports',
    notFound: 'passport_not_found',
    idField: 'passport_id',
    make: async (key) => (await api.issuePassport({}, key)).passport_id,
    calls: [
      ['GET', ''],
      ['GET', '/verify'],
      ['POST', '/suspend', {}],
      ['POST', '/reactivate', {}],
      ['POST', '/revoke', {}],
    ],
  },
  {
    room: 'gates',
    notFound: 'gate_not_found',
    idField: 'gate_id',
    make: async (key) => (await api.createGate({}, key)).gate_id,
    calls: [
      ['GET', ''],
      ['PUT', '', { name: 'taken over' }],
      ['POST', '/backtest', {}],
      ['PUT', '/shadow', { trust_level: 'L2' }],
      ['GET', '/shadow'],
      ['DELETE', '/shadow'],
      ['GET', '/shadow/report'],
      ['POST', '/shadow/promote', {}],
      ['DELETE', ''],
    ],
  },
  {
    room: 'issuers',
    notFound: 'issuer_not_found',
    idField: 'issuer_id',
    make: async (key) => (await api.createIssuer({}, key)).issuer_id,
    calls: [
      ['GET', ''],
      ['PUT', '', { status: 'suspended' }],
    ],
  },
  {
    room: 'api-keys',
    notFound: 'api_key_not_found',
    idField: 'key_id',
    make: async (key) => (await api.createKey({ scopes: ['gates:read'] }, key)).keyId,
    calls: [
      ['GET', ''],
      ['POST', '/roll', {}],
      ['DELETE', ''],
    ],
  },
];

/** Keys of which none may see what another's made: two accounts, and the two modes of one. */
const owners = new Map<string, string>();
beforeAll(async () => {
  owners.set('an account, live', api.adminKey);
  owners.set('an account, test', (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key);
  owners.set('another account, live', (await api.createAccount()).key);
});

describe.each(rooms)('$room', ({ room, notFound, idField, make, calls }) => {
  it('are seen and changed by their owner only, and are 404 for others', async () => {
    for (const [owner, ownKey] of owners) {
      const id = await make(ownKey);
      const before = await api.call({ url: `/v1/${room}/${id}`, key: ownKey });
      expect(before.status).toBe(200);
      for (const [stranger, key] of owners) {
        if (stranger === owner) continue;
        for (const [method, suffix, body] of calls) {
          const reply = await api.call({ method, url: `/v1/${room}/${id}${suffix}`, key, body });
          expectError(reply, notFound);
        }
        const list = await api.call({ url: `/v1/${room}?limit=200`, key });
        expect(list.body.items.map((item: Record<string, string>) => item[idField])).not.toContain(id);
      }
      expect((await api.call({ url: `/v1/${room}/${id}`, key: ownKey })).body).toEqual(before.body);
      const own = await api.call({ url: `/v1/${room}?limit=200`, key: ownKey });
      expect(own.body.items.map((item: Record<string, string>) => item[idField])).toContain(id);
    }
  });
});

it("issues no passport in the name of another owner's issuer", async () => {
  for (const [owner, ownKey] of owners) {
    const { issuer_id } = await api.createIssuer({}, ownKey);
    for (const [stranger, key] of owners) {
      if (stranger === owner) continue;
      const body = { agent_id: 'a', permissions: [], issuer_id };
      expectError(await api.call({ url: '/v1/passports', key, body }), 'issuer_not_found', 'issuer_id');
    }
  }
});

it('lets the same agent_id live once in each account and mode', async () => {
  for (const key of owners.values()) await api.issuePassport({ agent_id: 'everywhere' }, key);
});

it('gives each account and mode a default issuer of its own', async () => {
  const issuers = new Set<string>();
  for (const key of owners.values()) issuers.add((await api.issuePassport({}, key)).issuer_id);
  expect(issuers.size).toBe(owners.size);
});
