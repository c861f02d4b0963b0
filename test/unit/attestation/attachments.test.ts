import { describe, expect, it } from 'vitest';
import { verifyAttestations } from '../../../clients/node/src/verify.ts';
import {
  contradictingRecords,
  evidenceCases,
  evidenceJwks,
  evidenceKeys,
  permitCases,
} from '../../support/data/evidence-cases.ts';
import { verifyExport } from '../../support/data/independent-verifier.mjs';
import { jwksOf, keysetOf } from '../../support/data/sample-chains.ts';
import { verdictOf } from '../../support/data/verify-export.ts';

/** With the engines of the service. */
const ours = (lines: readonly string[]) => verdictOf(lines, keysetOf(...evidenceKeys));

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
    const verdict = await ours(lines);
    expect(verdict, JSON.stringify(verdict)).toMatchObject(
      isValid ? { kind: 'valid', records: 5 } : { kind: 'invalid', fault },
    );
    const ofClient = await verifyAttestations(lines.join(''), evidenceJwks);
    expect(ofClient.valid, JSON.stringify(ofClient)).toBe(isValid);
    if (!name.includes('json')) expect(isAcceptedByAnother(lines)).toBe(isValid);
  });

  it.each(permitCases())('is held against PERMITs: $name', async ({ lines, isValid, fault }) => {
    expect(await ours(lines)).toMatchObject(isValid ? { kind: 'valid' } : { kind: 'invalid', fault });
    const ofClient = await verifyAttestations(lines.join(''), evidenceJwks);
    expect(ofClient.valid, JSON.stringify(ofClient)).toBe(isValid);
    expect(isAcceptedByAnother(lines)).toBe(isValid);
  });

  it.each([
    ['a lone surrogate', '"\\ud800"'],
    ['a number that is none', '1e400'],
    ['arrays in arrays', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
  ])('is refused where it has no RFC 8785 form, and nothing is thrown: %s', async (_what, value) => {
    const [lines] = evidenceCases().map((each) => each.lines);
    const changed = (lines ?? []).map((line) =>
      /^\{"(?:policy|passport|catalog|approval)"/.test(line)
        ? line.replace(/("(?:constraints|version|answers)":)/, `"zzz":${value},$1`)
        : line,
    );
    expect(await ours(changed)).toMatchObject({ kind: 'invalid', fault: 'not_canonical' });
    expect((await verifyAttestations(changed.join(''), evidenceJwks)).valid).toBe(false);
  });

  it('counts passports and approvals by a compromised key, and approvals that were removed', async () => {
    const [lines = []] = evidenceCases().map((each) => each.lines);
    const [key, catalogKey] = evidenceKeys;
    const stolen = { ...key, verification: { ...key.verification, compromised: true } };
    const verdict = await verdictOf(lines, keysetOf(stolen, catalogKey));
    // Two passports, two approvals and a standing one. Records vouch for their policy, and that for its
    // catalog.
    expect(verdict).toMatchObject({ kind: 'valid', compromised_statements: 5, removed_approvals: 1 });
    const ofClient = await verifyAttestations(lines.join(''), jwksOf(stolen, catalogKey));
    expect(ofClient).toMatchObject({ valid: true, compromised_statements: 5, removed_approvals: 1 });
    expect(await ours(lines)).toMatchObject({ kind: 'valid', compromised_statements: 0 });
  });

  it('is refused where records contradict each other', async () => {
    const lines = contradictingRecords();
    expect(await ours(lines)).toMatchObject({ kind: 'invalid', fault: 'approval_differs' });
    expect((await verifyAttestations(lines.join(''), evidenceJwks)).valid).toBe(false);
    expect(isAcceptedByAnother(lines)).toBe(false);
  });
});
