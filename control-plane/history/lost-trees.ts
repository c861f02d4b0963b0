import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { historyOf } from './history.ts';
import { lockGeneration, type Missing, readMissing } from './history-store.ts';

/** A tree of the log that a witness showed, with the signature of this service, and that is not here. */
export interface LostTree {
  readonly witness: string;
  readonly origin: string;
  readonly size: number;
  /** base64, as checkpoints write it. */
  readonly root: string;
  /** Entries after the end of the log here; at least 1. */
  readonly lost: number;
  readonly checkpoint: string;
}

/** Keeps what witnesses showed as evidence that history went back (contract §17). Idempotent. */
export async function noteLostTrees(
  sql: Database,
  trees: readonly LostTree[],
  onRegressed: (tx: Transaction, missing: Missing) => Promise<void>,
): Promise<void> {
  await sql.begin(async (tx) => {
    const { number } = await lockGeneration(tx);
    const before = await readMissing(tx);
    for (const { witness, origin, size, root, lost, checkpoint } of trees) {
      await tx`
        INSERT INTO known_trees AS known (in_generation, witness, origin, size, root, lost, checkpoint, noticed_at_ms)
        VALUES (${number}, ${witness}, ${origin}, ${size}, ${root}, ${lost}, ${checkpoint}, ${databaseNowMs(tx)})
        ON CONFLICT (in_generation, witness) DO UPDATE SET size = excluded.size, root = excluded.root,
          checkpoint = excluded.checkpoint, lost = greatest(known.lost, excluded.lost)
        WHERE known.size < excluded.size`;
    }
    const missing = await readMissing(tx);
    if (before === null && missing !== null) await onRegressed(tx, missing);
  });
  await historyOf(sql).refresh();
}

/** Those of this generation. */
export const readLostTrees = (sql: Database | Transaction) =>
  sql<LostTree[]>`
    SELECT witness, origin, size, root, lost, checkpoint FROM known_trees
    WHERE in_generation = (SELECT max(number) FROM generations) ORDER BY witness`;
