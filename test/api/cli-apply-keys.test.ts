import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runs } from '../support/base/runs.ts';
import { type CliAccount, useCliAccounts } from '../support/programs/cli-accounts.ts';
import { expectRefused, sure } from '../support/programs/command.ts';

/** Names that several share: the `key` of an entry of `agent-trust apply` and `agent-trust export`. */
const { newFile, envOf, newAccount } = useCliAccounts();
const secrets = () => `--yes --secrets-file ${newFile('jsonl')}`;
const target = 'https://hooks.slack.com/services/T0/B0/the-secret-of-the-slack-webhook';

/** The account, as a file, in an empty account and in itself: what each of the two exports then. */
async function thereAndBack(one: CliAccount): Promise<string> {
  const other = await newAccount();
  const { stdout: file } = sure(await one.run('export'));
  const variables = [...file.matchAll(/target_env: (\S+)/g)].map(([, name = '']) => [name, target]);
  const env = (key: string) => ({ env: { ...envOf(key), ...Object.fromEntries(variables) } });
  sure(await other.apply(file, secrets(), env(other.key)));
  expect(sure(await other.run('export')).stdout).toBe(file);
  expect((await other.apply(file, '--plan', env(other.key))).stdout).toMatch(/^No changes/);
  sure(await one.apply(file, secrets()));
  expect(sure(await one.run('export')).stdout).toBe(file);
  expect((await one.apply(file, '--plan')).stdout).toMatch(/^No changes/);
  return file;
}

