import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyAttestations } from '../../clients/node/src/verify.ts';
import { LogWriter } from '../../control-plane/log/keep-log.ts';
import { hourMs, minuteMs } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { type Ran, runCommand } from '../support/programs/command.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import {
  type PackStory,
  playPackStory,
  unpackFile,
  unpackStored,
  verifyFolder,
  writeFiles,
} from '../support/service/evidence-pack.ts';
import { logLines, policyOf, type TestWitness, testWitness } from '../support/service/witnesses.ts';

let api: Api;
let witness: TestWitness;
let writer: LogWriter;
let story: PackStory;
let until: string;
let env: Readonly<Record<string, string>>;
const folder = temporaryFolder();

beforeAll(async () => {
  api = await startOwnApi({ origin: 'http://localhost:8080' });
  goToNoon(api);
  const address = await api.app.listen({ port: 0, host: '127.0.0.1' });
  env = { AGENT_TRUST_URL: address, AGENT_TRUST_API_KEY: api.adminKey };
  witness = await testWitness('w1', logLines(api));
  // The witness and those who verify go by the clock of this machine, which is not at noon.
  const ofLog = { ...api.deps, clock: systemClock, witnesses: policyOf([witness], 1) };
  writer = new LogWriter(ofLog, async () => undefined);
  // Times before the period belong to another pack.
  await playPackStory(api);
  api.advance(minuteMs);
  story = await playPackStory(api);
  // Later than the last record, also where that is of the same millisecond.
  api.advance(1);
  until = now();
  await writer.round(() => false);
  api.advance(5 * minuteMs);
});
afterAll(async () => {
  await witness?.remove();
  await api?.close();
  folder.remove();
});

const now = () => new Date(api.deps.clock.now()).toISOString();
const path = (name: string) => join(folder.path, name);
const file = (name: string, text: string): string => {
  writeFileSync(path(name), text);
  return path(name);
};
const pack = (name: string, more: readonly string[] = [], period: Partial<PackStory> = {}): Promise<Ran> => {
  const { since } = { ...story, ...period };
  const args = ['--since', since, '--until', until, ...more];
  return runCommand(['evidence', 'pack', path(name), ...args, '--json'], { env });
};
const rules = () =>
  file(
    'log.policy',
    `${logLines(api)}witness w1 ${witness.vkey} ${witness.origin}\ngroup enough 1 w1\nquorum enough\n`,
  );

