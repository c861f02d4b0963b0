import type { Readable } from 'node:stream';
import { type BrokenChain, type ChainFault, renderBroken } from '../../shared/attestation/broken-chains.ts';
import {
  type AuditManifest,
  auditEndLine,
  auditEntryLine,
  auditManifestLine,
} from '../../shared/audit/export.ts';
import { auditChainName, headKey } from '../../shared/log/entry.ts';
import type { AuditEntry } from '../../shared/model/audit.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { readGenerations } from '../history/history-store.ts';
import { readExportKeys } from '../signing/signing-key-store.ts';
import type { ExportSnapshot } from '../storage/snapshot-export.ts';
import { type AuditSpan, readAuditRange, readAuditSpan } from './audit-store.ts';
import { auditLimits } from './limits.ts';

interface AuditExportAsked {
  readonly owner: Owner;
  /** The export starts at the first entry not older; null: at the first. */
  readonly sinceMs: UnixMillis | null;
  readonly nowMs: UnixMillis;
}

/** Hashes of heads that the transparency log has in these parts of chains, by `headKey`; 1,000 of each. */
export type ReadLoggedHeads = (
  tx: Transaction,
  ranges: readonly {
    readonly chainId: string;
    readonly firstSequence: number;
    readonly lastSequence: number;
  }[],
) => Promise<ReadonlyMap<string, string>>;

/** The chain of an owner as jsonl, whole or from a time on, for offline verification (docs/audit.md). */
export const exportAudit = (
  exportSnapshot: ExportSnapshot,
  readLogged: ReadLoggedHeads,
  asked: AuditExportAsked,
): Promise<Readable> => exportSnapshot(asked.owner.accountId, (tx) => exportedBytes(tx, readLogged, asked));

/** Ends before the first entry out of place, and reports it. */
async function* exportedBytes(
  tx: Transaction,
  readLogged: ReadLoggedHeads,
  { owner, sinceMs, nowMs }: AuditExportAsked,
): AsyncGenerator<Buffer> {
  const { highest, isCutOff, ...span } = await readAuditSpan(tx, owner, sinceMs);
  const keys = await readExportKeys(tx, nowMs);
  const { current: generation } = await readGenerations(tx);
  const { accountId, mode } = owner;
  const chainId = auditChainName(accountId, mode);
  const manifest: AuditManifest = { ...span, ...keys, accountId, mode, sinceMs, generation };
  yield Buffer.from(auditManifestLine(manifest));
  let next = span.firstSequence;
  let previousHash = span.previousHash;
  let fault: ChainFault | null = null;
  while (next <= span.lastSequence && fault === null) {
    const last = Math.min(span.lastSequence, next + auditLimits.auditExportSliceRowsMax - 1);
    const logged = await readLogged(tx, [{ chainId, firstSequence: next, lastSequence: last }]);
    const lines: string[] = [];
    for (const entry of await readAuditRange(tx, owner, { first: next, last })) {
      const line = lineOf(entry);
      const head = logged.get(headKey({ chainId, sequence: entry.sequence }));
      fault = faultOf(entry, line, { next, previousHash, span, logged: head });
      if (fault !== null || line === null) break;
      lines.push(line);
      next = entry.sequence + 1;
      previousHash = entry.hash;
    }
    if (next <= last) fault ??= 'missing_in_middle';
    yield Buffer.from(lines.join(''));
  }
  const broken: BrokenChain[] = isCutOff
    ? [{ chainId: accountId, fault: 'missing_in_middle', sequence: span.firstSequence - 1 }]
    : [];
  if (fault === 'missing_in_middle') fault = missingAt(next, highest);
  if (fault === null && highest !== span.lastSequence)
    fault = highest > span.lastSequence ? 'beyond_head' : 'missing_at_end';
  const rest = { chainId, firstSequence: span.lastSequence + 1, lastSequence: Number.MAX_SAFE_INTEGER };
  if (fault === null && (await readLogged(tx, [rest])).size > 0) fault = 'behind_log';
  if (fault !== null) broken.push({ chainId: accountId, fault, sequence: Math.min(next, highest + 1) });
  yield Buffer.from(auditEndLine({ entries: next - span.firstSequence, broken: broken.map(renderBroken) }));
}

const missingAt = (sequence: number, highest: number): ChainFault => {
  if (sequence === 1) return 'missing_at_begin';
  return sequence > highest ? 'missing_at_end' : 'missing_in_middle';
};

/** Null for an entry that cannot be rendered, which this service never wrote. */
function lineOf(entry: AuditEntry): string | null {
  try {
    return auditEntryLine(entry);
  } catch {
    return null;
  }
}

function faultOf(
  entry: AuditEntry,
  line: string | null,
  at: {
    readonly next: number;
    readonly previousHash: string | null;
    readonly span: AuditSpan;
    readonly logged: string | undefined;
  },
): ChainFault | null {
  if (entry.sequence > at.next) return 'missing_in_middle';
  if (entry.sequence < at.next) return 'repeated';
  if (line === null) return 'unreadable';
  if (entry.previousHash !== at.previousHash) return 'link_broken';
  if (entry.sequence === at.span.lastSequence && entry.hash !== at.span.lastHash) return 'head_differs';
  return at.logged !== undefined && at.logged !== entry.hash ? 'log_differs' : null;
}
