import type { Transaction } from '../base/database.ts';
import { type Hint, noteHints } from '../events/note-hints.ts';
import type { AppendedRecord } from './deps.ts';

/** Hints at the gates of new records, for all who may read them: one for each gate and reader of a batch. */
export function hintAtRecords(tx: Transaction, appended: readonly AppendedRecord[]): void {
  const hints = new Map<string, Hint>();
  for (const { attestation, reader, otherReader } of appended) {
    for (const { accountId, mode } of otherReader === null ? [reader] : [reader, otherReader]) {
      const id = attestation.gateId;
      hints.set(`${accountId} ${mode} ${id}`, { accountId, mode, type: 'record', id });
    }
  }
  noteHints(tx, [...hints.values()]);
}
