import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { sha256Hex } from '../../../shared/crypto/content-hash.ts';
import { keyset, parseJwks } from '../../../shared/crypto/keyset.ts';
import { AttestationAnswer } from '../../../shared/wire/evidence/attestation.ts';
import { verifyExport } from '../../support/data/independent-verifier.mjs';
import { fencedBlock, withExample } from '../../support/data/verify-example.ts';
import { verdictOf } from '../../support/data/verify-export.ts';

const path = new URL('../../../docs/verify.md', import.meta.url);
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(path, withExample(readFileSync(path, 'utf8')));
const page = readFileSync(path, 'utf8');

describe('docs/verify.md', () => {
  it('shows the example that the code writes now', () => {
    expect(withExample(page)).toBe(page);
  });

  it('shows an example that both verifiers accept, exactly as on the page', async () => {
    const jwks: unknown = JSON.parse(fencedBlock(page, 'json'));
    const file = fencedBlock(page, 'jsonl');
    expect(verifyExport(Buffer.from(file), jwks)).toEqual({ chains: 2, records: 3 });
    const verdict = await verdictOf(file.trimEnd().split('\n'), keyset(chooseEd25519(), parseJwks(jwks)));
    expect(verdict).toMatchObject({ kind: 'valid', chains: 2, records: 3 });
  });

  it('shows the hashed bytes, and the signed message', () => {
    const last: unknown = JSON.parse(fencedBlock(page, 'jsonl').trimEnd().split('\n').at(-4) ?? '');
    const hash = `sha256:${sha256Hex(fencedBlock(page, 'json', 1).trimEnd())}`;
    expect(last).toMatchObject({ hash, signature: fencedBlock(page, 'text', 1).trimEnd() });
    expect(fencedBlock(page, 'text').trimEnd()).toBe(`agent-trust.attestation.v1:${hash}`);
  });

  it('describes every member of a record, and no other', () => {
    const section = page.slice(page.indexOf('## 2.'), page.indexOf('## 3.'));
    const described = [...section.matchAll(/^\| `(\w+)` \|/gm)].map((match) => match[1]);
    expect(described).toEqual(Object.keys(AttestationAnswer.properties));
  });
});
