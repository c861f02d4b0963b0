import { describe, expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

interface Listed {
  readonly total: number;
  readonly next_cursor: string | null;
  readonly items: readonly {
    readonly name?: string;
    readonly agent_id?: string;
    readonly description?: string;
  }[];
}
const list = async (path: string, query: Readonly<Record<string, string>>, key?: string): Promise<Listed> => {
  const url = `/v1${path}?${new URLSearchParams(query)}`;
  const reply = await api.call({ url, ...(key === undefined ? {} : { key }) });
  expect(reply.status, url).toBe(200);
  return reply.body;
};
const namesOf = ({ items }: Listed) =>
  items.map(({ name, agent_id, description }) => name ?? agent_id ?? description).toSorted();
const made = async (url: string, body: object) =>
  expect((await api.call({ url, body })).status, JSON.stringify(body)).toBe(201);
let count = 0;
const fresh = (end: string, begin = '') => `${begin}of-a-test-${count++}${end}`;

describe('a part of the name', () => {
  it.each([
    ['/gates', (name: string) => api.createGate({ name })],
    ['/issuers', (name: string) => api.createIssuer({ name })],
    ['/api-keys', (name: string) => api.createKey({ name, scopes: ['gates:read'] })],
    ['/templates', (name: string) => made('/v1/templates', { name, trust_level: 'L1', constraints: {} })],
    [
      '/channels',
      (name: string) => made('/v1/channels', { name, kind: 'webhook', target: 'https://example.com/hook' }),
    ],
    ['/users', (name: string) => made('/v1/users', { name, email: fresh('@example.com'), role: 'auditor' })],
    [
      '/webhooks',
      (description: string) =>
        made('/v1/webhooks', {
          description,
          url: fresh('.example.com', 'https://'),
          events: ['approval.requested'],
        }),
    ],
  ] as const)('leaves the others out of %s, whatever the case of its letters', async (path, create) => {
    const names = ['Orders of the shop', 'orders (test)', 'Search', '100% of_all'];
    for (const name of names) await create(name);
    expect(namesOf(await list(path, { name: 'ORDERS' }))).toEqual(['Orders of the shop', 'orders (test)']);
    expect((await list(path, { name: 'orders', limit: '1' })).total).toBe(2);
    // Nothing in it is a pattern.
    expect(namesOf(await list(path, { name: '% of_a' }))).toEqual(['100% of_all']);
    for (const name of ['%', '_']) expect(namesOf(await list(path, { name }))).toEqual(['100% of_all']);
    expect((await list(path, { name: 'nowhere' })).items).toEqual([]);
    const other = await api.createAccount();
    expect((await list(path, { name: 'orders' }, other.key)).items).toEqual([]);
  });

  it('finds people by their address, and webhooks by theirs', async () => {
    await made('/v1/users', { name: 'Jane', email: 'jane@part.example', role: 'auditor' });
    await made('/v1/webhooks', { url: 'https://hooks.part.example/a', events: ['approval.requested'] });
    expect(namesOf(await list('/users', { name: 'PART.example' }))).toEqual(['Jane']);
    expect((await list('/webhooks', { name: 'hooks.part' })).items).toHaveLength(1);
  });

  it('finds built-in templates', async () => {
    const [first] = (await list('/templates', {})).items;
    const part = String(first?.name).slice(1, 6).toUpperCase();
    expect((await list('/templates', { name: part })).items[0]).toEqual(first);
  });

  it('finds passports by their agent, with the other filters', async () => {
    for (const [agent_id, agent_name] of [
      ['buyer-1', 'Purchasing'],
      ['buyer-2', 'Other'],
      ['seller-1', 'purchasing too'],
    ])
      await api.issuePassport({ agent_id, agent_name, permissions: ['orders:create'] });
    expect(namesOf(await list('/passports', { agent_id: 'BUYER' }))).toEqual(['buyer-1', 'buyer-2']);
    expect(namesOf(await list('/passports', { agent_name: 'purchas' }))).toEqual(['buyer-1', 'seller-1']);
    const both = { agent_id: 'buyer', agent_name: 'purchas', status: 'active', trust_tier: 'L1' };
    expect(namesOf(await list('/passports', both))).toEqual(['buyer-1']);
    expect(namesOf(await list('/passports', { agent_id: 'buyer', status: 'revoked' }))).toEqual([]);
  });

  it.each(['', 'x'.repeat(201), '\u0000', 'a\u202eb'])('is text of 1 to 200 characters: %j', async (name) => {
    const reply = await api.call({ url: `/v1/gates?${new URLSearchParams({ name })}` });
    expectError(reply, 'invalid_request', 'name');
  });
});
