import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { SidecarId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { WindowLimit } from '../../shared/quota/window-limit.ts';
import type { Transaction } from '../base/database.ts';
import { together } from '../storage/together.ts';
import { postedUnits } from './holder-store.ts';
import { quotaLimits } from './limits.ts';

/** What a PERMIT of a sidecar says it took, and what it has to have taken. */
export interface Take {
  readonly record: Pick<
    AttestationRecord,
    'source' | 'sourceAccount' | 'gateId' | 'passportId' | 'amountMicroUsd' | 'timestampMs'
  >;
  /** Null: it does not say. */
  readonly took: readonly number[] | null;
  /** Of the passport; null where none verified. */
  readonly passportOwner: Pick<Owner, 'accountId'> | null;
  /** Limits of the passport itself, which it draws on at every gate. They never change. */
  readonly ownLimits: readonly WindowLimit[];
  /** Null: any holder of the sidecar. */
  readonly holder: string | null;
  /** An approval pays the money. */
  readonly isPaid: boolean;
}

interface LeaseRow {
  readonly leaseId: number;
  readonly sidecarId: SidecarId;
  readonly holder: string;
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
  readonly madeAtMs: UnixMillis;
  /** What no PERMIT took and did not go back. */
  readonly unused: number;
}

interface HeldLease extends Omit<LeaseRow, 'unused'> {
  readonly isMoney: boolean;
  /** Whose counter it is; null: any. */
  readonly gateId: string | null;
  readonly passportId: string | null;
  /** Takes that pass are subtracted. */
  unused: number;
}

/** Leases as they are until the transaction ends. */
export type HeldLeases = ReadonlyMap<number, HeldLease>;

/**
 * Reads leases with what they have left, and keeps those of the sidecar that names them from going away until
 * the transaction ends. Those of a passport's own limits are everybody's: they are locked, so that of two who
 * take the last units the second finds them taken. Those of a gate are its own account's, which could raise
 * the limit as well; there the second may pass, and gets nothing back that is not there. Leases of others,
 * whoever names them, are locked for nobody.
 *
 * Before approvals and chains, in the order of their ids; one journey.
 */
export async function holdLeases(tx: Transaction, takes: readonly Take[]): Promise<HeldLeases> {
  const ids = [...new Set(takes.flatMap(({ took }) => took ?? []))];
  const [first] = takes;
  if (first === undefined || ids.length === 0) return new Map();
  const isShared = takes.some(({ ownLimits }) => ownLimits.length > 0);
  const [, , rows] = await together([
    // All of them weakly at first: whoever locks leases otherwise does it in one go.
    () => tx`${ownLeases(tx, ids, first.record)} ORDER BY lease_id FOR KEY SHARE OF l`,
    () =>
      isShared
        ? tx`${ownLeases(tx, ids, first.record)}
            AND split_part(l.counter, ':', 1) IN ('passport_rate', 'passport_spend')
            ORDER BY lease_id FOR NO KEY UPDATE OF l`
        : Promise.resolve(),
    // A statement of its own, which sees what was posted by whoever those before it had to wait for.
    () => tx<LeaseRow[]>`
      SELECT l.lease_id AS "leaseId", h.sidecar_id AS "sidecarId", l.holder, l.counter, l.window_name AS window,
        l.starts_at_ms AS "startsAtMs", l.ends_at_ms AS "endsAtMs", l.made_at_ms AS "madeAtMs",
        l.units - ${postedUnits(tx)} AS unused
      FROM quota_leases l JOIN lease_holders h USING (holder) WHERE l.lease_id = ANY(${ids}::bigint[])`,
  ]);
  return new Map(rows.map((row) => [row.leaseId, heldLease(row)]));
}

/** All takes of a transaction are of one sidecar. */
const ownLeases = (tx: Transaction, ids: readonly number[], { source }: Take['record']) => tx`
  SELECT FROM quota_leases l JOIN lease_holders h USING (holder)
  WHERE l.lease_id = ANY(${[...ids]}::bigint[]) AND h.sidecar_id = ${source}`;

/** The counter of a lease is one of a gate or a passport: plans are not leased. */
function heldLease(row: LeaseRow): HeldLease {
  const [kind = '', owner = null, passport = null] = row.counter.split(':');
  const isMoney = kind === 'gate_spend' || kind === 'passport_spend';
  const isOfGate = kind === 'gate_spend' || kind === 'gate_rate';
  return { ...row, isMoney, gateId: isOfGate ? owner : null, passportId: isOfGate ? passport : owner };
}

/**
 * Why these PERMITs cannot have taken what they say (contract §6 and §9), in their order; null: they can.
 * The message names the field, never its value.
 *
 * `ended`: what it means that a lease is not there. `refuse`, where the PERMIT is to become true now: its
 * units went back. `believe`, where it was answered long ago: the lease may have gone with its window, its
 * holder or a restore, and nothing can come back of it.
 */
export function judgeTakes(
  leases: HeldLeases,
  takes: readonly Take[],
  ended: 'refuse' | 'believe',
): readonly (string | null)[] {
  return takes.map((take) => {
    const named = (take.took ?? []).map((id) => leaseAt(leases, id, take));
    const fault = whyNot(named, take, ended);
    if (fault === null) for (const lease of named) if (lease !== null) lease.unused -= unitsOf(lease, take);
    return fault;
  });
}

/** Null: it is not there, or its number was given anew since the decision. */
function leaseAt(leases: HeldLeases, id: number, { record: { timestampMs } }: Take): HeldLease | null {
  const lease = leases.get(id);
  return lease === undefined || timestampMs + quotaLimits.leaseClockLeewayMs < lease.madeAtMs ? null : lease;
}

function whyNot(
  named: readonly (HeldLease | null)[],
  take: Take,
  ended: 'refuse' | 'believe',
): string | null {
  const { record, took, ownLimits, passportOwner, holder, isPaid } = take;
  // A lease of another account's passport has always had a number.
  if (took === null)
    return ownLimits.length > 0 && passportOwner?.accountId !== record.sourceAccount
      ? 'took is missing'
      : null;
  const leases = named.filter((lease) => lease !== null);
  const gone = named.length - leases.length;
  if (gone > 0 && ended === 'refuse') return 'took names a lease that has ended';
  for (const lease of leases) {
    if (lease.sidecarId !== record.source || (holder !== null && lease.holder !== holder))
      return 'took names a lease of another holder';
    if (!isDrawnOn(lease, take)) return 'took names a lease that is not of this gate and passport';
    if (!isIn(lease, record.timestampMs)) return 'took names a lease of another time';
    if (unitsOf(lease, take) > lease.unused) return 'took is more than a lease has left';
  }
  const isCharged = !isPaid && (record.amountMicroUsd ?? 0) > 0;
  const lacking = ownLimits.filter(
    ({ kind, window }) =>
      (kind === 'passport_rate' || isCharged) &&
      !leases.some(
        (lease) =>
          lease.window === window && lease.gateId === null && lease.isMoney === (kind === 'passport_spend'),
      ),
  );
  return lacking.length > gone ? 'took lacks a lease of a limit of passport_id' : null;
}

const unitsOf = ({ isMoney }: HeldLease, { record: { amountMicroUsd } }: Take): number =>
  isMoney ? (amountMicroUsd ?? 0) : 1;

/** A window by the clock of its grantor, and the decision by the one that a sidecar has carried on. */
const isIn = ({ startsAtMs, endsAtMs }: HeldLease, atMs: UnixMillis): boolean =>
  atMs + quotaLimits.leaseClockLeewayMs >= startsAtMs && atMs < endsAtMs + quotaLimits.leaseClockLeewayMs;

const isDrawnOn = ({ gateId, passportId }: HeldLease, { record }: Take): boolean =>
  (gateId === null || gateId === record.gateId) && (passportId === null || passportId === record.passportId);
