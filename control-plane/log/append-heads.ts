import { assert } from '../../shared/errors/assert.ts';
import { entryOf, type LoggedHead } from '../../shared/log/entry.ts';
import { areSame, leafHash, rootHash } from '../../shared/log/merkle.ts';
import { type Edge, grow, hashesIn, readFromEdge, tileWidth } from '../../shared/log/tiles.ts';
import { signCheckpoint } from './checkpoint-round.ts';
import type { LogDeps } from './deps.ts';
import { logLimits } from './limits.ts';
import { type LogTree, lockLog, moveTree, readEdge, writeGrown } from './log-store.ts';

/** Another replica writes, or the tree in the database is not the one that was confirmed. */
export class LogMoved extends Error {
  override readonly name = 'LogMoved';
}

/** What the database has of the tree does not make its root: it was damaged, or changed by hand. */
class LogDamaged extends Error {
  override readonly name = 'LogDamaged';
}

/**
 * The tree with these heads after it, at most `entriesPerAppendMax`: entries, tiles, root and checkpoint are
 * one transaction, so whoever is killed anywhere leaves the tree before or after it. Nobody is shown the
 * checkpoint before the commit. Throws LogMoved unless the database still has `tree`, and LogDamaged where
 * its tiles are of another one: what would be signed then contradicts every checkpoint before.
 */
export async function appendHeads(
  deps: LogDeps,
  tree: LogTree,
  heads: readonly LoggedHead[],
): Promise<LogTree> {
  const { sql, replicaId } = deps;
  const { log, origin } = tree;
  assert(heads.length <= logLimits.entriesPerAppendMax, 'an append is short enough for its lease');
  return sql.begin(async (tx) => {
    const stored = await lockLog(tx, { log, replicaId });
    if (stored === null || stored.size !== tree.size || !areSame(stored.root, tree.root))
      throw new LogMoved();
    const edge = await readEdge(tx, log, tree.size);
    if (!isEdgeOf(tree, edge))
      throw new LogDamaged(
        `the tiles of log ${log} do not make the root of its ${tree.size} entries: restore table log_tiles`,
      );
    const grown = grow(
      edge,
      tree.size,
      heads.map((head) => leafHash(entryOf(head))),
    );
    const { size } = grown;
    assert(size === tree.size + heads.length, 'a tree grows by an entry for each head');
    const root = rootHash(size, readFromEdge(grown.edge));
    if (heads.length > 0) await writeGrown(tx, log, { grown, heads, first: tree.size });
    const signed = signCheckpoint(deps, { origin, size, root });
    await moveTree(tx, { log, size, root, signed, writerMs: logLimits.writerMs });
    return { log, origin, size, root, signed };
  });
}

/** A tile that is missing, or too short, has no hash to compare. */
function isEdgeOf({ size, root }: LogTree, edge: Edge): boolean {
  const isWhole = edge.every(
    (tile, level) => hashesIn(tile) === Math.floor(size / tileWidth ** level) % tileWidth,
  );
  return isWhole && areSame(rootHash(size, readFromEdge(edge)), root);
}
