import type { GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';
import { type Hint, noteHints } from '../events/note-hints.ts';
import type { AppendedRecord } from './deps.ts';

/** Publishes a hint per gate and reader of a batch of new records. */
export function hintAtRecords(tx: Transaction, appended: readonly AppendedRecord[]): void {
  // Most records of a batch share the objects of their readers (judge-records.ts).
  const readersOf = new Map<GateId | null, Set<Owner>>();
  for (const { attestation, reader, otherReader } of appended) {
    const readers = readersOf.get(attestation.gateId) ?? new Set();
    readersOf.set(
      attestation.gateId,
      otherReader === null ? readers.add(reader) : readers.add(reader).add(otherReader),
    );
  }
  const hints = new Map<string, Hint>();
  for (const [id, readers] of readersOf)
    for (const { accountId, mode } of readers)
      hints.set(`${accountId} ${mode} ${id}`, { accountId, mode, type: 'record', id });
  noteHints(tx, [...hints.values()]);
}
