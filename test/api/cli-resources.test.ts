import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dayMs } from '../../shared/model/time.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { expectRefused, type RunOptions, runCommand, sure } from '../support/programs/command.ts';
import { startOwnApi } from '../support/service/api.ts';
import { askingRules } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';

/** The commands of administrators against a control plane on a socket: what they call, print and refuse. */
const api = useApi(startOwnApi);
let url: string;
const folder = temporaryFolder();
let env: Readonly<Record<string, string>>;
let key: string;

beforeAll(async () => {
  url = await api.app.listen({ host: '127.0.0.1', port: 0 });
  ({ key } = await api.createAccount());
  env = { AGENT_TRUST_URL: url, AGENT_TRUST_API_KEY: key };
});
afterAll(() => folder.remove());

const run = (line: string, options: Partial<RunOptions> = {}) =>
  runCommand(line.split(' '), { env, ...options });
/** Of a command that succeeds: its objects. */
async function json(line: string, options: Partial<RunOptions> = {}) {
  const ran = await run(`${line} --json`, options);
  expect(ran, line).toMatchObject({ code: 0 });
  return ran.stdout
    .trim()
    .split('\n')
    .filter((text) => text !== '')
    .map((text) => JSON.parse(text));
}

describe('resources', () => {
  it('tries a policy beside that of a gate, reports on it and promotes it', async () => {
    const { gate_id: gate } = await api.createGate({}, key);
    const smaller = `--constraints {"spend_limits":{"per_transaction_usd":20}}`;
    const [made] = await json(`gates shadow put ${gate} ${smaller} --trust-level L2 --expires-in 60`);
    expect(made).toMatchObject({
      trust_level: 'L2',
      constraints: { spend_limits: { per_transaction_usd: 20 } },
    });
    expect(await json(`gates shadow show ${gate}`)).toEqual([made]);
    expect(await json(`gates shadow report ${gate} --since 2026-01-01T00:00:00Z`)).toMatchObject([
      { decisions: 0 },
    ]);
    expect(await run(`gates shadow put ${gate} --constraints {`)).toMatchObject({ code: 2 });
    expect(await json(`gates shadow delete ${gate}`)).toMatchObject([{ deleted: true }]);
    const file = join(folder.path, 'patch.yaml');
    writeFileSync(file, 'trust_level: L3\n');
    await json(`gates shadow put ${gate} --file ${file}`);
    expect(await run(`gates promote ${gate}`)).toMatchObject({ code: 2 });
    expect(await json(`gates promote ${gate} --yes`)).toMatchObject([{ trust_level: 'L3' }]);
  });

  it('approves ahead, lists what is left, and ends it', async () => {
    const { key: own } = await api.createAccount();
    const as = { env: { ...env, AGENT_TRUST_API_KEY: own } };
    const { gate_id: gate } = await api.createGate({ constraints: askingRules }, own);
    const { passport_id: passport } = await api.issuePassport({}, own);
    const end = new Date(api.deps.clock.now() + dayMs).toISOString();
    const about = `--gate ${gate} --passport ${passport} --permission orders:create --expires-at ${end}`;
    const create = `approvals standing create ${about} --each 2.5 --total 10`;
    const [made] = await json(create, as);
    expect(made).toMatchObject({ status: 'active', each_usd: 2.5, total_usd: 10, left_usd: 10 });
    const id = made.standing_approval_id;
    const listed = await run(`approvals standing list --status active --gate ${gate}`, as);
    expect(listed.stdout).toContain(id);
    expect(await json(`approvals standing list --passport ${passport} --status revoked`, as)).toEqual([]);
    expect(await run(`approvals standing end ${id}`, as)).toMatchObject({ code: 2 });
    expect(await json(`approvals standing end ${id} --yes`, as)).toMatchObject([{ status: 'revoked' }]);
    expect(await json(`approvals standing get ${id}`, as)).toMatchObject([{ ended_by: expect.any(String) }]);
    const ofTeam = create.replace(`--passport ${passport}`, '--owner buyers');
    const [owned] = await json(ofTeam, as);
    expect(owned).toMatchObject({ owner: 'buyers', passport_id: null });
    const ofBuyers = await run('approvals standing list --owner buyers', as);
    expect(ofBuyers.stdout).toContain('owner buyers');
    expect((await run(create.replace('--each 2.5', '--each much'), as)).code).toBe(2);
  });

  it('makes a tree of wallets, puts a passport into it, and freezes it', async () => {
    const [root] = await json(
      'wallets create --name Company --limit monthly_usd=1000 --limit requests_per_day=50',
    );
    expect(root).toMatchObject({ limits: { monthly_usd: 1000, requests_per_day: 50 }, share: 'pot' });
    const parent = root.wallet_id;
    const [team] = await json(
      `wallets create --name Team --parent ${parent} --share reserved --limit monthly_usd=10`,
    );
    expect((await json(`wallets list --parent ${parent}`)).map(({ wallet_id: id }) => id)).toEqual([
      team.wallet_id,
    ]);
    expect((await run('wallets list')).stdout).toContain('monthly_usd=1000');
    const passport = await api.issuePassport({}, key);
    expect(await json(`wallets assign ${passport.passport_id} ${team.wallet_id}`)).toMatchObject([
      { wallet_id: team.wallet_id },
    ]);
    expect(await json(`wallets freeze ${parent} --yes`)).toMatchObject([{ status: 'frozen' }]);
    expect(await json(`wallets unfreeze ${parent} --yes`)).toMatchObject([{ status: 'active' }]);
    expect(await json(`wallets update ${parent} --limit requests_per_day=none`)).toMatchObject([
      { limits: { monthly_usd: 1000 } },
    ]);
    expect(await json(`wallets get ${parent}`)).toMatchObject([
      { usage: { monthly_usd: { reserved: 10, remaining: 990 } } },
    ]);
    const statement = `wallets statement ${parent} --since 2026-11-01T00:00:00Z --until 2026-11-02T00:00:00Z`;
    expect(await json(statement)).toMatchObject([{ total_usd: 0, items: [] }]);
    expect((await run(`wallets delete ${team.wallet_id} --yes`)).code).not.toBe(0);
    await json(`wallets assign ${passport.passport_id} none`);
    expect(await json(`wallets delete ${team.wallet_id} --yes`)).toMatchObject([{ deleted: true }]);
    await json(`passports revoke ${passport.passport_id} --yes`);
    expect((await run('wallets create --name x --limit daily_usd=much')).code).toBe(2);
    expect(await json(`wallets update ${parent} --alert-at 0.25`)).toMatchObject([{ alert_at: 0.25 }]);
    expect((await run(`wallets update ${parent} --alert-at 1.1`)).code).toBe(2);
    expect(await run(`wallets update ${parent} --alert-at 1 --if-match "old"`)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('precondition_failed'),
    });
  });

  it('creates, shows, changes and deletes a gate', async () => {
    const file = join(folder.path, 'gate.yaml');
    writeFileSync(file, 'trust_level: L1\nconstraints:\n  spend_limits:\n    daily_usd: 50\n');
    const [made] = await json(`gates create --name Orders --file ${file}`);
    expect(made).toMatchObject({ name: 'Orders', trust_level: 'L1' });
    expect(made.constraints.spend_limits.daily_usd).toBe(50);
    const id = made.gate_id;
    const shown = await run(`gates get ${id}`);
    expect(shown.stdout).toMatch(/^name: Orders$/m);
    expect(shown.stdout).toMatch(/^ {4}daily_usd: 50$/m);
    const [patched] = await json(`gates update ${id} --file -`, {
      stdin: '{"constraints":{"spend_limits":null}}',
    });
    expect(patched.constraints).toEqual({});
    await json(`gates publish ${id} --file -`, { stdin: 'permissions: [{ key: "orders:create" }]' });
    expect((await json(`gates catalog ${id}`))[0]).toMatchObject({ version: 1 });
    expectRefused(await run(`gates delete ${id}`), /--yes/);
    expectRefused(await run(`gates delete ${id}`, { typed: ['n'] }), /Nothing was changed/, 1);
    expect(await json(`gates delete ${id} --yes`)).toMatchObject([{ deleted: true }]);
    const gone = await run(`gates get ${id}`);
    expect(gone.code).toBe(1);
    expect(gone.stderr).toMatch(/^gate_not_found: .* \[req_/);
    expect(gone.stdout).toBe('');
  });

  it('goes through a list page by page, and says where it goes on', async () => {
    const own = { env: { ...env, AGENT_TRUST_API_KEY: (await api.createAccount()).key } };
    for (let n = 0; n < 5; n++) await json(`gates create --name g${n} --trust-level L1`, own);
    const first = await run('gates list --limit 2', own);
    expect(first.stdout.split('\n')).toHaveLength(4);
    expect(first.stdout).toMatch(/^GATE +NAME +LEVEL/);
    const [, cursor = ''] = /--cursor (\S+)/.exec(first.stderr) ?? [];
    const rest = await json(`gates list --limit 100 --cursor ${cursor}`, own);
    expect(rest.map(({ name }) => name)).toEqual(['g2', 'g1', 'g0']);
    expect(await json('gates list --all', own)).toHaveLength(5);
    expect(await run('gates list --limit 0', own)).toMatchObject({ code: 2 });
    expect(await run('gates list --cursor nonsense', own)).toMatchObject({ code: 1 });
  });

  it('issues, suspends and revokes a passport; its token goes into a file for its owner alone', async () => {
    const file = join(folder.path, 'buyer.jwt');
    const issue = `passports issue --agent buyer --permission orders:create orders:read --token-file ${file}`;
    const ran = sure(await run(issue));
    const token = readFileSync(file, 'utf8').trim();
    expect(token).toMatch(/^eyJ/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(ran.stdout).not.toContain(token);
    const [, id] = /^passport_id: (\S+)$/m.exec(ran.stdout) ?? [];
    // A second one would lose the first.
    expectRefused(await run(issue), /exists/);
    expect(await json(`passports suspend ${id}`)).toMatchObject([{ status: 'suspended' }]);
    expect(await json(`passports verify ${id}`)).toMatchObject([{ valid: false, reason: 'suspended' }]);
    expect(await json(`passports reactivate ${id}`)).toMatchObject([{ status: 'active' }]);
    expect(await json('passports list --status active')).toMatchObject([{ agent_id: 'buyer' }]);
    const revoked = await run(`passports revoke ${id} --reason leaked`, { typed: ['yes'] });
    expect(revoked.stdout).toMatch(/^status: revoked$/m);
  });

  it('leaves no file behind where nothing was issued', async () => {
    const file = join(folder.path, 'none.jwt');
    expect((await run(`passports issue --agent x --permission nonsense --token-file ${file}`)).code).toBe(1);
    expect(() => statSync(file)).toThrow();
  });

  it('works with issuers, templates, keys and webhooks', async () => {
    const [issuer] = await json('issuers create --name Acme --domain acme.example');
    expect(await json(`issuers suspend ${issuer.issuer_id}`)).toMatchObject([{ status: 'suspended' }]);
    expect(await json(`issuers reactivate ${issuer.issuer_id}`)).toMatchObject([{ status: 'active' }]);
    expect((await json('issuers list')).map(({ name }) => name)).toContain('Acme');
    expect(await json('templates create --file -', { stdin: 'name: Base' })).toMatchObject([
      { name: 'Base' },
    ]);
    expect((await run('templates list')).stdout).toMatch(/payments-low-risk/);

    const keyFile = join(folder.path, 'new.key');
    const [made] = await json(`keys create --name reader --scope gates:read --key-file ${keyFile}`);
    expect(made).not.toHaveProperty('key');
    expect(readFileSync(keyFile, 'utf8')).toMatch(/^at_live_\S+\n$/);
    const [rolled] = await json(`keys roll ${made.key_id} --overlap 60 --yes`);
    expect(rolled.key).toMatch(/^at_live_/);
    expect(await json(`keys delete ${rolled.key_id} --yes`)).toMatchObject([{ deleted: true }]);
    expect(await run('keys create --name x --scope gates:reed')).toMatchObject({ code: 2 });

    const secretFile = join(folder.path, 'hook.secret');
    const at = 'https://shop.example/hook';
    const [hook] = await json(
      `webhooks create --url ${at} --events gate.created --secret-file ${secretFile}`,
    );
    expect(readFileSync(secretFile, 'utf8')).toMatch(/^whsec_/);
    expect(await json(`webhooks update ${hook.webhook_id} --status disabled`)).toMatchObject([
      { status: 'disabled' },
    ]);
    expect((await json(`webhooks roll-secret ${hook.webhook_id} --yes`))[0].secret).toMatch(/^whsec_/);
    expect(await json(`webhooks deliveries ${hook.webhook_id}`)).toEqual([]);
    expect(await json(`webhooks delete ${hook.webhook_id} --yes`)).toMatchObject([{ deleted: true }]);

    const audited = await json('audit list --operation deleteWebhook');
    expect(audited).toMatchObject([{ target: hook.webhook_id }]);
    expect((await run('audit export')).stdout).toMatch(/^\{"manifest":/);
    expect((await run('attestations export')).stdout).toMatch(/^\{"manifest":/);
  });

  it('shows no control characters of strangers', async () => {
    const [made] = await json('issuers create --file -', {
      stdin: '{"name":"x","metadata":{"a":"\\u001b[2J\\u202e"}}',
    });
    const { stdout } = await run(`issuers get ${made.issuer_id}`);
    for (const char of ['\u001b', '\u202e']) expect(stdout).not.toContain(char);
    expect(stdout).toContain('[2J');
  });

  it('colours on a terminal alone, and never with NO_COLOR', async () => {
    expect((await run('gates list', { isTerminal: true })).stdout).toContain('\u001b[1mGATE');
    const plain = { ...env, NO_COLOR: '1' };
    expect((await run('gates list', { isTerminal: true, env: plain })).stdout).not.toContain('\u001b');
    expect((await run('gates list')).stdout).not.toContain('\u001b');
  });

  it('says where a service is not reached, or is another', async () => {
    const away = { env: { ...env, AGENT_TRUST_URL: 'http://127.0.0.1:1' } };
    expectRefused(await run('gates list', away), /cannot be reached/, 1);
    expect(await run('gates list', { env: { ...env, AGENT_TRUST_URL: 'ftp://x' } })).toMatchObject({
      code: 2,
    });
  });
});

describe('login', () => {
  const config = (name: string) => join(folder.path, name, 'agent-trust', 'config.json');
  const home = (name: string) => ({ env: { XDG_CONFIG_HOME: join(folder.path, name) } });

  it('stores a service with its key, for its owner alone, and shows the key no more', async () => {
    const own = home('one');
    const ran = sure(await run(`login --url ${url} --json`, { ...own, stdin: `${key}\n` }));
    expect(JSON.parse(ran.stdout)).toMatchObject({
      ...{ profile: 'default', url, mode: 'live', scopes: ['admin:*'] },
    });
    expect(statSync(config('one')).mode & 0o777).toBe(0o600);
    expect(statSync(join(folder.path, 'one', 'agent-trust')).mode & 0o777).toBe(0o700);
    expect(await json('issuers list', own)).toBeInstanceOf(Array);
    const listed = await run('profiles list', own);
    expect(listed.stdout).toContain(url);
    expect(`${ran.stdout}${ran.stderr}${listed.stdout}`).not.toContain(key);
  });

  it('tells profiles apart, and never sends the key of one to the service of another', async () => {
    const own = home('two');
    const { key: other } = await api.createKey({ name: 'reader', scopes: ['gates:read'] }, key);
    const file = join(folder.path, 'other.key');
    writeFileSync(file, other);
    expect((await run(`login --url ${url} --profile prod`, { ...own, typed: [key] })).code).toBe(0);
    const reader = await run(`login --url ${url} --profile reader --key-file ${file} --json`, own);
    expect(JSON.parse(reader.stdout)).toMatchObject({ scopes: ['gates:read'] });
    expect((await run('profiles list', own)).stdout).toMatch(/^reader .* gates:read/m);
    expect((await run('issuers list', own)).stderr).toMatch(/^insufficient_scope/);
    expect((await run('issuers list --profile prod', own)).code).toBe(0);
    expect((await run('profiles use prod', own)).code).toBe(0);
    expect((await run('issuers list', own)).code).toBe(0);
    const named = { env: { ...own.env, AGENT_TRUST_PROFILE: 'reader' } };
    expect((await run('issuers list', named)).code).toBe(1);
    // The environment is closer than the profile in use; its address brings no key of a profile with it.
    const elsewhere = { env: { ...own.env, AGENT_TRUST_URL: 'http://127.0.0.1:1', DATA_DIR: folder.path } };
    expectRefused(await run('issuers list', elsewhere), /no API key/);
    expect((await run('logout prod', own)).code).toBe(0);
    expect(await run('issuers list --profile prod', own)).toMatchObject({ code: 2 });
    expect(readFileSync(config('two'), 'utf8')).not.toContain(key);
  });

  it('refuses a key that the service does not know, and stores nothing', async () => {
    const own = home('three');
    const { key: deleted, keyId } = await api.createKey({ name: 'x', scopes: ['gates:read'] }, key);
    await json(`keys delete ${keyId} --yes`);
    expectRefused(await run(`login --url ${url}`, { ...own, stdin: deleted }), /does not know this key/, 1);
    expect((await run(`login --url ${url}`, { ...own, stdin: 'nonsense' })).code).toBe(2);
    expect((await run(`login --url ${url} --profile ../x`, { ...own, stdin: key })).code).toBe(2);
    expect(() => statSync(config('three'))).toThrow();
  });

  it.each([
    ['the file', 0o700, 0o640],
    ['the folder', 0o750, 0o600],
  ])('refuses profiles that others can reach, by %s', async (_what, folderMode, fileMode) => {
    const own = home(`wide-${fileMode}`);
    const place = join(folder.path, `wide-${fileMode}`, 'agent-trust');
    mkdirSync(place, { recursive: true, mode: folderMode });
    writeFileSync(join(place, 'config.json'), '{"current":null,"profiles":{}}', { mode: fileMode });
    chmodSync(place, folderMode);
    chmodSync(join(place, 'config.json'), fileMode);
    const ran = await run('gates list', own);
    expectRefused(ran, /open to other users .* chmod/);
    expect((await run(`login --url ${url}`, { ...own, stdin: key })).code).toBe(2);
  });
});
