import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import { inclusionRanges } from '../../shared/log/merkle.ts';
import { type LogProof, renderLogProof } from '../../shared/log/proof.ts';
import { renderAttestation } from '../../shared/wire/evidence/attestation.ts';
import type { ProveChains } from '../attestations/export-attestations.ts';
import { findAttestation } from '../attestations/list-attestations.ts';
import type { Database } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { pathId } from '../http/path-id.ts';
import type { LogDeps } from './deps.ts';
import { logLimits } from './limits.ts';
import { findEntries, findEntry, type PublishedLog, readPublished, readRanges } from './log-store.ts';

/** The checkpoint that proofs are made for: with LOG_WITNESSES the newest one that their quorum cosigned. */
function provenBy(
  { witnesses }: Pick<LogDeps, 'witnesses'>,
  log: PublishedLog | null,
): { readonly log: number; readonly size: number; readonly checkpoint: string } | null {
  if (log === null) return null;
  const isWitnessed = witnesses !== null;
  const checkpoint = isWitnessed ? log.witnessed : log.published;
  const size = isWitnessed ? log.witnessedSize : log.publishedSize;
  return checkpoint === null ? null : { log: log.log, size, checkpoint };
}

/**
 * That the log has the first head of this chain at or after the place, by the newest checkpoint. Null: not
 * yet.
 */
async function proveHead(
  { sql, witnesses }: Pick<LogDeps, 'witnesses'> & { readonly sql: Database },
  chainId: string,
  sequence: number,
): Promise<LogProof | null> {
  const proven = provenBy({ witnesses }, await readPublished(sql));
  if (proven === null) return null;
  const { log, size, checkpoint } = proven;
  const entry = await findEntry(sql, { log, size }, chainId, sequence);
  if (entry === null) return null;
  const { index, head } = entry;
  const hashes = await readRanges(sql, log, inclusionRanges(index, { from: 0, to: size }), size);
  return { head, index, hashes, checkpoint };
}

/** For an export: see ProveChains. Each proof is of the newest head that the log has in the chain's range. */
export const chainProver =
  ({ witnesses }: Pick<LogDeps, 'witnesses'>): ProveChains =>
  async (tx, chains) => {
    const proofs = new Map<string, string>();
    const proven = provenBy({ witnesses }, await readPublished(tx));
    if (proven === null) return proofs;
    const { log, size, checkpoint } = proven;
    for (let first = 0; first < chains.length; first += logLimits.chainsProvenAtOnceMax) {
      const entries = await findEntries(
        tx,
        proven,
        chains.slice(first, first + logLimits.chainsProvenAtOnceMax),
      );
      const paths = entries.map(({ index }) => inclusionRanges(index, { from: 0, to: size }));
      const hashes = await readRanges(tx, log, paths.flat(), size);
      let at = 0;
      for (const [place, { index, ...head }] of entries.entries()) {
        const { length } = must(paths[place], 'each entry has its path');
        proofs.set(
          head.chainId,
          renderLogProof({ head, index, checkpoint, hashes: hashes.slice(at, at + length) }),
        );
        at += length;
      }
      assert(at === hashes.length, 'each hash is of the path of one entry');
    }
    return proofs;
  };

/** `GET /attestations/:id/proof`, as C2SP tlog-proof. */
export async function proveAttestation(deps: LogDeps, caller: Caller, text: string): Promise<string> {
  const id = pathId('att', text, 'attestation_not_found');
  const attestation = await findAttestation(deps.sql, caller, id);
  if (attestation === null) throw new ApiError('attestation_not_found');
  const { chain_id: chainId, sequence } = renderAttestation(attestation);
  const proof = await proveHead(deps, chainId, sequence);
  if (proof === null) throw new ApiError('proof_not_ready');
  return renderLogProof(proof);
}
