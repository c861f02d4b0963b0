import { setTimeout as pause } from 'node:timers/promises';
import type { Answers } from './answers.ts';
import type { World } from './world.ts';

const settleMsMax = 120_000;
/**
 * Several times what a sidecar takes to ship what it has, and as long as units may lie idle before they are
 * back in the ledger.
 */
const quietMs = 2_000;

/**
 * Whatever clients were told is on record, every outcome is applied, every sidecar ships without trouble,
 * and nothing has arrived or moved in the ledger for a while. Ends after its time in any case: what is
 * missing then is a violation.
 */
export async function allShipped(
  { sql, sidecars }: Pick<World, 'sql' | 'sidecars'>,
  answers: Answers,
): Promise<number> {
  const startedAtMs = performance.now();
  const told = [...answers.permits.keys()];
  let position = -1;
  let leased = -1;
  let quietSinceMs = startedAtMs;
  while (performance.now() - startedAtMs < settleMsMax) {
    try {
      const [row] = await sql<{ position: number; found: number; leased: number; waiting: number }[]>`
        SELECT coalesce(max(position), 0) AS position, count(*) FILTER (WHERE attestation_id = ANY(${told}::text[])) AS found,
          (SELECT coalesce(sum(leased), 0)::bigint FROM quota_windows) AS leased,
          (SELECT count(*) FROM reported_outcomes WHERE due_at_ms IS NOT NULL) AS waiting
        FROM attestations`;
      const isMoving =
        row?.position !== position || row.leased !== leased || row.found < told.length || row.waiting > 0;
      const ready = await Promise.all(sidecars.map(({ origin }) => fetch(`${origin}/readyz`)));
      const bodies = (await Promise.all(ready.map((answer) => answer.json()))) as Readiness[];
      const isTroubled = bodies.some(
        ({ spool }) => spool.shipping !== 'shipping' || spool.last_error !== null,
      );
      position = row?.position ?? 0;
      leased = row?.leased ?? 0;
      if (isMoving || isTroubled) quietSinceMs = performance.now();
      else if (performance.now() - quietSinceMs > quietMs) break;
    } catch {
      // Something is on its way up again.
      quietSinceMs = performance.now();
    }
    await pause(200);
  }
  return Math.round(performance.now() - startedAtMs);
}

interface Readiness {
  readonly spool: { readonly shipping: string; readonly last_error: string | null };
}
