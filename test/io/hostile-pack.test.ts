import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { verifyPackCommand } from '../../cli/evidence/verify-pack.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';

/** Packs that others have made up: each file may hold anything, and the command ends with a sentence. */
const temporary = temporaryFolder();
afterAll(() => temporary.remove());

const scope = {
  ...{ format: 'agent-trust.evidence-pack.v1', gate_id: null, passport_id: null, made_with: '0.0.0' },
  ...{ since: '2026-11-01T00:00:00.000Z', until: '2026-12-01T00:00:00.000Z' },
  as_of: '2026-12-01T00:02:00.000Z',
};
const record = {
  ...{ amount_micro_usd: 1_000_000, approval_id: null, asserted: false, chain_id: 'pass_a' },
  ...{ constraints_evaluated: [], decision: 'BLOCK', domain: null, gate_id: 'gate_a', hash: 'sha256:0' },
  ...{ hold_expires_at: null, id: 'att_1', passport_id: 'pass_a', permission_key: 'orders:create' },
  ...{ pii: [], policy_hash: 'sha256:1', previous_attestation_hash: null, proof: null, reason: 'x' },
  ...{ refers_to: null, request_hash: 'sha256:2', resolution: null, sequence: 1, signature: '', test: false },
  ...{ signing_key_id: '', source: 'control-plane', source_account: 'acct_a', state_age_ms: null },
  ...{ timestamp: '2026-11-10T00:00:00.000Z', trust_level: 'L1', wallet_id: null },
};
const odd: readonly unknown[] = [
  ...[null, true, 0, -1, 1.5, 1e308, '', 'x', '\u001b[31m', '2026-11-10T00:00:00.000Z', '__proto__'],
  ...[[], ['2026-11-10T00:00:00.000Z'], {}, { toString: 1 }, { __proto__: null }, [[['x']]]],
];

let made = 0;
const files = { 'pack.json': scope, 'jwks.json': { keys: [] }, 'index.html': '<p>' } as const;

async function verify(change: Readonly<Record<string, unknown>>) {
  const folder = join(temporary.path, String(++made));
  mkdirSync(folder);
  const all: Record<string, unknown> = {
    ...files,
    'records.jsonl': `${JSON.stringify(record)}\n`,
    ...change,
  };
  for (const [name, content] of Object.entries(all))
    if (typeof content === 'function') content(join(folder, name));
    else writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  let said = '';
  const write = (text: string) => {
    said += text;
  };
  const code = await verifyPackCommand({ folder, output: { write }, errors: { write } });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be said
  expect(said).not.toMatch(/[\u0000-\u0009\u000b-\u001f]|\n {4}at |RangeError|TypeError/);
  expect(said).not.toBe('');
  return { code, said };
}

describe('a pack of somebody else', () => {
  it.each(Object.keys(record))('is read to its end with anything for %s', async (name) => {
    for (const value of odd)
      for (const decision of ['BLOCK', 'PERMIT', 'SUSPEND', 'x']) {
        const line = JSON.stringify({ ...record, decision, [name]: value });
        const { code, said } = await verify({ 'records.jsonl': `${line}\n` });
        expect([2, 5], said).toContain(code);
      }
  });

  it('may have a policy of any depth, and a checkpoint that was rewritten', async () => {
    const groups = Array.from(
      { length: 4_000 },
      (_, at) => `group g${at} any ${at === 0 ? 'w' : `g${at - 1}`}`,
    );
    const vkey = 'w.example+00000000+BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';
    const policy = [`witness w ${vkey}`, ...groups, 'quorum g3999', ''].join('\n');
    const checkpoint =
      'log.example/a\n1\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— log.example/a AAAA\n';
    expect(await verify({ checkpoint, 'log.policy': policy })).toMatchObject({ code: 2 });
    const none = 'quorum none\n';
    for (const [rewritten, words] of [
      [checkpoint.replaceAll('\n', '\r\n'), /CRLF/],
      [`\ufeff${checkpoint}`, /byte order mark/],
      [checkpoint.slice(0, -1), /last line/],
    ] as const) {
      const { code, said } = await verify({ checkpoint: rewritten, 'log.policy': none });
      expect([code, said]).toEqual([2, expect.stringMatching(words)]);
    }
  });

  it('has no file that is none', async () => {
    const own = join(temporary.path, 'elsewhere');
    writeFileSync(own, '{}');
    for (const name of [
      'pack.json',
      'jwks.json',
      'index.html',
      'records.jsonl',
      'checkpoint',
      'log.policy',
    ]) {
      for (const make of [
        (path: string) => symlinkSync('/dev/zero', path),
        (path: string) => symlinkSync(path, path),
        (path: string) => mkdirSync(path),
        (path: string) => symlinkSync(own, path),
      ])
        expect(
          await verify({ checkpoint: 'x\n', 'log.policy': 'quorum none\n', [name]: make }),
        ).toMatchObject({
          code: 2,
        });
    }
  });

  it('is not understood where JSON is too deep for it', async () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    const own = join(temporary.path, 'elsewhere');
    writeFileSync(own, '{}');
    for (const name of ['pack.json', 'jwks.json'])
      expect(await verify({ [name]: deep })).toMatchObject({ code: 2 });
    for (const inside of [deep, `{"policy":${deep}}`, JSON.stringify(record).replace('[]', deep)])
      expect([2, 5]).toContain((await verify({ 'records.jsonl': `${inside}\n` })).code);
  });
});
