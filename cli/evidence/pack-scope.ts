import type { AttestationAnswer } from '../../shared/wire/evidence/attestation.ts';

/** What a pack is about, as `pack.json` has it. */
export interface PackScope {
  readonly format: typeof packFormat;
  /** Decisions of `[since, until)`, by their own clocks. */
  readonly since: string;
  readonly until: string;
  /** Null: all. */
  readonly gate_id: string | null;
  readonly passport_id: string | null;
  /** Passports and approvals are stated as they were then. */
  readonly as_of: string;
  /** Version of the program that made it. */
  readonly made_with: string;
}

export const packFormat = 'agent-trust.evidence-pack.v1';

/** The files of a pack, below the folder that it unpacks to. */
export const packFiles = {
  page: 'index.html',
  scope: 'pack.json',
  records: 'records.jsonl',
  jwks: 'jwks.json',
  /** Where the log has the records. */
  checkpoint: 'checkpoint',
  policy: 'log.policy',
  verifier: 'verify.mjs',
} as const;

/** Whether the pack is about this record. Times of one form compare as text. */
export const isInScope = (
  { since, until, gate_id, passport_id }: PackScope,
  record: Pick<AttestationAnswer, 'timestamp' | 'gate_id' | 'passport_id'>,
): boolean =>
  record.timestamp >= since &&
  record.timestamp < until &&
  (gate_id === null || record.gate_id === gate_id) &&
  (passport_id === null || record.passport_id === passport_id);

/** Null: not one, or of a newer version. */
export function parseScope(text: string): PackScope | null {
  try {
    const value = JSON.parse(text);
    const times = [value.since, value.until, value.as_of];
    const isTime = (time: unknown) =>
      typeof time === 'string' &&
      /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(time) &&
      !Number.isNaN(Date.parse(time));
    const isId = (id: unknown) => id === null || typeof id === 'string';
    const isScope =
      value.format === packFormat &&
      times.every(isTime) &&
      [value.gate_id, value.passport_id].every(isId) &&
      typeof value.made_with === 'string';
    return isScope ? value : null;
  } catch {
    return null;
  }
}