describe('things of one name', () => {
  it('have a key each in an export, by which apply finds them again', async () => {
    const account = await newAccount();
    const make = async (path: string, body: object) => (await account.call('POST', path, body)).body;
    for (const limit of [1, 2]) {
      await make('/gates', { name: 'Orders', description: `${limit}`, trust_level: 'L1' });
      await make('/issuers', { name: 'Acme', domain: `${limit}.example` });
      await make('/templates', { name: 'Base', constraints: { spend_limits: { daily_usd: limit } } });
      await make('/webhooks', {
        url: 'https://a.example/',
        events: ['gate.created'],
        description: `${limit}`,
      });
      const { wallet_id } = await make('/wallets', { name: `Team ${limit}` });
      await make('/wallets', { name: 'Night', parent_wallet_id: wallet_id, limits: { daily_usd: limit } });
    }
    const file = await thereAndBack(account);
    expect(file.match(/key: (.+)/g)).toEqual(
      ['Acme', 'Base', 'Orders', '"?https://a.example/'].flatMap((name) =>
        [1, 2].map((number) => expect.stringMatching(new RegExp(`^key: ${name}-${number}"?$`))),
      ),
    );
    // Another order, another name, and one more: nothing is mixed up.
    const changed = file
      .replace('name: Orders\n    description: "2"', 'name: Renamed\n    description: two')
      .replace('gates:\n', 'gates:\n  - { key: third, name: Orders, trust_level: L3 }\n');
    const ran = sure(await account.apply(changed, secrets()));
    expect(ran.stdout).toMatch(/^1 to create, 1 to change, 0 to delete\.$/m);
    expect(ran.stdout).toContain('~ name: "Orders" -> "Renamed"');
    expect((await account.apply(changed)).stdout).toMatch(/^No changes/);
    const gates = (await account.call('GET', '/gates')).body.items;
    expect(gates.map((gate: { name: string }) => gate.name).toSorted()).toEqual([
      'Orders',
      'Orders',
      'Renamed',
    ]);
    expect(
      gates.every(({ labels }: { labels: object }) => Object.keys(labels).includes('agent-trust/key')),
    ).toBe(true);
  });

  it('are all named at once where a bare name fits several', async () => {
    const account = await newAccount();
    for (const name of ['A', 'A', 'B', 'B'])
      await account.call('POST', '/gates', { name, trust_level: 'L1' });
    for (let n = 0; n < 2; n++) await account.call('POST', '/issuers', { name: 'I' });
    for (let n = 0; n < 2; n++) await account.call('POST', '/wallets', { name: 'W' });
    const ran = await account.apply(
      `version: 1
wallets: [{ name: Child, parent: W }]
issuers: [{ name: New, wallet: W }]
gates:
  - { name: A, trust_level: L1 }
  - { name: B, trust_level: L1 }
  - { name: C, trust_level: L1, constraints: { trusted_issuers: ['issuer:I'] } }
`,
      '--plan',
    );
    for (const place of [':2:', ':3:', ':5:', ':6:', ':7:'])
      expect(ran.stderr).toMatch(new RegExp(`${place}\\d+: "[ABIW]" fits 2 (?:wallets|issuers|gates)`));
    expectRefused(ran, /"I" fits 2 issuers\. Give the key of one: "I-1" \(iss_\w+\), "I-2"/);
  });

  it('are told apart by what wallets are below, without a key', async () => {
    const account = await newAccount();
    const file = `version: 1
wallets:
  - { name: X, parent: A/X, limits: { daily_usd: 3 } }
  - { name: X, parent: A, limits: { daily_usd: 1 } }
  - { name: X, parent: B, limits: { daily_usd: 2 } }
  - { name: A }
  - { name: B }
issuers: [{ name: I, wallet: B/X }]
`;
    sure(await account.apply(file));
    expect((await account.apply(file)).stdout).toMatch(/^No changes/);
    const more = sure(await account.apply(file.replace('issuers', '  - { name: X, parent: B/X }\nissuers')));
    expect(more.stdout).toMatch(/^1 to create, 0 to change/m);
    expect(await thereAndBack(account)).not.toContain('key:');
    expectRefused(await account.apply('version: 1\nwallets: [{ name: Y, parent: X }]'), /"X" fits 4 wallets/);
  });

  it('refuse a key that two entries have, as one has by its name', async () => {
    const account = await newAccount();
    for (const gates of ['{ name: A, key: k }, { name: B, key: k }', '{ name: k }, { name: B, key: k }'])
      expectRefused(await account.apply(`{ version: 1, gates: [${gates}] }`), /"k" is in gates twice/);
  });

  it('are made once each by two runs at the same moment', async () => {
    const account = await newAccount();
    const file = `version: 1
labels: { of: file }
wallets: [{ name: W, key: w1 }, { name: W, key: w2 }]
issuers: [{ name: I, key: i1 }, { name: I, key: i2 }]
gates: [{ name: G, key: g1, trust_level: L1 }, { name: G, key: g2, trust_level: L2 }]
`;
    const both = await Promise.all([account.apply(file), account.apply(file)]);
    for (const ran of both) sure(ran);
    for (const path of ['/wallets', '/issuers', '/gates'])
      expect((await account.call('GET', path)).body.total).toBe(2);
    // And gone once each.
    const empty = '{ version: 1, labels: { of: file } }';
    const pruned = await Promise.all([1, 2, 3].map(() => account.apply(empty, '--prune of=file --yes')));
    for (const ran of pruned) sure(ran);
    for (const path of ['/wallets', '/gates']) expect((await account.call('GET', path)).body.total).toBe(0);
  });
});

it('exports no reference to what is deleted', async () => {
  const account = await newAccount();
  const gate = await account.call('POST', '/gates', { name: 'Gone', trust_level: 'L1' });
  for (const gate_id of [null, gate.body.gate_id])
    await account.call('POST', '/channels', { name: `of ${gate_id}`, kind: 'slack', target, gate_id });
  await account.call('DELETE', `/gates/${gate.body.gate_id}`);
  expect(await thereAndBack(account)).not.toContain('gate_');
  expect((await account.run('export')).stderr).toMatch(/Channels of deleted gates/);
});

