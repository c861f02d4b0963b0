import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { commandKeySource, masterKeysOf } from '../../control-plane/master-key/key-sources.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const key = Buffer.alloc(32, 0xfb);
const other = randomBytes(32);

let folder: ReturnType<typeof temporaryFolder>;
beforeEach(() => {
  folder = temporaryFolder();
});
afterEach(() => {
  folder.remove();
});

const hex = (each: Uint8Array): string => Buffer.from(each).toString('hex');
const node = (script: string, ...args: string[]): [string, ...string[]] => [
  process.execPath,
  '-e',
  script,
  '--',
  ...args,
];
const read = (command: [string, ...string[]], keysMax = 1) =>
  commandKeySource('MASTER_KEY_COMMAND', command, { keysMax }).read();
const print = (text: string) => node('process.stdout.write(process.argv[1])', text);

describe('a key from a command', () => {
  it.each([
    ['base64url', key.toString('base64url')],
    ['base64url and a line break', `${key.toString('base64url')}\n`],
    ['base64, as a KMS prints bytes', `${key.toString('base64')}\r\n`],
  ])('is read from its standard output: %s', async (_form, text) => {
    expect((await read(print(text))).map(hex)).toEqual([hex(key)]);
  });

  it('reads several, one a line, where several are meant', async () => {
    const lines = `${key.toString('base64url')}\n\n${other.toString('base64url')}\n`;
    expect((await read(print(lines), 4)).map(hex)).toEqual([key, other].map(hex));
    await expect(read(print(lines))).rejects.toThrow('must print one key of 32 bytes');
  });

  it('takes the place of a file, and fallbacks theirs', async () => {
    const file = { read: () => Promise.reject(new Error('not to be read')) };
    const text = `${other.toString('base64url')}\n${key.toString('base64url')}`;
    const settings = {
      MASTER_KEY: null,
      MASTER_KEY_COMMAND: print(key.toString('base64')),
      MASTER_KEY_FALLBACKS: null,
      MASTER_KEY_FALLBACKS_COMMAND: print(text),
    };
    const { own, fallbacks } = await masterKeysOf(settings, file);
    expect([own, ...fallbacks].map(hex)).toEqual([key, other].map(hex));
  });

  it('runs without a shell', async () => {
    const touched = join(folder.path, 'touched');
    const command = print(`$(touch ${touched}); touch ${touched}`);
    await expect(read(command)).rejects.toThrow(StartError);
    expect(existsSync(touched)).toBe(false);
  });

  it.each([
    ['nothing', print(''), 'must print one key'],
    ['a word', print('key'), 'must print one key'],
    ['31 bytes', print(key.subarray(1).toString('base64url')), 'must print one key'],
    ['a key and a word', print(`${key.toString('base64url')}\nkey`), 'must print one key'],
    ['an error', node(`console.error('secret'); process.exit(7)`), 'has ended with exit code 7'],
    ['a signal', node(`process.kill(process.pid, 'SIGTERM')`), 'was ended by SIGTERM'],
    [
      'too much',
      node(`setInterval(() => process.stdout.write('secret'.repeat(9e4)), 1)`),
      'more than 4096 bytes',
    ],
    ['no program', ['/nowhere/kms'] as [string], 'cannot be run (ENOENT)'],
  ] as const)('refuses %s, and repeats nothing of it', async (_what, command, problem) => {
    const refused = read([...command]);
    await expect(refused).rejects.toThrow(StartError);
    await expect(refused).rejects.toThrow(problem);
    await expect(refused).rejects.toThrow(/^(?!.*secret)(?!.*-_v7)MASTER_KEY_COMMAND /);
  });

  it('ends a command that hangs, with what it has started', async () => {
    const pidFile = join(folder.path, 'pid');
    // A shell, which has begun long before its time is over, also on a busy machine.
    const script = 'sleep 1000 & echo $! >"$0"; wait';
    const refused = commandKeySource('MASTER_KEY_COMMAND', ['/bin/sh', '-c', script, pidFile], {
      keysMax: 1,
      msMax: 2_500,
    }).read();
    await expect(refused).rejects.toThrow('has not ended within 2.5 s');
    const pid = Number(readFileSync(pidFile, 'utf8'));
    const isGone = () => {
      try {
        process.kill(pid, 0);
        return false;
      } catch {
        return true;
      }
    };
    await until(isGone, { what: 'the end of the grandchild' });
  });
});
