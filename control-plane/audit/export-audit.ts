import type { Readable } from 'node:stream';
import {
  type AuditManifest,
  auditEndLine,
  auditEntryLine,
  auditManifestLine,
} from '../../shared/audit/export.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { readExportKeys } from '../signing/signing-key-store.ts';
import type { ExportSnapshot } from '../storage/snapshot-export.ts';
import { readAuditRange, readAuditSpan } from './audit-store.ts';
import { auditLimits } from './limits.ts';

interface AuditExportAsked {
  readonly owner: Owner;
  /** The export starts at the first entry not older; null: at the first. */
  readonly sinceMs: UnixMillis | null;
  readonly nowMs: UnixMillis;
}

/** The chain of an owner as jsonl, whole or from a time on, for offline verification (docs/audit.md). */
export const exportAudit = (exportSnapshot: ExportSnapshot, asked: AuditExportAsked): Promise<Readable> =>
  exportSnapshot(asked.owner.accountId, (tx) => exportedBytes(tx, asked));

async function* exportedBytes(
  tx: Transaction,
  { owner, sinceMs, nowMs }: AuditExportAsked,
): AsyncGenerator<Buffer> {
  const span = await readAuditSpan(tx, owner, sinceMs);
  const keys = await readExportKeys(tx, nowMs);
  const { accountId, mode } = owner;
  const manifest: AuditManifest = { ...span, ...keys, accountId, mode, sinceMs };
  yield Buffer.from(auditManifestLine(manifest));
  let next = span.firstSequence;
  while (next <= span.lastSequence) {
    const last = Math.min(span.lastSequence, next + auditLimits.auditExportSliceRowsMax - 1);
    const entries = await readAuditRange(tx, owner, { first: next, last });
    assert(entries.length === last - next + 1, 'a chain has every entry up to its last');
    yield Buffer.from(entries.map(auditEntryLine).join(''));
    next = last + 1;
  }
  yield Buffer.from(auditEndLine(span.lastSequence - span.firstSequence + 1));
}
