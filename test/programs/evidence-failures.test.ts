import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  createWriteStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { CommandError } from '../../cli/base/call-api.ts';
import type { CommandHost } from '../../cli/base/host.ts';
import { workWithApi } from '../../cli/base/work.ts';
import { writeStream } from '../../cli/base/write-stream.ts';
import { packEvidence } from '../../cli/evidence/pack-evidence.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { type BetweenService, betweenService, type Spoil } from '../support/peers/between-service.ts';
import { type Ran, runCommand } from '../support/programs/command.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { unpackFile, verifyFolder } from '../support/service/evidence-pack.ts';

let api: Api;
let between: BetweenService;
let period: readonly string[];
const folder = temporaryFolder();
const exportPath = '/v1/attestations/export';

beforeAll(async () => {
  api = await startOwnApi({ origin: 'http://localhost:8080' });
  between = await betweenService(await api.app.listen({ port: 0, host: '127.0.0.1' }));
  const since = now();
  const { gate_id: gate } = await api.createGate({});
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  for (let amount = 1; amount <= 40; amount++)
    await api.call({
      url: `/v1/gates/${gate}/check`,
      body: { passport: jwt, request: { permission_key: 'orders:create', amount } },
    });
  api.advance(minuteMs);
  period = ['--since', since, '--until', now()];
  api.advance(5 * minuteMs);
});
beforeEach(() => between.spoil(null));
afterAll(async () => {
  await between?.close();
  await api?.close();
  folder.remove();
});

const now = () => new Date(api.deps.clock.now()).toISOString();
const path = (name: string) => join(folder.path, name);
const run = (args: readonly string[]): Promise<Ran> =>
  runCommand(args, { env: { AGENT_TRUST_URL: between.origin, AGENT_TRUST_API_KEY: api.adminKey } });
const pack = (name: string) => run(['evidence', 'pack', path(name), ...period, '--json']);
const sink = () => Object.assign(new PassThrough().resume(), { isTTY: false });

/** Its error, or its exit code, with another standard output. */
function ranWith(
  output: CommandHost['output'],
  work: Parameters<typeof workWithApi>[2],
): Promise<string | number> {
  const host: CommandHost = {
    env: { AGENT_TRUST_URL: between.origin, AGENT_TRUST_API_KEY: api.adminKey },
    ...{ output, errors: sink(), stdin: Object.assign(new PassThrough(), { isTTY: false }) },
    setExitCode: () => undefined,
    stopSignal: () => new AbortController().signal,
    askDatabase: () => Promise.reject(new Error('no command of this file asks a database')),
    help: () => '',
  };
  return workWithApi(host, {}, work).catch((error: unknown) => {
    if (error instanceof CommandError) return error.message;
    throw error;
  });
}
const isOneLine = (text: string) => /^[^\n]+\n$/.test(text);

const half = (body: Buffer) => body.subarray(0, body.length / 2);
const mebibyte = Buffer.alloc(1024 * 1024, 'x');
/** As long as the other side takes it. */
function endlessly(answer: Parameters<Spoil>[0], piece: Buffer): void {
  const more = () => {
    while (!answer.destroyed && answer.write(piece));
  };
  answer.on('drain', more);
  more();
}
const wholeLines = (body: Buffer) => body.toString().trimEnd().split('\n');

const spoils: Readonly<Record<string, readonly [Spoil, string]>> = {
  'is cut off in the middle': [
    (answer, body) => answer.write(half(body), () => answer.destroy()),
    'The export broke off before its end: ',
  ],
  'ends in the middle, as if it were whole': [
    (answer, body) => answer.end(half(body)),
    'without its last line',
  ],
  'lacks its trailer': [
    (answer, body) => answer.end(`${wholeLines(body).slice(0, -1).join('\n')}\n`),
    'broke off before its end',
  ],
  'has a line of 100 MB': [
    (answer, body) => {
      answer.write(half(body));
      for (let left = 100; left > 0; left--) answer.write(mebibyte);
      answer.end(body.subarray(body.length / 2));
    },
    'is too long',
  ],
  'never ends, and has no line': [(answer) => endlessly(answer, mebibyte), 'is no export'],
  'goes on after its end': [
    (answer, body) => {
      answer.write(body);
      endlessly(answer, Buffer.from(`${wholeLines(body)[2]}\n`.repeat(100)));
    },
    'after its end',
  ],
  'is no export': [(answer) => answer.end('<html>\n'), 'no export'],
  'is empty': [(answer) => answer.end(), 'broke off before its end'],
  'is a 503': [
    (answer) =>
      answer
        .writeHead(503, { 'content-type': 'application/json', 'retry-after': '1' })
        .end('{"error":{"code":"service_unavailable","message":"The replica is behind."}}'),
    'service_unavailable: The replica is behind.',
  ],
};

