import { describe, expect, it } from 'vitest';
import { verifyAttestations } from '../../../clients/node/src/verify.ts';
import { exportVerifier } from '../../../shared/attestation/verify-export.ts';
import {
  contradictingRecords,
  evidenceCases,
  evidenceJwks,
  evidenceKeys,
} from '../../support/evidence-cases.ts';
import { verifyExport } from '../../support/independent-verifier.mjs';
import { keysetOf } from '../../support/sample-chains.ts';

function ours(lines: readonly string[]) {
  const verifier = exportVerifier(keysetOf(...evidenceKeys));
  for (const line of lines) verifier.take(line.trimEnd());
  return verifier.finish();
}

/** Whether the verifier that shares no code accepts it; it reads jsonl alone. */
function isAcceptedByAnother(lines: readonly string[]): boolean {
  try {
    verifyExport(Buffer.from(lines.join('')), evidenceJwks);
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(Error);
    return false;
  }
}

describe('what records name', () => {
  it.each(evidenceCases())('is held against them: $name', async ({ name, lines, isValid, fault }) => {
    const verdict = ours(lines);
    expect(verdict, JSON.stringify(verdict)).toMatchObject(
      isValid ? { kind: 'valid', records: 5 } : { kind: 'invalid', fault },
    );
    const ofClient = await verifyAttestations(lines.join(''), evidenceJwks);
    expect(ofClient.valid, JSON.stringify(ofClient)).toBe(isValid);
    if (!name.includes('json')) expect(isAcceptedByAnother(lines)).toBe(isValid);
  });

  it('is refused where records contradict each other', async () => {
    const lines = contradictingRecords();
    expect(ours(lines)).toMatchObject({ kind: 'invalid', fault: 'approval_differs' });
    expect((await verifyAttestations(lines.join(''), evidenceJwks)).valid).toBe(false);
    expect(isAcceptedByAnother(lines)).toBe(false);
  });
});