describe('any account', () => {
  const name = fc.constantFrom(
    'A',
    'B',
    'A-1',
    'A/B',
    'B/A',
    'yes',
    '0x1',
    '\u200bA',
    '😀'.repeat(90),
    "- it's: {#}",
    'A'.repeat(200),
  );
  const labels = fc.dictionary(
    fc.constantFrom('team', 'x/y', 'agent-trust/key'),
    fc.constantFrom('A', 'A-1', 'true', '', ' ', '\u200b'),
    { noNullPrototype: true },
  );
  const json = fc.jsonValue().filter((value) => !JSON.stringify(value).includes('__proto__'));
  const usd = fc.constantFrom(0, 1, 0.000001, 1e9);
  const place = fc.option(fc.nat(3));
  const account = fc.record({
    wallets: fc.array(
      fc.record({
        name,
        labels,
        parent: place,
        alert_at: fc.constantFrom(0.5, 0.8, 1),
        daily: usd,
        isFrozen: fc.boolean(),
      }),
      { maxLength: 4 },
    ),
    issuers: fc.array(
      fc.record({
        name,
        domain: fc.option(fc.constantFrom('a.example', 'b.example')),
        metadata: fc.dictionary(fc.constantFrom('a', 'b c', 'agent-trust/key'), fc.oneof(json, name), {
          noNullPrototype: true,
        }),
        wallet: place,
      }),
      { maxLength: 3 },
    ),
    templates: fc.array(fc.record({ name, daily: usd }), { maxLength: 3 }),
    gates: fc.array(
      fc.record({ name, labels, description: fc.option(name), trusts: place, isPriced: fc.boolean() }),
      { maxLength: 4 },
    ),
    webhooks: fc.array(fc.record({ labels, description: fc.option(name), isOff: fc.boolean() }), {
      maxLength: 3,
    }),
    channels: fc.uniqueArray(fc.record({ name, gate: place, after_s: fc.constantFrom(0, 60) }), {
      maxLength: 3,
      selector: (each) => each.name,
    }),
    deleted: place,
  });
  type Wanted = typeof account extends fc.Arbitrary<infer Value> ? Value : never;

  async function fill(one: CliAccount, wanted: Wanted): Promise<void> {
    const post = async (path: string, body: object) => {
      const made = await one.call('POST', path, body);
      expect(made.status, JSON.stringify([path, body, made.body])).toBe(201);
      return made.body;
    };
    const ids: Record<'wallets' | 'issuers' | 'gates', string[]> = { wallets: [], issuers: [], gates: [] };
    const at = (list: keyof typeof ids, index: number | null) =>
      index === null ? null : (ids[list][index] ?? null);
    for (const { parent, daily, isFrozen, ...rest } of wanted.wallets) {
      const limits = daily === 0 ? {} : { daily_usd: daily };
      const { wallet_id } = await post('/wallets', {
        ...rest,
        limits,
        parent_wallet_id: at('wallets', parent),
      });
      ids.wallets.push(wallet_id);
      if (isFrozen) await one.call('POST', `/wallets/${wallet_id}/freeze`);
    }
    for (const { wallet, ...rest } of wanted.issuers)
      ids.issuers.push((await post('/issuers', { ...rest, wallet_id: at('wallets', wallet) })).issuer_id);
    for (const { daily, ...rest } of wanted.templates)
      await post('/templates', { ...rest, constraints: { spend_limits: { daily_usd: daily } } });
    for (const { trusts, isPriced, ...rest } of wanted.gates) {
      const issuer = at('issuers', trusts);
      const constraints = issuer === null ? {} : { trusted_issuers: ['own', issuer] };
      const permissions = [{ key: 'a:b', pricing: { model: 'per_call', price_cents: 5 } }];
      const catalog = isPriced ? { catalog: { permissions } } : {};
      ids.gates.push((await post('/gates', { ...rest, trust_level: 'L1', constraints, ...catalog })).gate_id);
    }
    for (const { isOff, ...rest } of wanted.webhooks) {
      const { webhook_id } = await post('/webhooks', {
        ...rest,
        url: 'https://a.example/?a=#b',
        events: ['gate.created'],
      });
      if (isOff) await one.call('PUT', `/webhooks/${webhook_id}`, { status: 'disabled' });
    }
    for (const { gate, ...rest } of wanted.channels)
      await post('/channels', { ...rest, kind: 'slack', target, gate_id: at('gates', gate) });
    const gone = at('gates', wanted.deleted);
    if (gone !== null) await one.call('DELETE', `/gates/${gone}`);
  }

  it('comes out of an empty account that got its export as it went in', async () => {
    await fc.assert(
      fc.asyncProperty(account, async (wanted) => {
        const one = await newAccount();
        await fill(one, wanted);
        await thereAndBack(one);
      }),
      { numRuns: runs({ short: 1, long: 400 }) },
    );
  });
});
