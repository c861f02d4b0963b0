import { exportCrypto } from '../../../cli/verify/export-crypto.ts';
import { type ExportVerdict, ExportVerifier } from '../../../clients/node/src/verify/export-verifier.ts';
import { findRecordFault, type Head } from '../../../clients/node/src/verify/record.ts';
import type { Keyset } from '../../../shared/crypto/keyset.ts';

/** Of the lines of an export, with their newlines or without; null: a line that is not text. */
export async function verdictOf(lines: Iterable<string | null>, keys: Keyset): Promise<ExportVerdict> {
  const verifier = new ExportVerifier(exportCrypto(keys));
  for (const line of lines) await verifier.take(line?.replace(/\n$/, '') ?? null);
  return verifier.finish();
}

/** Null: the record verifies after this head. */
export const recordFaultOf = (record: unknown, previous: Head | null, keys: Keyset) =>
  findRecordFault(record, previous, exportCrypto(keys));