describe('evidence pack', () => {
  let files: Map<string, Buffer>;
  let unpacked: string;
  beforeAll(async () => {
    const made = await pack('first.zip', ['--gate', story.gate, '--log-policy', rules()]);
    expect(made, made.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(made.stdout)).toMatchObject({ verifies: true, unproven: 0, permitted: 6, refused: 3 });
    files = unpackStored(readFileSync(path('first.zip')));
    unpacked = writeFiles(path('first'), files);
  });
  const page = () => String(files.get('evidence/index.html'));
  const records = () => String(files.get('evidence/records.jsonl'));

  it('holds, by what is in it and by keys and a policy of one’s own', async () => {
    const jwks = (await api.call({ url: '/.well-known/jwks.json', key: null })).body;
    const own = { jwks: file('own.json', JSON.stringify(jwks)), logPolicy: rules() };
    const { code, said } = await verifyFolder(unpacked, own);
    expect([code, said]).toEqual([0, expect.stringContaining('index.html says what these files say')]);
    expect(said).toContain('cosigned by w1');
    expect(said).toContain('accepts the checkpoint, cosigned by w1');
    expect(await verifyAttestations(records(), jwks)).toMatchObject({ valid: true });
    const strangers = { keys: jwks.keys.filter(({ purpose }: { purpose: string }) => purpose === 'log') };
    const stranger = await verifyFolder(unpacked, { jwks: file('stranger.json', JSON.stringify(strangers)) });
    expect([stranger.code, stranger.said]).toEqual([5, expect.stringContaining('does not have the key')]);
  });

  it('has the chains that came to the gate, and no other', () => {
    const chains = [...records().matchAll(/^\{"chain":\{"chain_id":"([^"]+)"/gm)].map(([, id]) => id);
    expect(chains).toEqual([story.gate, story.passport]);
    expect([...records().matchAll(/"log_proof":/g)]).toHaveLength(2);
    expect(records()).not.toContain('"log_proof":null');
  });

  it('adds up money by the last record of each PERMIT, and decisions as the service counts them', async () => {
    // 12.50; 10 less 4 refunded; held 8 settled for 5; held 7 failed; held 3; approved 30.
    expect(page()).toContain('$53.50 spent, $3.00 still held at the end of the period, $4.00 refunded');
    const { gate } = story;
    const span = `from=${story.since}&to=${until}&step=minute&gate_id=${gate}`;
    const { body } = await api.call({ url: `/v1/statistics/decisions?${span}` });
    interface Count {
      readonly decision: string;
      readonly count: number;
    }
    const counts: Count[] = body.buckets.flatMap(({ counts: each }: { counts: Count[] }) => each);
    const of = (decision: string) =>
      counts.filter((each) => each.decision === decision).reduce((sum, { count }) => sum + count, 0);
    expect([of('PERMIT'), of('BLOCK'), of('SUSPEND')]).toEqual([6, 3, 0]);
    expect(page()).toContain('6 requests permitted');
    expect(page()).toContain('3 requests refused');
    expect(page()).toContain('2 requests put before a person and ended: 1 approved, 1 denied');
  });

  it('says which rule was in force, who approved with what, and what was not verified', () => {
    expect(page()).toContain('One request may spend at most $50.00.');
    expect(page()).toContain('A person must approve requests for more than $20.00, within 1 h.');
    expect(page()).toMatch(new RegExp(`${story.approver.userId} approved at .*, signed with a passkey`));
    expect(page()).toMatch(new RegExp(`${story.approver.userId} denied at .*, signed with a passkey`));
    // It is on record once it has ended.
    expect(page()).not.toContain(story.approvals.open);
    expect(page()).toContain('The amount exceeds a spend limit.');
    expect(page()).toContain('which these witnesses cosigned after they saw that the log only grew: w1');
    expect(page()).not.toContain('No witness: ');
  });

  it('is the same, byte for byte, whatever happens later, by the checkpoint that it names', async () => {
    const again = ['--gate', story.gate, '--log-policy', rules(), '--checkpoint'];
    await api.call({ url: `/v1/passports/${story.passport}/suspend`, body: {} });
    await api.call({ url: `/v1/passports/${story.passport}/reactivate`, body: {} });
    await api.call({ url: `/v1/approvals/${story.approvals.open}/deny`, body: {} });
    await story.decide(1);
    await writer.round(() => false);
    api.advance(hourMs);
    const checkpoint = file('checkpoint', String(files.get('evidence/checkpoint')));
    const second = await pack('second.zip', [...again, checkpoint]);
    expect(second, second.stderr).toMatchObject({ code: 0 });
    expect(readFileSync(path('second.zip')).equals(readFileSync(path('first.zip')))).toBe(true);
    // By the newest checkpoint: other proofs of the same records.
    const third = await pack('third.zip', again.slice(0, -1));
    expect(third, third.stderr).toMatchObject({ code: 0 });
    const other = unpackStored(readFileSync(path('third.zip')));
    const differing = [...files].filter(([name, content]) => other.get(name)?.equals(content) !== true);
    expect(differing.map(([name]) => name)).toEqual([
      'evidence/checkpoint',
      'evidence/index.html',
      'evidence/records.jsonl',
    ]);
    const withoutProofs = (text: string) => text.replaceAll(/"log_proof":"[^"]*",/g, '');
    expect(withoutProofs(String(other.get('evidence/records.jsonl')))).toBe(withoutProofs(records()));
  });

  it.each([
    [
      'a record',
      'records.jsonl',
      '"amount_micro_usd":51000000',
      '"amount_micro_usd":11000000',
      'records.jsonl, line',
    ],
    ['the page', 'index.html', '$53.50 spent', '$13.50 spent', 'is not the page that these files make'],
    ['a cosignature', 'checkpoint', 'w1.example ', 'w1.example A', 'a proof of the log'],
    ['the period', 'pack.json', '"passport_id":null', '"passport_id":"pass_0"', 'is not the page'],
  ])('shows that %s was changed', async (_what, name, from, to, said) => {
    const changed = new Map(files);
    const text = String(files.get(`evidence/${name}`));
    expect(text).toContain(from);
    changed.set(`evidence/${name}`, Buffer.from(text.replace(from, to)));
    const found = await verifyFolder(writeFiles(path(`changed-${name}`), changed));
    expect([found.code, found.said]).toEqual([5, expect.stringContaining(said)]);
  });

  it('is about a passport, at all gates, without witnesses', async () => {
    const made = await pack('passport.zip', ['--passport', story.passport]);
    expect(made, made.stderr).toMatchObject({ code: 0 });
    const found = unpackFile(path('passport.zip'), path('passport'));
    const text = readFileSync(join(found, 'index.html'), 'utf8');
    expect(text).toContain(`<td>${story.otherGate}</td>`);
    expect(text).toContain('No witness: ');
    expect((await verifyFolder(found)).code).toBe(0);
  });

  it('says so where the log does not have the end of the period yet', async () => {
    const { attestation_id: id } = await story.decide(1);
    const { body } = await api.call({ url: `/v1/attestations/${id}` });
    const since = body.timestamp;
    api.advance(minuteMs);
    const args = ['--since', since, '--until', now(), '--gate', story.gate, '--json'];
    const made = await runCommand(['evidence', 'pack', path('early.zip'), ...args], { env });
    expect(made, made.stderr).toMatchObject({ code: 0 });
    expect(JSON.parse(made.stdout)).toMatchObject({ unproven: 1, permitted: 1 });
    expect(made.stderr).toContain('in no checkpoint of the log yet');
    expect(made.stderr).toContain('has only just ended');
    const found = await verifyFolder(unpackFile(path('early.zip'), path('early')));
    expect([found.code, found.said]).toEqual([
      0,
      expect.stringContaining('1 records of the period are covered'),
    ]);
  });

  it('refuses what it cannot pack, and leaves nothing behind', async () => {
    const before = readdirSync(folder.path);
    const { since, gate } = story;
    const nowhere = 'gate_01m7w73bk9f1gv8q5vw2f2k1qm';
    const ahead = new Date(api.deps.clock.now() + hourMs).toISOString();
    const cases: readonly (readonly [string, number, string, Record<string, string>?])[] = [
      [`--since ${until} --until ${since}`, 2, '--since must lie before --until'],
      [`--since yesterday --until ${until}`, 2, '--since must be a time'],
      [`--since ${since} --until ${ahead}`, 2, '--until lies ahead'],
      [`--since ${since} --until ${until} --gate ${nowhere}`, 1, `There is no gate ${nowhere}`],
      [
        `--since 2020-01-01T00:00:00Z --until 2020-01-02T00:00:00Z --gate ${gate}`,
        1,
        'No record of this account',
      ],
      [`--since ${since} --until ${until} --log-policy ${path('checkpoint')}`, 2, 'cannot be used'],
      [`--since ${since} --until ${until} --checkpoint ${path('log.policy')}`, 2, 'is no checkpoint'],
      [`--since ${since} --until ${until} --checkpoint ${path('absent')}`, 2, 'cannot be read'],
      [
        `--since ${since} --until ${until}`,
        1,
        'cannot be reached',
        { AGENT_TRUST_URL: 'http://127.0.0.1:1' },
      ],
    ];
    for (const [line, code, said, other = {}] of cases) {
      const args = ['evidence', 'pack', path('none.zip'), ...line.split(' ')];
      const ran = await runCommand(args, { env: { ...env, ...other } });
      expect(ran, line).toMatchObject({ code, stderr: expect.stringContaining(said) });
    }
    expect(await pack('first.zip')).toMatchObject({ code: 2, stderr: expect.stringContaining('exists') });
    expect(await pack('no/folder.zip')).toMatchObject({ code: 2, stderr: expect.stringContaining('ENOENT') });
    const stopped = new AbortController();
    stopped.abort();
    const args = ['evidence', 'pack', path('none.zip'), '--since', since, '--until', until];
    const ran = await runCommand(args, { env, signal: stopped.signal });
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('Stopped') });
    expect(readdirSync(folder.path)).toEqual(before);
  });
});
