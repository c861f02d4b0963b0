import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { renderPermitOutcome, renderReportedOutcome } from '../../shared/wire/api/outcome.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { emitEvents } from '../webhooks/emit-events.ts';
import type { StoredPermit } from './outcome-store.ts';
import type { ReportedOutcome } from './reported-store.ts';

/** To the owners of the gates, when the caller's transaction commits (contract §14). */
export async function emitExpired(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  permits: readonly StoredPermit[],
  timestampMs: UnixMillis,
): Promise<void> {
  await emitEvents(
    tx,
    deps,
    permits.map((permit) => ({
      event: 'hold.expired' as const,
      to: [permit.owner],
      data: renderPermitOutcome(permit),
      timestampMs,
    })),
  );
}

/** To the account whose sidecar has taken the outcome. */
export async function emitRefused(
  tx: Transaction,
  deps: Pick<BaseDeps, 'random'>,
  refused: readonly ReportedOutcome[],
  timestampMs: UnixMillis,
): Promise<void> {
  await emitEvents(
    tx,
    deps,
    refused.map((outcome) => ({
      event: 'outcome.refused' as const,
      to: [outcome.owner],
      data: renderReportedOutcome({
        ...outcome,
        refusal: must(outcome.refusal, 'what is refused has a reason'),
      }),
      timestampMs,
    })),
  );
}