describe('evidence pack, where the export', () => {
  it.each(Object.entries(spoils))('%s: says so, and leaves nothing', async (_name, [how, said]) => {
    between.spoil(exportPath, how);
    const before = readdirSync(folder.path);
    const ran = await pack('none.zip');
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining(said) });
    expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
    expect(readdirSync(folder.path)).toEqual(before);
  });
});

describe('evidence pack, where the service', () => {
  it.each<readonly [string, Spoil, string]>([
    [
      'breaks off in the middle of the JWKS',
      (answer, body) => {
        answer.writeHead(200, { 'content-length': String(body.length) });
        answer.write(half(body), () => answer.destroy());
      },
      'broke off',
    ],
    ['sends a JWKS without end', (answer) => endlessly(answer, mebibyte), 'is longer than'],
    ['sends a JWKS that is none', (answer) => answer.end('{"keys":{}}'), 'JWKS'],
  ])('%s: says so, and leaves nothing', async (_name, how, said) => {
    between.spoil('/.well-known/jwks.json', how);
    const before = readdirSync(folder.path);
    const ran = await pack('none.zip');
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining(said) });
    expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
    expect(readdirSync(folder.path)).toEqual(before);
  });

  it('falls silent in the middle of the export: gives up', async () => {
    between.spoil(exportPath, (answer, body) => answer.write(half(body)));
    const before = readdirSync(folder.path);
    const [, since = '', , until = ''] = period;
    const options = { out: path('none.zip'), since, until, silenceMsMax: 500 };
    expect(await ranWith(sink(), (work) => packEvidence(work, options))).toBe(
      'The export broke off before its end: nothing came for 0.5 s.',
    );
    expect(readdirSync(folder.path)).toEqual(before);
  });

  it('lies about a record: it is written, does not hold, and its page says so', async () => {
    const lines = (await api.call({ url: exportPath })).body as string;
    const [, signature = ''] = /"signature":"([^"]+)","signing_key_id":"[^"]+","source"/.exec(lines) ?? [];
    expect(signature).not.toBe('');
    const foreign = `${signature.startsWith('A') ? 'B' : 'A'}${signature.slice(1)}`;
    between.spoil(exportPath, (answer, body) => answer.end(body.toString().replace(signature, foreign)));
    const ran = await pack('lied.zip');
    expect(ran, ran.stderr).toMatchObject({ code: 5, stderr: expect.stringContaining('does not hold') });
    const found = await verifyFolder(unpackFile(path('lied.zip'), path('lied')));
    expect([found.code, found.said]).toEqual([5, expect.stringContaining('signature')]);
    expect(readFileSync(join(path('lied'), 'evidence', 'index.html'), 'utf8')).toContain('signature');
  });
});

describe('attestations export', () => {
  it('says so where its disk is full, and not where its reader is gone', async () => {
    const full = Object.assign(createWriteStream('/dev/full'), { isTTY: false });
    const exported = (output: CommandHost['output']) =>
      ranWith(output, ({ client, host }) =>
        writeStream((signal) => client.attestations.export({}, { signal }), { output: host.output }),
      );
    expect(await exported(full)).toMatch(/^Standard output cannot be written: ENOSPC/);
    const gone = sink();
    gone.destroy(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    expect(await exported(gone)).toBe(0);
  });

  it.each(['is cut off in the middle', 'is a 503'])('where the export %s: says so', async (name) => {
    const [how, said] = spoils[name] ?? [() => undefined, ''];
    between.spoil(exportPath, how);
    const ran = await run(['attestations', 'export']);
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining(said) });
    expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
  });

  it.each(['jsonl', 'json', 'dsse'])(
    'as %s that is cut politely, at a line or in one: says so',
    async (format) => {
      const cuts = [
        (body: Buffer) => `${wholeLines(body).slice(0, -1).join('\n')}\n`,
        (body: Buffer) => body.subarray(0, -1),
        () => '',
      ];
      for (const cut of cuts) {
        between.spoil(exportPath, (answer, body) => answer.end(cut(body)));
        const ran = await run(['attestations', 'export', '--format', format]);
        expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('without its last line') });
        expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
      }
      between.spoil(null);
      expect((await run(['attestations', 'export', '--format', format])).code).toBe(0);
      between.spoil('/v1/audit/export', (answer, body) => answer.end(cuts[0]?.(body)));
      expect((await run(['audit', 'export'])).code).toBe(1);
    },
  );
});

