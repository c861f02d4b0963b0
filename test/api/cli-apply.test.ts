import { generateKeyPairSync } from 'node:crypto';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { applySchema } from '../../cli/apply/apply-file.ts';
import { changesOf, mergePatchOf } from '../../cli/apply/apply-steps.ts';
import { mergePatch } from '../../shared/wire/api/merge-patch.ts';
import { runs } from '../support/base/runs.ts';
import { startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { useCliAccounts } from '../support/programs/cli-accounts.ts';
import { expectRefused, sure } from '../support/programs/command.ts';
import { startOwnApi } from '../support/service/api.ts';

/** `agent-trust apply` and `agent-trust export`: an account as a file. */
const { newFile, envOf, accountAt, newAccount } = useCliAccounts();

const whole = `
version: 1
labels: { managed-by: apply }
issuers:
  - { name: Acme, domain: Acme.example, metadata: { tier: gold } }
  - { name: Old, status: suspended }
templates:
  - name: Base
    trust_level: L2
    constraints: { spend_limits: { daily_usd: 50 }, rate_limits: { requests_per_minute: 10 } }
gates:
  - name: Orders
    template: Base
    constraints:
      rate_limits: null
      approvals: { above_usd: 20 }
      trusted_issuers: [own, 'issuer:Acme']
    routes: [{ methods: [POST], path: /orders, permission_key: 'orders:create' }]
    catalog:
      permissions: [{ key: 'orders:create', pricing: { model: per_call, price_cents: 5 } }]
  - { name: Files, trust_level: L1, labels: { team: storage } }
webhooks:
  - { url: 'https://shop.example/hook', events: [gate.created] }
`;

describe('apply', () => {
  it('shows a plan, asks, does it, and has nothing to do afterwards', async () => {
    const account = await newAccount();
    const planned = await account.apply(whole, '--plan');
    expect(planned.code, planned.stderr).toBe(3);
    expect(planned.stdout).toContain('+ gate "Orders"\n');
    expect(planned.stdout).toContain('    + constraints.spend_limits.daily_usd: 50\n');
    expect(planned.stdout).toContain('["own","issuer:Acme"]');
    expect(planned.stdout).toMatch(/^7 to create, 0 to change, 0 to delete\.$/m);
    expect((await account.call('GET', '/gates')).body.total).toBe(0);
    // Before anything is done: a secret that is shown nowhere would be lost.
    expectRefused(await account.apply(whole), /--secrets-file/);
    const secrets = newFile('jsonl');
    expect(await account.apply(whole, `--secrets-file ${secrets}`, { typed: ['no'] })).toMatchObject({
      code: 1,
    });
    expect((await account.call('GET', '/gates')).body.total).toBe(0);
    const done = sure(await account.apply(whole, `--secrets-file ${secrets}`, { typed: ['y'] }));
    expect(done.stderr).toMatch(/^created gate "Orders" gate_/m);
    expect(JSON.parse(readFileSync(secrets, 'utf8'))).toMatchObject({
      secret: expect.stringMatching(/^whsec_/),
    });
    expect(statSync(secrets).mode & 0o777).toBe(0o600);
    expect(`${done.stdout}${done.stderr}`).not.toContain('whsec_');

    const again = await account.apply(whole);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^No changes/) });
    const [files, orders] = (await account.call('GET', '/gates')).body.items;
    expect(files.labels).toEqual({ 'managed-by': 'apply', team: 'storage' });
    const { body: gate } = await account.call('GET', `/gates/${orders.gate_id}`);
    expect(gate.constraints.trusted_issuers).toEqual([
      'own',
      expect.stringMatching(/^iss_[0-9a-z]*[1-9a-z]/),
    ]);
    expect(gate.constraints).not.toHaveProperty('rate_limits');
  });

  it('registers issuers of others, and gives issuers a wallet', async () => {
    // One that calls addresses of this machine.
    const near = await startOwnApi({ outbound: { allowPrivate: true } });
    const origin = await near.app.listen({ host: '127.0.0.1', port: 0 });
    const account = await accountAt(near, { AGENT_TRUST_URL: origin });
    const provider = await startForeignProvider();
    try {
      await provider.addKey();
      const wallet = await account.call('POST', '/wallets', { name: 'Team', limits: {} });
      const of = (audience: string, more = '') => `
version: 1
issuers:
  - name: Keycloak
    wallet_id: ${wallet.body.wallet_id}
    federation: { type: oidc, issuer: '${provider.issuer}', audiences: [${audience}]${more} }
`;
      sure(await account.apply(of('gate'), '--yes'));
      const issuers = async () => (await account.call('GET', '/issuers')).body.items;
      expect(await issuers()).toMatchObject([
        { wallet_id: wallet.body.wallet_id, federation: { issuer: provider.issuer, audiences: ['gate'] } },
      ]);
      expect((await account.apply(of('gate'))).stdout).toMatch(/^No changes/);
      sure(await account.apply(of('other'), '--yes'));
      expect(await issuers()).toMatchObject([{ federation: { audiences: ['other'] } }]);
      const pasted = await account.apply(of('other', ', jwks: { keys: [] }'), '--yes');
      expectRefused(pasted, /no pasted keys/);
      expect((await account.apply('{ version: 1, issuers: [{ name: Keycloak }] }')).stdout).toMatch(
        /^No changes/,
      );
    } finally {
      await provider.close();
      await near.close();
    }
  });

  it('shows each member that differs, and changes these alone', async () => {
    const account = await newAccount();
    const of = (limits: string) =>
      `{ version: 1, gates: [{ name: G, trust_level: L1, constraints: ${limits} }] }`;
    await account.apply(
      of('{ spend_limits: { daily_usd: 50, monthly_usd: 100 }, allowed_domains: [a.example] }'),
    );
    const changed = sure(await account.apply(of('{ spend_limits: { daily_usd: 60 } }'), '--yes --json'));
    const [step] = changed.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(step).toMatchObject({ verb: 'change', kind: 'gate', name: 'G' });
    expect(step.changes).toEqual([
      { member: 'constraints.spend_limits.daily_usd', before: 50, after: 60 },
      { member: 'constraints.spend_limits.monthly_usd', before: 100 },
      { member: 'constraints.allowed_domains', before: ['a.example'] },
    ]);
    expect(await account.apply(of('{ spend_limits: { daily_usd: 60 } }'))).toMatchObject({ code: 0 });
  });

  it('deletes what has the label and left the file, and nothing else', async () => {
    const account = await newAccount();
    const secrets = `--secrets-file ${newFile('jsonl')}`;
    await account.call('POST', '/gates', { name: 'By hand', trust_level: 'L1' });
    await account.apply(whole, `--yes ${secrets}`);
    const less = 'version: 1\nlabels: { managed-by: apply }\ngates: [{ name: Files, trust_level: L1 }]';
    expect((await account.apply(less, '--plan')).stdout).toMatch(/0 to delete/);
    const pruned = sure(await account.apply(less, '--yes --prune managed-by=apply'));
    expect(pruned.stdout).toMatch(/^- gate "Orders" gate_/m);
    expect(pruned.stdout).toMatch(/^- webhook "https:\/\/shop\.example\/hook" wh_/m);
    const names = (await account.call('GET', '/gates')).body.items.map(({ name }: { name: string }) => name);
    expect(names.toSorted()).toEqual(['By hand', 'Files']);
    expect((await account.call('GET', '/webhooks')).body.total).toBe(0);
    const unlabelled = 'version: 1\ngates: [{ name: Other, trust_level: L1 }]';
    expectRefused(await account.apply(unlabelled, '--yes --prune managed-by=apply'), /lacks the label/);
  });

  it('makes the plan anew where somebody changed a gate meanwhile', async () => {
    const account = await newAccount();
    const of = (usd: number) =>
      `{ version: 1, gates: [{ name: G, trust_level: L1, constraints: { spend_limits: { daily_usd: ${usd} } } }] }`;
    await account.apply(of(50));
    const [{ gate_id }] = (await account.call('GET', '/gates')).body.items;
    const ran = await account.apply(of(60), '--json', {
      typed: [
        async () => {
          await account.call('PUT', `/gates/${gate_id}`, { description: 'by somebody else' });
          return 'y';
        },
        'y',
      ],
    });
    expect(ran.stderr).toMatch(/The plan is made anew/);
    const plans = ran.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).changes.map(({ member }: { member: string }) => member));
    expect(plans).toEqual([
      ['constraints.spend_limits.daily_usd'],
      ['description', 'constraints.spend_limits.daily_usd'],
    ]);
    expect(ran.code, ran.stderr).toBe(0);
    const { body } = await account.call('GET', `/gates/${gate_id}`);
    expect(body.constraints.spend_limits.daily_usd).toBe(60);
    expect(body.description).toBe(null);
  });

  it('goes on where it broke off', async () => {
    const account = await newAccount();
    const broken = `${whole.replace('https://shop.example/hook', 'https://127.0.0.1/hook')}`;
    const secrets = `--secrets-file ${newFile('jsonl')}`;
    const first = await account.apply(broken, `--yes ${secrets}`);
    expectRefused(first, /6 of 7 steps are done\. Run it again/, 1);
    const rest = await account.apply(whole, `--yes ${secrets}`);
    expect(rest.stdout).toMatch(/^1 to create, 0 to change/m);
    expect(rest.code, rest.stderr).toBe(0);
  });

  it('refuses names that several have, in the account and in the file', async () => {
    const account = await newAccount();
    for (let n = 0; n < 2; n++) await account.call('POST', '/gates', { name: 'G', trust_level: 'L1' });
    const gate = '  - { name: G, trust_level: L1 }\n';
    expectRefused(
      await account.apply(`version: 1\ngates:\n${gate}`),
      /:3:5: "G" fits 2 gates\. Give the key of one: "G-1" \(gate_\w+\), "G-2" \(gate_\w+\)\./,
    );
    expectRefused(await account.apply(`version: 1\ngates:\n${gate}${gate}`), /:4:5: "G" is in gates twice/);
  });

  it.each([
    ['no version', 'gates: []', /version is required/],
    ['a name', 'version: 1\ngates:\n  - name: G\n    trust_levle: L1', /:4:18: gates\.0\.trust_levle is not/],
    [
      'a value',
      'version: 1\ngates:\n  - name: G\n    trust_level: L4',
      /:4:18: gates\.0\.trust_level must be/,
    ],
    ['an unknown template', 'version: 1\ngates: [{ name: G, template: T }]', /no template "T"/],
    [
      'an unknown issuer',
      "version: 1\ngates: [{ name: G, trust_level: L1, constraints: { trusted_issuers: ['issuer:X'] } }]",
      /no issuer "X"/,
    ],
    ['broken YAML', 'version: 1\ngates: [', /:2:\d+: /],
    ['a bomb of aliases', bomb(), /alias/i],
    ['nothing', '\n', /The file is empty\.$/m],
    [
      'a member that moves the cursor',
      'version: 1\n"\\e[2J\\u202e\\u200b\\n": 1',
      /:2:\d+: .*\\u001b\[2J\\u202e\\u200b/,
    ],
    ['a webhook', 'version: 1\nwebhooks: [{ url: "no url", events: [gate.created] }]', /:2:\d+: url must be/],
    [
      'an end without its beginning',
      'version: 1\nchannels: [{ name: C, kind: slack, target_env: CHANNEL_C, events: [approval.resolved] }]',
      /:2:\d+: /,
    ],
  ])('says by its line what is wrong: %s', async (_what, yaml, words) => {
    const ran = await (await newAccount()).apply(yaml);
    expect(ran.stderr).toMatch(words);
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal must not get
    expect(ran.stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u202e\u200b]/);
    expect(ran.code).toBe(2);
  });

  it('refuses to change what the service does not change', async () => {
    const account = await newAccount();
    await account.apply('version: 1\nissuers: [{ name: A }]\ntemplates: [{ name: T }]');
    for (const [yaml, words] of [
      ['version: 1\nissuers: [{ name: A, domain: a.example }]', /domain of the issuer "A" cannot be changed/],
      ['version: 1\ntemplates: [{ name: T, trust_level: L3 }]', /trust_level of the template "T" cannot/],
    ] as const)
      expectRefused(await account.apply(yaml), words);
  });
});

