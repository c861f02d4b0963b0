import { describe, expect, it } from 'vitest';
import { useCliAccounts } from '../support/programs/cli-accounts.ts';
import { expectRefused, sure } from '../support/programs/command.ts';
import type { Reply } from '../support/service/api.ts';

/** Wallets of `agent-trust apply` and `agent-trust export` (contract §6). */
const accounts = useCliAccounts();

async function newAccount() {
  const account = await accounts.newAccount();
  return {
    ...account,
    async wallet(name: string): Promise<Reply['body']> {
      const { items } = (await account.call('GET', '/wallets?limit=200')).body;
      return items.find((each: { readonly name: string }) => each.name === name);
    },
  };
}

/** Children first, which the service takes in another order. */
const tree = `
version: 1
labels: { managed-by: apply }
wallets:
  - { name: Night, parent: Buying, limits: { daily_usd: 50 }, share: reserved }
  - { name: Buying, parent: Company, limits: { daily_usd: 200, requests_per_minute: 60 }, alert_at: 0.5 }
  - { name: Company, limits: { monthly_usd: 5000.25 }, labels: { team: board } }
  - { name: Stopped, parent: Company, status: frozen }
issuers:
  - { name: Shop, wallet: Buying }
`;

describe('wallets of a file', () => {
  it('are made from the root down, with the issuers that they are of, and are there then', async () => {
    const account = await newAccount();
    const planned = await account.apply(tree, '--plan');
    expect(planned).toMatchObject({ code: 3, stdout: expect.stringMatching(/^5 to create, 0 to change/m) });
    expect(planned.stdout).toContain('    + parent: "Company"\n');
    expect(planned.stdout).toContain('    + wallet: "Buying"\n');
    expect((await account.call('GET', '/wallets')).body.total).toBe(0);
    sure(await account.apply(tree));
    const company = await account.wallet('Company');
    const buying = await account.wallet('Buying');
    expect(company).toMatchObject({
      ...{ limits: { monthly_usd: 5000.25 }, share: 'pot', alert_at: 0.8, parent_wallet_id: null },
      labels: { 'managed-by': 'apply', team: 'board' },
    });
    expect(await account.wallet('Night')).toMatchObject({
      ...{ path: [company.wallet_id, buying.wallet_id, expect.any(String)], share: 'reserved' },
      limits: { daily_usd: 50 },
    });
    expect(await account.wallet('Stopped')).toMatchObject({ status: 'frozen' });
    expect((await account.call('GET', '/issuers')).body.items).toMatchObject([
      { name: 'Shop', wallet_id: buying.wallet_id },
    ]);
    expect((await account.apply(tree)).stdout).toMatch(/^No changes/);
    // By its id it is the same.
    const byId = `{ version: 1, issuers: [{ name: Shop, wallet_id: ${buying.wallet_id} }] }`;
    expect((await account.apply(byId)).stdout).toMatch(/^No changes/);
  });

  it('are exported as an empty account then exports them too', async () => {
    const [one, other] = [await newAccount(), await newAccount()];
    sure(await one.apply(tree));
    const { stdout: first } = sure(await one.run('export'));
    expect(first).toContain('wallet: Buying');
    expect(first).not.toMatch(/wal_|iss_/);
    expect((await one.apply(first)).stdout).toMatch(/^No changes/);
    sure(await other.apply(first));
    expect((await other.run('export')).stdout).toBe(first);
    expect((await other.apply(first)).stdout).toMatch(/^No changes/);
  });

  it('change by what differs: limits go, parents change, a status that is absent stays', async () => {
    const account = await newAccount();
    sure(await account.apply(tree));
    const changed = tree
      .replace(
        'limits: { daily_usd: 200, requests_per_minute: 60 }, alert_at: 0.5',
        'limits: { daily_usd: 90 }',
      )
      .replace('Night, parent: Buying', 'Night, parent: Company')
      .replace(', status: frozen', '')
      .replace('wallet: Buying', 'wallet: null');
    const ran = sure(await account.apply(changed));
    expect(ran.stdout).toMatch(/ {4}~ limits\.daily_usd: 200 -> 90\n {4}- limits\.requests_per_minute: 60\n/);
    expect(ran.stdout).toContain('~ parent: "Buying" -> "Company"');
    const company = await account.wallet('Company');
    expect(await account.wallet('Buying')).toMatchObject({ limits: { daily_usd: 90 }, alert_at: 0.8 });
    expect((await account.wallet('Night')).parent_wallet_id).toBe(company.wallet_id);
    expect((await account.wallet('Stopped')).status).toBe('frozen');
    expect((await account.call('GET', '/issuers')).body.items).toMatchObject([{ wallet_id: null }]);
    sure(await account.apply(changed.replace('{ name: Stopped,', '{ name: Stopped, status: active,')));
    expect((await account.wallet('Stopped')).status).toBe('active');
    expect((await account.apply(changed)).stdout).toMatch(/^No changes/);
  });

  it('change in an order in which no limit is passed, and no wallet is below itself', async () => {
    const account = await newAccount();
    const of = (a: number, b: number, root = 100) => `
version: 1
wallets:
  - { name: Root, limits: { daily_usd: ${root} } }
  - { name: A, parent: Root, limits: { daily_usd: ${a} }, share: reserved }
  - { name: B, parent: Root, limits: { daily_usd: ${b} }, share: reserved }
`;
    sure(await account.apply(of(40, 60)));
    // Each of these in the order of the file would be refused.
    for (const yaml of [of(60, 40), of(80, 20), of(10, 5, 15), of(70, 30)]) sure(await account.apply(yaml));
    const around = `
version: 1
wallets:
  - { name: Root, parent: A, limits: { daily_usd: 100 } }
  - { name: A, limits: { daily_usd: 70 } }
  - { name: B, parent: Root, limits: { daily_usd: 30 }, share: reserved }
`;
    sure(await account.apply(around));
    expect((await account.wallet('B')).path).toHaveLength(3);
    expect((await account.apply(around)).stdout).toMatch(/^No changes/);
  });

  it('say before anything is done that two can only change at once', async () => {
    const account = await newAccount();
    const of = (x: string, y: string) => `
version: 1
wallets:
  - { name: P, limits: { daily_usd: 10 } }
  - { name: Q, limits: { daily_usd: 10 } }
  - { name: X, parent: ${x}, limits: { daily_usd: 10 }, share: reserved }
  - { name: Y, parent: ${y}, limits: { daily_usd: 10 }, share: reserved }
`;
    sure(await account.apply(of('P', 'Q')));
    const swapped = await account.apply(of('Q', 'P'));
    expectRefused(swapped, /wallets "X", "Y" cannot change one after another/);
    expect(swapped.stdout).toBe('');
  });

  it.each([
    ['an unknown parent', '- { name: A, parent: B }', /:3:24: There is no wallet "B", neither/],
    [
      'a circle',
      '- { name: A, parent: B }\n  - { name: B, parent: A }',
      /:3:24: .*"A" would be below itself/,
    ],
    [
      'a sixth level',
      ['- { name: L1 }', ...[2, 3, 4, 5, 6].map((n) => `- { name: L${n}, parent: L${n - 1} }`)].join('\n  '),
      /:8:25: Wallets are at most 5 deep: "L6"/,
    ],
    [
      'more reserved than there is',
      '- { name: A, limits: { daily_usd: 1 } }\n  - { name: B, parent: A, share: reserved, limits: { daily_usd: 1.000001 } }',
      /reserved limits below a wallet may not sum to more .*daily_usd/,
    ],
    ['a limit that is none', '- { name: A, limits: { weekly_usd: 1 } }', /limits\.weekly_usd is not/],
  ])('are refused with their line, and nothing is done: %s', async (_what, entries, words) => {
    const account = await newAccount();
    const ran = await account.apply(`version: 1\nwallets:\n  ${entries}\n`);
    expect(ran).toMatchObject({ code: 2, stderr: expect.stringMatching(words), stdout: '' });
    expect((await account.call('GET', '/wallets')).body.total).toBe(0);
  });

  it('are told apart by names: two of one in the account, and those of others, are none', async () => {
    const [account, stranger] = [await newAccount(), await newAccount()];
    await stranger.call('POST', '/wallets', { name: 'Theirs' });
    const theirs = await stranger.wallet('Theirs');
    for (const [yaml, words] of [
      ['wallets: [{ name: A, parent: Theirs }]', /There is no wallet "Theirs"/],
      ['issuers: [{ name: A, wallet: Theirs }]', /issuers\.0\.wallet|There is no wallet "Theirs"/],
      [`issuers: [{ name: A, wallet_id: ${theirs.wallet_id} }]`, /The account has no wallet wal_/],
      [`issuers: [{ name: A, wallet: null, wallet_id: null }]`, /Give wallet, by its name, or wallet_id/],
    ] as const)
      expectRefused(await account.apply(`version: 1\n${yaml}`), words);
    for (let n = 0; n < 2; n++) await account.call('POST', '/wallets', { name: 'Twice' });
    for (const yaml of [
      'wallets: [{ name: Twice }]',
      'wallets: [{ name: A, parent: Twice }]',
      'issuers: [{ name: A, wallet: Twice }]',
    ])
      expectRefused(
        await account.apply(`version: 1\n${yaml}`),
        /"Twice" fits 2 wallets\. Give the key of one: "Twice-1" \(wal_\w+\), "Twice-2" \(wal_\w+\)\./,
      );
    const { wallet_id } = await account.wallet('Twice');
    sure(await account.apply(`version: 1\nissuers: [{ name: A, wallet_id: ${wallet_id} }]`));
    expect((await account.call('GET', '/issuers')).body.items).toMatchObject([{ wallet_id }]);
  });

  it('are planned anew where somebody deleted one meanwhile', async () => {
    const account = await newAccount();
    await account.call('POST', '/wallets', { name: 'C' });
    const { wallet_id: parent } = await account.wallet('C');
    const orphan = await account.apply('version: 1\nwallets: [{ name: D, parent: C }]', '', {
      typed: [
        async () => {
          expect((await account.call('DELETE', `/wallets/${parent}`)).status).toBe(200);
          return 'y';
        },
      ],
    });
    expectRefused(orphan, /There is no wallet "C"/);
  });

  it('are not unfrozen where somebody changed them since the plan', async () => {
    const account = await newAccount();
    const of = (status: string) => `version: 1\nwallets: [{ name: A, status: ${status} }]`;
    sure(await account.apply(of('frozen')));
    const { wallet_id } = await account.wallet('A');
    const ran = await account.apply(of('active'), '', {
      typed: [
        async () => {
          await account.call('PUT', `/wallets/${wallet_id}`, { limits: { daily_usd: 1 } });
          return 'y';
        },
        'no',
      ],
    });
    expect(ran.stderr).toMatch(/The plan is made anew/);
    expect(await account.wallet('A')).toMatchObject({ status: 'frozen', limits: { daily_usd: 1 } });
    sure(await account.apply('version: 1\nwallets: [{ name: A, limits: { daily_usd: 1 }, status: active }]'));
    expect((await account.wallet('A')).status).toBe('active');
  });

  it('of two runs at the same moment are made once', async () => {
    const account = await newAccount();
    const both = await Promise.all([account.apply(tree), account.apply(tree)]);
    expect(
      both.map(({ code }) => code),
      both.map(({ stderr }) => stderr).join('\n'),
    ).toEqual([0, 0]);
    expect((await account.call('GET', '/wallets')).body.total).toBe(4);
    expect((await account.apply(tree)).stdout).toMatch(/^No changes/);
  });

  it('need a key that may read them only where the file names some', async () => {
    const account = await newAccount();
    sure(await account.apply(tree));
    const scopes = [
      'issuers:read',
      'issuers:create',
      'gates:read',
      'gates:manage',
      'templates:read',
      'webhooks:manage',
    ];
    const made = await account.call('POST', '/api-keys', { name: 'no wallets', scopes });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
    const as = { env: accounts.envOf(made.body.key) };
    sure(await account.apply('{ version: 1, issuers: [{ name: Shop }] }', '--yes', as));
    const pruned = await account.apply('version: 1', '--yes --prune managed-by=apply', as);
    expect(sure(pruned).stderr).toMatch(/may not read wallets: none of them is pruned/);
    const exported = sure(await account.run('export', as));
    expect(exported.stderr).toMatch(/may not read wallets/);
    expect(exported.stdout).not.toContain('wallet:');
    expect(await account.apply(tree, '--yes', as)).toMatchObject({ code: 1 });
  });
});

