import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commandKeySource, masterKeysOf } from '../../control-plane/master-key/key-sources.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';

const key = Buffer.alloc(32, 0xfb);
const other = randomBytes(32);

const folder = useFolder();

const hex = (each: Uint8Array): string => Buffer.from(each).toString('hex');
const node = (script: string, ...args: string[]): [string, ...string[]] => [
  process.execPath,
  '-e',
  script,
  '--',
  ...args,
];
const read = (command: [string, ...string[]]) => commandKeySource(command).read();
const print = (text: string) => node('process.stdout.write(process.argv[1])', text);

describe('a key from a command', () => {
  it.each([
    ['base64url', key.toString('base64url')],
    ['base64url and a line break', `${key.toString('base64url')}\n`],
    ['base64, as a KMS prints bytes', `${key.toString('base64')}\r\n`],
  ])('is read from its standard output: %s', async (_form, text) => {
    expect(hex(await read(print(text)))).toEqual(hex(key));
  });

  it('takes the place of a file, and is no fallback of itself', async () => {
    const file = { read: () => Promise.reject(new Error('not to be read')) };
    const settings = {
      MASTER_KEY: null,
      MASTER_KEY_COMMAND: print(key.toString('base64')),
      MASTER_KEY_FALLBACKS: [other, key],
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
    ['two keys', print(`${key.toString('base64url')}\n`.repeat(2)), 'must print one key'],
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
    const refused = commandKeySource(['/bin/sh', '-c', script, pidFile], 2_500).read();
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