function bomb(): string {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
  for (let n = 1; n < 8; n++)
    lines.push(
      `a${n}: &a${n} [${Array(10)
        .fill(`*a${n - 1}`)
        .join(', ')}]`,
    );
  return lines.join('\n');
}

describe('channels of a file', () => {
  const slack = 'https://hooks.slack.com/services/T0/B0/the-secret-of-the-slack-webhook';
  const channels = `
version: 1
gates: [{ name: Orders, trust_level: L1 }]
channels:
  - { name: payments, kind: slack, target_env: CHANNEL_SLACK }
  - { name: pager, kind: webhook, target_env: CHANNEL_PAGER, gate: Orders, after_s: 600, events: [approval.requested] }
`;
  const env = { CHANNEL_SLACK: slack, CHANNEL_PAGER: 'https://pager.example.com/hook' };

  it('take their target from the environment, and show it nowhere', async () => {
    const account = await newAccount(env);
    const secrets = newFile('jsonl');
    expectRefused(await account.apply(channels), /--secrets-file/);
    const done = sure(await account.apply(channels, `--yes --secrets-file ${secrets}`));
    const { items } = (await account.call('GET', '/channels')).body;
    expect(items).toMatchObject([
      { name: 'pager', kind: 'webhook', after_s: 600, gate_id: expect.stringMatching(/^gate_/) },
      { name: 'payments', kind: 'slack', gate_id: null },
    ]);
    expect(JSON.parse(readFileSync(secrets, 'utf8'))).toMatchObject({
      name: 'pager',
      secret: expect.stringMatching(/^whsec_/),
    });
    expect((await account.apply(channels)).stdout).toMatch(/^No changes/);
    const exported = await account.run('export');
    expect(exported.stdout).toContain('target_env: CHANNEL_PAYMENTS_TARGET');
    for (const { stdout, stderr } of [done, exported]) {
      expect(`${stdout}${stderr}`).not.toContain('the-secret-of');
      expect(`${stdout}${stderr}`).not.toContain('whsec_');
    }
  });

  it('are exported with a variable of their own each, which apply takes', async () => {
    const account = await newAccount();
    for (const name of ['a b', 'a-b', '\u043f', '\u0440', 'x'.repeat(200)]) {
      const body = { name, kind: 'slack', target: slack };
      expect((await account.call('POST', '/channels', body)).status).toBe(201);
    }
    const { stdout } = await account.run('export');
    const variables = [...stdout.matchAll(/target_env: (\S+)/g)].map(([, variable = '']) => variable);
    expect(variables.toSorted()).toEqual([
      ...['CHANNEL_2_TARGET', 'CHANNEL_A_B_2_TARGET', 'CHANNEL_A_B_TARGET', 'CHANNEL_TARGET'],
      `CHANNEL_${'X'.repeat(92)}_TARGET`,
    ]);
    expect((await account.apply(stdout)).stdout).toMatch(/^No changes/);
  });

  it('change by what differs; a variable that is not set leaves the target as it is', async () => {
    const account = await newAccount(env);
    await account.apply(channels, `--yes --secrets-file ${newFile('jsonl')}`);
    const without = { env: envOf(account.key) };
    expect((await account.apply(channels, '--yes', without)).stdout).toMatch(/^No changes/);
    const moved = { env: { ...without.env, ...env, CHANNEL_SLACK: `${slack}-2` } };
    const changed = await account.apply(channels, '--yes', moved);
    expect(changed.stdout).toMatch(/~ channel "payments" chan_\w+\n {4}~ target: changes\n/);
    expect(changed.stdout).toMatch(/^0 to create, 1 to change, 0 to delete\.$/m);
    expect(changed.stdout).not.toMatch(/the-secret-of|sha256/);
    const later = channels.replace('after_s: 600', 'after_s: 60');
    expect((await account.apply(later)).stdout).toContain('~ after_s: 600 -> 60');
    const other = channels.replace('kind: webhook', 'kind: slack');
    expectRefused(await account.apply(other), /kind of the channel "pager" cannot be changed/);
  });

  it('are refused with their line where the target is missing, or none', async () => {
    const account = await newAccount();
    expectRefused(await account.apply(channels), /\.yaml:5:\d+: CHANNEL_SLACK is not set/);
    for (const [target, words] of [
      [`${slack}\n`, /:5:\d+: The target in CHANNEL_SLACK must be an absolute http/],
      ['https://hooks.slack.com/…book', /:5:\d+: The target in CHANNEL_SLACK is as answers show it/],
    ] as const) {
      const ran = await account.apply(channels, '--plan', {
        env: { ...envOf(account.key), ...env, CHANNEL_SLACK: target },
      });
      expectRefused(ran, words);
      expect(ran.stderr).not.toContain('the-secret-of');
    }
  });

  it('read no variable but those of channels, and say by which name', async () => {
    const account = await newAccount({ DATABASE_URL: 'postgres://secret', CHANNEL_A_TARGET: slack });
    const ran = await account.apply(
      'version: 1\nchannels:\n  - { name: on-call, kind: slack, target_env: DATABASE_URL }',
      '--plan',
    );
    expectRefused(ran, /:3:\d+: channels\.0\.target_env .*call it CHANNEL_ON_CALL_TARGET\.$/m);
    const hash = /[0-9a-f]{64}/;
    const planned = await account.apply(
      'version: 1\nchannels: [{ name: a, kind: slack, target_env: CHANNEL_A_TARGET }]',
      '--plan --json',
    );
    expect(planned.code).toBe(3);
    expect(`${ran.stdout}${ran.stderr}${planned.stdout}`).not.toMatch(hash);
  });
});

