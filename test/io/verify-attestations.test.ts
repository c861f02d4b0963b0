import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { replayAttestationsCommand } from '../../cli/verify/replay-attestations.ts';
import { verifyAttestationsCommand } from '../../cli/verify/verify-attestations.ts';
import {
  chainOf,
  exportLinesOf,
  jsonLinesOf,
  jwksOf,
  sampleChain,
  sampleId,
  sampleKey,
  sampleRecord,
} from '../support/data/sample-chains.ts';

const folder = mkdtempSync(join(tmpdir(), 'agent-trust-verify-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const key = sampleKey(1);
const chains = [sampleChain(key, 3, 1), sampleChain(key, 1, 2)];
const lines = exportLinesOf(chains, { keyIds: [key.kid] });
const json = jsonLinesOf(chains, { keyIds: [key.kid] }).join('');
const fileOf = (name: string, content: string | Uint8Array): string => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};
const jwks = fileOf('jwks.json', JSON.stringify(jwksOf(key)));

async function run(
  file: string,
  options: { readonly jwks?: string; readonly stdin?: string | Readable; readonly isTTY?: boolean } = {},
) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await verifyAttestationsCommand({
    files: [file],
    jwks: options.jwks ?? jwks,
    output: { write: (text) => void out.push(text) },
    errors: { write: (text) => void err.push(text), isTTY: options.isTTY ?? false },
    stdin:
      options.stdin instanceof Readable ? options.stdin : Readable.from([Buffer.from(options.stdin ?? '')]),
  });
  return { code, out: out.join(''), err: err.join('') };
}

describe('agent-trust attestations verify', () => {
  it('answers 0 and one line for an export that verifies', async () => {
    expect(await run(fileOf('good.jsonl', lines.join('')))).toEqual({
      code: 0,
      out: 'OK: 4 records in 2 chains. Every hash, link and signature verifies.\n',
      err: '',
    });
  });

  it('reads standard input for -', async () => {
    expect(await run('-', { stdin: lines.join('') })).toMatchObject({ code: 0 });
    expect(await run('-', { stdin: lines.slice(0, -1).join('') })).toMatchObject({ code: 5 });
  });

  it('recognises an export as json by its content, not by its name', async () => {
    for (const name of ['good.json', 'good.txt']) {
      expect(await run(fileOf(name, json))).toMatchObject({
        code: 0,
        out: 'OK: 4 records in 2 chains. Every hash, link and signature verifies.\n',
      });
    }
    const changed = json.replace('"PERMIT"', '"BLOCK"');
    expect(await run(fileOf('bad.json', changed))).toEqual({
      code: 5,
      out:
        `NOT OK: line 3, chain ${sampleId('pass', 1)}, sequence 1: ` +
        'the content of this record does not match its hash: it was changed.\n',
      err: '',
    });
  });

  it('answers 5 for anything but an export, or for a cut last line', async () => {
    for (const [name, content] of [
      ['empty', ''],
      ['binary', Uint8Array.of(0xff, 0xfe, 0x0a)],
      ['html', '<html></html>\n'],
      ['cut', lines.join('').slice(0, -1)],
      ['long', `"${'x'.repeat(5 * 1024 * 1024)}`],
    ] as const) {
      expect(await run(fileOf(name, content)), name).toMatchObject({
        code: 5,
        out: expect.stringMatching(/^NOT OK: /),
      });
    }
  });

  it('answers 5 when the export cannot be read to its end', async () => {
    const stdin = Readable.from(
      (async function* () {
        yield Buffer.from(lines[0] ?? '');
        throw new Error('the disk is gone');
      })(),
    );
    expect(await run('-', { stdin })).toMatchObject({
      code: 5,
      err: expect.stringContaining('the disk is gone'),
    });
  });

  it('answers 2 for a folder: nothing is wrong with an export that was not named', async () => {
    expect(await run(folder)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(folder) });
  });

  it('answers 2 for a file that is missing, and for a JWKS that is missing or no JSON', async () => {
    const good = fileOf('good.jsonl', lines.join(''));
    expect(await run(join(folder, 'none'))).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining('none'),
    });
    expect(await run(good, { jwks: join(folder, 'none') })).toMatchObject({ code: 2, out: '' });
    for (const content of ['', '{']) {
      expect(await run(good, { jwks: fileOf('bad-jwks.json', content) }), content).toMatchObject({
        code: 2,
        out: '',
      });
    }
  });

  it('answers 5 for a JWKS without the key that signed, or with another key under its name', async () => {
    const good = fileOf('good.jsonl', lines.join(''));
    const renamed = jwksOf(sampleKey(2)).keys.map((jwk) => ({ ...jwk, kid: key.kid }));
    for (const content of [
      '{}',
      '{"keys":[]}',
      JSON.stringify(jwksOf(sampleKey(1, {}, 'passport'))),
      JSON.stringify(jwksOf(sampleKey(2))),
      JSON.stringify({ keys: renamed }),
    ]) {
      expect(await run(good, { jwks: fileOf('other-jwks.json', content) }), content).toMatchObject({
        code: 5,
        out: expect.stringMatching(/^NOT OK: .*JWKS/),
        err: '',
      });
    }
  });

  it('warns of records signed by a compromised key', async () => {
    const compromised = fileOf(
      'compromised.json',
      JSON.stringify(jwksOf(sampleKey(1, { compromised: true }))),
    );
    const { code, out } = await run(fileOf('good.jsonl', lines.join('')), { jwks: compromised });
    expect(code).toBe(0);
    expect(out).toContain('WARNING: 4 records signed by a key that was declared compromised');
  });

  it('takes a word that a newer version has written, and a replay refuses what it cannot read', async () => {
    const reason = 'of_a_newer_version' as 'approval_denied';
    const record = sampleRecord(1, { decision: 'BLOCK', reason });
    const newer = exportLinesOf([chainOf([record], key)], { keyIds: [key.kid] });
    const file = fileOf('newer.jsonl', newer.join(''));
    expect(await run(file)).toMatchObject({ code: 0 });
    const out: string[] = [];
    const output = { write: (text: string) => void out.push(text) };
    const code = await replayAttestationsCommand({
      files: [file],
      jwks,
      isJson: false,
      output,
      errors: output,
    });
    expect(code).toBe(5);
    expect(out.join('')).toContain(`NOT OK: ${file} holds what only a newer version reads`);
  });
});
