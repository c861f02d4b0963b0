import { expect, it } from 'vitest';
import { signTurn } from '../../../shared/attestation/decision-receipt.ts';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { canonicalJson } from '../../../shared/crypto/canonical-json.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { must } from '../../../shared/errors/assert.ts';
import { inclusionRanges, leafHash, nodeHash, rangeHash } from '../../../shared/log/merkle.ts';
import { type ReceiptStatement, receiptFormat } from '../../../shared/wire/evidence/decision-receipt.ts';

const signer = chooseEd25519().signer(Buffer.alloc(32, 7));
const statementOf = (n: number): ReceiptStatement => ({
  ...{ attestation_id: `att_${n}`, chain_id: 'pass_1', decision: n % 3 === 0 ? 'BLOCK' : 'PERMIT' },
  ...{ gate_id: null, issued_at: '2026-11-28T04:00:00.000Z', log_by: '2026-11-28T05:00:00.000Z' },
  ...{ reason: null, request_hash: `sha256:${'0'.repeat(64)}` },
});

it('gives each leaf of a turn the path of RFC 6962 to the one root that is signed', () => {
  for (const size of [...Array.from({ length: 40 }, (_, n) => n + 1), 255, 257, 1_000, 1_024]) {
    const statements = Array.from({ length: size }, (_, n) => statementOf(n));
    const leaves = statements.map((each) => leafHash(Buffer.from(canonicalJson(each))));
    const read = (height: number, index: number): Uint8Array =>
      height === 0
        ? must(leaves[index], 'a leaf')
        : nodeHash(read(height - 1, 2 * index), read(height - 1, 2 * index + 1));
    const all = { from: 0, to: size };
    const root = Buffer.from(rangeHash(all, read)).toString('hex');
    const signature = encodeBase64url(signer.sign(Buffer.from(`${receiptFormat}:${size}:${root}`)));
    const signed = signTurn(signer, statements);
    expect(signed.map((each) => [each.statement, each.index, each.size, each.signature])).toEqual(
      statements.map((statement, index) => [statement, index, size, signature]),
    );
    for (const index of new Set([0, size >> 1, size - 1]))
      expect(must(signed[index], 'a receipt').path).toEqual(
        inclusionRanges(index, all).map((range) => encodeBase64url(rangeHash(range, read))),
      );
  }
});