describe('evidence verify of a pack of others', () => {
  const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
  const files = ['index.html', 'pack.json', 'records.jsonl', 'jwks.json', 'checkpoint', 'log.policy'];
  const ways: Readonly<Record<string, (file: string) => void>> = {
    'a link to a device': (file) => symlinkSync('/dev/zero', file),
    'a FIFO': (file) => void execFileSync('mkfifo', [file]),
    'a folder': (file) => mkdirSync(file),
    'a link to a file': (file) => symlinkSync('/etc/hosts', file),
    nothing: () => undefined,
    empty: (file) => writeFileSync(file, ''),
    noise: (file) => writeFileSync(file, Buffer.from('\u0000\u001b[2J\u202e\nquorum x y z\nlog\n')),
    deep: (file) => writeFileSync(file, `${deep}\n`),
    'a deep member': (file) => writeFileSync(file, `{"keys":${deep},"manifest":${deep}}\n`),
    'an array': (file) => writeFileSync(file, '[null,1e999,{"keys":[{"kty":"OKP"}]}]\n'),
    long: (file) => writeFileSync(file, `${'quorum none '.repeat(500_000)}\n`),
  };
  let good: string;
  beforeAll(async () => {
    expect(await pack('good.zip')).toMatchObject({ code: 0 });
    good = unpackFile(path('good.zip'), path('good'));
    // They prove nothing, and are read.
    writeFileSync(join(good, 'checkpoint'), 'a checkpoint of no log\n');
    writeFileSync(join(good, 'log.policy'), 'quorum none\n');
    expect((await verifyFolder(good)).code).toBe(0);
  });

  it.each(Object.keys(ways))('in which a file is %s: ends with a sentence, at once', async (way) => {
    for (const file of files) {
      const folder = mkdtempSync(path('hostile-'));
      cpSync(good, folder, { recursive: true });
      rmSync(join(folder, file));
      ways[way]?.(join(folder, file));
      const began = performance.now();
      const { code, said } = await verifyFolder(folder);
      const what = `${file}: ${said}`;
      const isPlain = !/link|FIFO|folder/.test(way);
      expect(isPlain ? (file === 'checkpoint' ? [0, 2, 5] : [2, 5]) : [2], what).toContain(code);
      expect(said, what).toMatch(/^(?:(?:OK|NOT OK|Note): .+\.\n)*(?:.+\. Nothing was verified\.\n)?$/);
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal must not get
      expect(said.replaceAll('\n', ''), what).not.toMatch(/[\u0000-\u001f\u202e]/);
      expect(performance.now() - began, what).toBeLessThan(5_000);
      const keys = file === 'jwks.json' ? await verifyFolder(good, { jwks: join(folder, file) }) : null;
      const rules =
        file === 'log.policy' ? await verifyFolder(good, { logPolicy: join(folder, file) }) : null;
      if (way !== 'a link to a file')
        for (const own of [keys, rules]) expect([2, 5, undefined]).toContain(own?.code);
      rmSync(folder, { recursive: true });
    }
  });

  it('by its program for Python, too', () => {
    for (const way of ['a link to a device', 'a FIFO', 'deep', 'noise']) {
      for (const file of ['records.jsonl', 'jwks.json']) {
        const folder = mkdtempSync(path('python-'));
        cpSync(good, folder, { recursive: true });
        rmSync(join(folder, file));
        ways[way]?.(join(folder, file));
        const { status, stderr } = spawnSync('python3', [join(folder, 'verify.py')], {
          encoding: 'utf8',
          timeout: 20_000,
        });
        expect([2, 5], `${way} ${file}: ${stderr}`).toContain(status);
        expect(stderr).not.toContain('Traceback');
        rmSync(folder, { recursive: true });
      }
    }
  });
});

