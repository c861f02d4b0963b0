import type { RequestFacts } from '../../shared/decision/facts.ts';
import { must } from '../../shared/errors/assert.ts';
import type { ApiKeyId, AttestationId } from '../../shared/model/ids.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { type Attempt, type RecordContext, recordOf } from '../decide/record.ts';
import { leasesOf } from '../quota/held-view.ts';
import type { LeaseHolder } from '../quota/lease-holder.ts';
import type { Reservation } from '../quota/reservation.ts';
import type { UnsentSettlement } from './open-settlement.ts';
import { permitOf, suspendOf } from './settlement-of.ts';
import type { SettlementToVoid } from './settlement-voids.ts';

interface PrepareDeps {
  readonly leases: Pick<LeaseHolder, 'reserve'>;
  readonly random: Random;
}

/** What a decision reserves for a settlement, and the settlement; in the section that decided. */
export interface Prepared {
  readonly settlement: UnsentSettlement;
  readonly reservation: Reservation;
  /** See SettledRequest.reader_id. */
  readonly readerId: AttestationId;
  /** What voids it, but for its reading. */
  readonly voids: SettlementToVoid;
}

interface Asker {
  /** Null: a peer that is trusted without a key. */
  readonly askedBy: ApiKeyId | null;
}

export function preparePermit(deps: PrepareDeps, attempt: Attempt, context: RecordContext): Prepared {
  const { view, charge } = chargeOf(attempt);
  const record = recordOf(attempt, context);
  const reservation = deps.leases.reserve(view, charge);
  const voids = voidOf(attempt.attestationId, attempt, leasesOf(view, charge));
  const readerId = newReaderId(deps, attempt);
  return { settlement: permitOf(attempt, { readerId, record }), reservation, readerId, voids };
}

export function prepareSuspend(
  deps: PrepareDeps,
  attempt: Attempt,
  { permissionKey, display, askedBy }: RecordContext & Pick<RequestFacts, 'display'> & Asker,
): Prepared {
  const { view, charge } = chargeOf(attempt);
  const approvalId = deps.random.newId('appr', attempt.nowMs);
  const reservation = deps.leases.reserve(view, charge);
  const readerId = newReaderId(deps, attempt);
  const settlement = suspendOf(attempt, {
    readerId,
    approvalId,
    permissionKey,
    display,
    askedBy,
    held: reservation.held(),
  });
  return { settlement, reservation, readerId, voids: voidOf(approvalId, attempt, leasesOf(view, charge)) };
}

export const newReaderId = ({ random }: Pick<PrepareDeps, 'random'>, { nowMs }: Attempt): AttestationId =>
  random.newId('att', nowMs);

const voidOf = (
  id: SettlementToVoid['voids'],
  { decision }: Attempt,
  took: readonly number[] | undefined,
): SettlementToVoid => ({
  voids: id,
  ...(took === undefined ? {} : { took }),
  amount_micro_usd: decision.amountMicroUsd,
});

const chargeOf = ({ view, decision }: Attempt) => ({
  view: must(view, 'only a verified passport is charged'),
  charge: must(decision.charge, 'settled decisions always carry a charge'),
});
