import { setTimeout as sleep } from 'node:timers/promises';
import { nonceBytes, SealError } from '../../shared/crypto/seal.ts';
import type { BaseDeps } from '../base/deps.ts';
import { masterKeyLimits } from './limits.ts';
import type { Reseal, SealedPlace, SealedRow } from './sealed-place.ts';

type ResealDeps = Pick<BaseDeps, 'sql' | 'random' | 'sealer' | 'logger'>;

/** What one pass over all places met. */
export interface Pass {
  resealed: number;
  /** They had changed meanwhile: another pass is needed. */
  changed: number;
  /** `<place> <key>` of rows that no master key opens; they were lost before. */
  readonly unopened: string[];
  /** It was stopped. */
  isCut: boolean;
}

/**
 * Seals with MASTER_KEY what others have sealed: some rows at a time, each with a statement of its own, so
 * that a crash at any moment leaves each row sealed once, by one key or the other. Where it stops the next
 * pass goes on, because it finds only what is left; so may another replica at the same time.
 */
export async function resealAll(
  deps: ResealDeps,
  places: readonly SealedPlace[],
  state: { readonly isStopped: boolean },
): Promise<Pass> {
  const pass: Pass = { resealed: 0, changed: 0, unopened: [], isCut: false };
  const reseal: Reseal = (sealed, context) =>
    deps.sealer.seal(deps.sealer.open(sealed, context), context, deps.random.bytes(nonceBytes));
  const progress = teller(deps, pass);
  for (const place of places) {
    let after: readonly string[] | null = null;
    for (;;) {
      pass.isCut ||= state.isStopped;
      if (pass.isCut) return pass;
      const rows: readonly SealedRow[] = await place.findOthers(deps.sql, {
        prefix: deps.sealer.prefix,
        after,
        limit: masterKeyLimits.resealRowsPerStep,
      });
      for (const row of rows) await resealRow(row, { place, reseal, pass });
      progress(place);
      const last = rows.at(-1);
      if (last === undefined) break;
      after = last.key;
      await sleep(masterKeyLimits.resealPauseMs);
    }
  }
  return pass;
}

async function resealRow(
  row: SealedRow,
  { place, reseal, pass }: { readonly place: SealedPlace; readonly reseal: Reseal; readonly pass: Pass },
): Promise<void> {
  try {
    if (await row.replace(reseal)) pass.resealed++;
    else pass.changed++;
  } catch (error) {
    if (!(error instanceof SealError)) throw error;
    pass.unopened.push(`${place.name} ${row.key.join(' ')}`);
  }
}

function teller({ logger }: ResealDeps, pass: Pass): (place: SealedPlace) => void {
  let toldAtMs = performance.now();
  return ({ name }) => {
    if (performance.now() - toldAtMs < masterKeyLimits.resealProgressMs) return;
    toldAtMs = performance.now();
    logger.info(
      { resealed: pass.resealed, at: name },
      'MASTER_KEY changes: secrets are sealed with the new one',
    );
  };
}