describe('other commands that read files of others', () => {
  it.each([
    ['attestations', 'verify', 'FIFO', '--jwks', 'JWKS'],
    ['attestations', 'verify', '/dev/zero', '--jwks', 'JWKS'],
    ['attestations', 'verify', 'RECORDS', '--jwks', 'FIFO'],
    ['attestations', 'verify', 'RECORDS', '--jwks', '/dev/zero'],
    ['attestations', 'verify', 'RECORDS', '--jwks', 'JWKS', '--log-policy', 'FIFO'],
    ['attestations', 'verify', 'RECORDS', '--jwks', 'JWKS', '--log-policy', 'POLICY', '--proof', '/dev/zero'],
    ['attestations', 'replay', 'FIFO', '--jwks', 'JWKS'],
    ['evidence', 'receipt', 'FIFO', '--jwks', 'JWKS'],
    ['evidence', 'receipt', 'DEEP', '--jwks', 'JWKS'],
    ['evidence', 'convict', 'FIFO', 'RECORDS', '--jwks', 'JWKS'],
    ['apply', '-f', 'FIFO', '--plan'],
    ['apply', '-f', '/dev/zero', '--plan'],
    ['gates', 'create', '-f', 'FIFO'],
    ['login', '--key-file', 'FIFO'],
  ])('end at once where one is no plain file, or has no form: %s %s %s %s %s', async (...args) => {
    const good = path('good/evidence');
    const fifo = path('a-fifo');
    if (!existsSync(fifo)) execFileSync('mkfifo', [fifo]);
    writeFileSync(path('deep'), `${'['.repeat(100_000)}${']'.repeat(100_000)}`);
    const named: Readonly<Record<string, string>> = {
      ...{ FIFO: fifo, DEEP: path('deep'), JWKS: join(good, 'jwks.json') },
      ...{ RECORDS: join(good, 'records.jsonl'), POLICY: join(good, 'log.policy') },
    };
    const ran = await run(args.filter((arg) => arg !== undefined).map((arg) => named[arg] ?? arg));
    expect(ran.code, ran.stderr).toBe(2);
    expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
  });
});

it('writes one of two equal packs into one file, and tells the other', async () => {
  const both = await Promise.all([pack('twice.zip'), pack('twice.zip')]);
  expect(both.map(({ code }) => code).sort()).toEqual([0, 2]);
  expect(both.map(({ stderr }) => stderr).join('')).toContain('exists');
  expect(readdirSync(folder.path).filter((name) => name.startsWith('twice.zip'))).toEqual(['twice.zip']);
});

/** Root in a container may not be allowed to mount: then the test fails, and says why. */
describe('evidence pack, onto a disk that fills up', () => {
  it.each([
    ['while it reads the export', '24k'],
    ['while it writes the zip', '192k'],
  ])('%s: says so, and leaves what was there', async (_when, size) => {
    const disk = mkdtempSync(path('disk-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${size},mode=0700`, 'tmpfs', disk]);
    try {
      writeFileSync(join(disk, 'old.zip'), 'older');
      const ran = await run(['evidence', 'pack', join(disk, 'new.zip'), ...period]);
      expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('no space left on device') });
      expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
      expect(readdirSync(disk)).toEqual(['old.zip']);
      expect(readFileSync(join(disk, 'old.zip'), 'utf8')).toBe('older');
    } finally {
      execFileSync('umount', [disk]);
    }
  });
});

it('says so where its folder goes away while it reads', async () => {
  const parent = mkdtempSync(path('gone-'));
  between.spoil(exportPath, (answer, body) => {
    rmSync(parent, { recursive: true });
    answer.end(body);
  });
  const ran = await run(['evidence', 'pack', join(parent, 'new.zip'), ...period]);
  expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining('cannot be written: ENOENT') });
  expect(isOneLine(ran.stderr), ran.stderr).toBe(true);
});