describe('pruned wallets', () => {
  it('go with their label, children before their parents, once issuers have others', async () => {
    const account = await newAccount();
    sure(await account.apply(tree));
    await account.call('POST', '/wallets', { name: 'By hand' });
    const less = 'version: 1\nissuers: [{ name: Shop, wallet: By hand }]';
    expect((await account.apply(less, '--plan')).stdout).toMatch(/0 to delete/);
    const pruned = sure(await account.apply(less, '--yes --prune managed-by=apply --json'));
    const steps = pruned.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const places = (name: string) => steps.findIndex((step) => step.name === name);
    expect(steps.map(({ verb, kind }) => `${verb} ${kind}`).toSorted()).toEqual([
      'change issuer',
      ...Array(4).fill('delete wallet'),
    ]);
    expect(places('Night')).toBeLessThan(places('Buying'));
    expect(places('Shop')).toBeLessThan(places('Buying'));
    expect(places('Buying')).toBeLessThan(places('Company'));
    const { items } = (await account.call('GET', '/wallets')).body;
    expect(items).toMatchObject([{ name: 'By hand' }]);
  });

  it('make room for those that come in their place', async () => {
    const account = await newAccount();
    const of = (name: string) => `
version: 1
labels: { a: b }
wallets:
  - { name: Root, limits: { daily_usd: 10 } }
  - { name: ${name}, parent: Root, limits: { daily_usd: 10 }, share: reserved }
`;
    sure(await account.apply(of('Old')));
    sure(await account.apply(of('New'), '--yes --prune a=b'));
    expect(await account.wallet('Old')).toBeUndefined();
    expect(await account.wallet('New')).toMatchObject({ share: 'reserved' });
  });

  it('stay, and nothing is done, where something is in them', async () => {
    const account = await newAccount();
    sure(await account.apply(tree));
    const root = await account.wallet('Company');
    const prune = (yaml: string) => account.apply(yaml, '--yes --prune managed-by=apply');
    const shop = 'version: 1\nissuers: [{ name: Shop, wallet: null }]';
    expectRefused(await prune('version: 1'), /"Buying" wal_\w+ cannot be pruned: the issuer "Shop"/);
    expectRefused(await prune('version: 1\nissuers: [{ name: Shop, wallet: Buying }]'), /the issuer "Shop"/);
    const { body: hand } = await account.call('POST', '/wallets', {
      name: 'By hand',
      parent_wallet_id: root.wallet_id,
    });
    expectRefused(await prune(shop), /"Company" wal_\w+ cannot be pruned: the wallet "By hand"/);
    const below = `${shop}\nlabels: { managed-by: apply }\nwallets: [{ name: New, parent: Company }]`;
    expectRefused(await prune(below), /"Company" would be pruned: add it to the file/);
    await account.call('DELETE', `/wallets/${hand.wallet_id}`);
    const { body: passport } = await account.call('POST', '/passports', {
      ...{ agent_id: 'buyer', permissions: ['orders:create'] },
      wallet_id: (await account.wallet('Night')).wallet_id,
    });
    expectRefused(await prune(shop), /"Night" wal_\w+ cannot be pruned: 1 passport would/);
    expect((await account.call('GET', '/wallets')).body.total).toBe(4);
    const unlabelled = 'version: 1\nwallets: [{ name: Other }]';
    expectRefused(await prune(unlabelled), /wallet "Other" of the file lacks the label/);
    await account.call('POST', `/passports/${passport.passport_id}/wallet`, { wallet_id: null });
    sure(await prune(shop));
    expect((await account.call('GET', '/wallets')).body.total).toBe(0);
  });
});