it('exports what an empty account then exports too', async () => {
  const [one, other] = [await newAccount(), await newAccount()];
  const secrets = () => `--yes --secrets-file ${newFile('jsonl')}`;
  await one.apply(whole, secrets());
  const { stdout: first } = await one.run('export');
  expect(first).not.toContain('whsec_');
  sure(await other.apply(first, secrets()));
  expect((await other.run('export')).stdout).toBe(first);
  expect((await other.apply(first)).stdout).toMatch(/^No changes/);
  expect((await one.apply(first)).stdout).toMatch(/^No changes/);
});

it('exports no issuer with pasted keys, which no answer has', async () => {
  const account = await newAccount();
  const { publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'RS256', use: 'sig' };
  const federation = {
    ...{ type: 'jwks', issuer: 'https://pasted.example', jwks: { keys: [jwk] } },
    ...{ audiences: ['gate'], permissions: ['orders:create'] },
  };
  const made = await account.call('POST', '/issuers', { name: 'Pasted', federation });
  expect(made.status, JSON.stringify(made.body)).toBe(201);
  await account.call('POST', '/issuers', { name: 'Own' });
  const { stdout } = await account.run('export');
  expect(stdout).toContain('name: Own');
  expect(stdout).not.toContain('asted');
  expect((await account.apply(stdout)).stdout).toMatch(/^No changes/);
});

it('has the schema that docs/apply.schema.json shows (UPDATE_DOCS=1 writes it)', () => {
  const file = new URL('../../docs/apply.schema.json', import.meta.url);
  const text = `${JSON.stringify(applySchema, null, 2)}\n`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, text);
  expect(readFileSync(file, 'utf8')).toBe(text);
});

it('makes of two objects the patch that leads from one to the other, and shows no change of equal ones', () => {
  const leaf = fc.oneof(fc.integer(), fc.string(), fc.array(fc.integer()), fc.boolean());
  const name = fc.constantFrom('a', 'b', 'c');
  const object = fc.dictionary(name, fc.oneof(leaf, fc.dictionary(name, leaf)));
  fc.assert(
    fc.property(object, object, (before, after) => {
      expect(mergePatch(before, mergePatchOf(before, after))).toEqual(after);
      expect(changesOf(before, before)).toEqual([]);
    }),
    { numRuns: runs({ short: 200, long: 20_000 }) },
  );
});
