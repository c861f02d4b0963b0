import {
  type DrawnWindow,
  type DrawnWindows,
  drawnName,
  ofWallets,
} from '../../shared/decision/windows-of.ts';
import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { federatedTokenHash } from '../../shared/model/federation.ts';
import { type AccountId, isId, type PassportId, type SidecarId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, isMoney, isOfUser } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import { postedUnits } from '../book/holder-store.ts';
import { quotaLimits } from '../book/limits.ts';
import { distinct } from '../storage/distinct.ts';
import { together } from '../storage/together.ts';
import { mayHaveMoved, type WalletPath } from './wallet-paths.ts';

/** The units a sidecar's PERMIT claims to have taken, and those it must have taken. */
export interface Take {
  readonly record: Pick<
    AttestationRecord,
    | 'source'
    | 'sourceAccount'
    | 'gateId'
    | 'passportId'
    | 'permissionKey'
    | 'amountMicroUsd'
    | 'timestampMs'
    | 'walletPath'
    | 'asserted'
  >;
  /** Null: not stated. */
  readonly took: readonly number[] | null;
  /** Owner of the passport; null if none verified. */
  readonly passportOwner: Pick<Owner, 'accountId'> | null;
  /** Of the passport's own limits, which never change, and its wallets now; absent: none. */
  readonly ownWindows?: DrawnWindows | undefined;
  /** The passport's wallets now; absent: it is and was in none. */
  readonly walletPath?: WalletPath | undefined;
  /** Null: any holder of the sidecar. */
  readonly holder: string | null;
  /** An approval pays the money. */
  readonly isPaid: boolean;
  /** The passport asks for an approval, and the request presented none: a standing one must answer for it. */
  readonly needsApproval: boolean;
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
  /** Units that no PERMIT took and that were not returned. */
  readonly unused: number;
  /** Null: the lease is of none. */
  readonly standingApproval: StandingApprovalFact | null;
  /** Of a wallet: whose it is. Null: the lease is of none. */
  readonly wallet: WalletFact | null;
}

interface WalletFact {
  readonly accountId: AccountId;
}

interface StandingApprovalFact {
  /** Of the passports that these takes name: those that it is for. */
  readonly passportIds: readonly PassportId[];
  readonly permissionKey: string;
  readonly eachMicroUsd: MicroUsd;
  readonly isInForce: boolean;
}

interface HeldLease extends Omit<LeaseRow, 'unused'> {
  readonly isMoney: boolean;
  /** Owner of the counter; null: any. */
  readonly gateId: string | null;
  readonly passportId: string | null;
  /** Reduced by each accepted take. */
  unused: number;
}

/** Leases, unchanged until the transaction ends. */
export type HeldLeases = ReadonlyMap<number, HeldLease>;

/**
 * Reads leases with their remaining units, and locks those of the naming sidecar until the transaction ends.
 * Limits of a passport protect its owner from every gate, so their leases are locked exclusively: of two
 * takers of the last units the second finds them gone. Limits of a gate belong to the sidecar's own account,
 * which could also raise them, so a share lock is enough: a second taker may pass, but a void returns only
 * units that are there. Leases of other sidecars are not locked.
 *
 * Locks before approvals and chains, in the order of ids, in one round trip.
 */
export async function holdLeases(tx: Transaction, takes: readonly Take[]): Promise<HeldLeases> {
  const ids = [...new Set(takes.flatMap(({ took }) => took ?? []))];
  const [first] = takes;
  if (first === undefined || ids.length === 0) return new Map();
  const isShared = takes.some((take) => drawsOnOwn(take) || take.walletPath !== undefined);
  const [, , rows] = await together([
    // All get a weak lock first, because other code locks leases in one statement.
    () => tx`${ownLeases(tx, ids, first.record)} ORDER BY lease_id FOR KEY SHARE OF l`,
    () =>
      isShared
        ? tx`${ownLeases(tx, ids, first.record)}
            AND split_part(l.counter, ':', 1) IN ('passport_rate', 'passport_spend', 'wallet_rate', 'wallet_spend')
            ORDER BY lease_id FOR NO KEY UPDATE OF l`
        : Promise.resolve(),
    // A separate statement, so that it sees posts of the transactions that the locks waited for.
    () => tx<LeaseRow[]>`
      SELECT l.lease_id AS "leaseId", h.sidecar_id AS "sidecarId", l.holder, l.counter, l.window_name AS window,
        l.starts_at_ms AS "startsAtMs", l.ends_at_ms AS "endsAtMs", l.made_at_ms AS "madeAtMs",
        l.units - ${postedUnits(tx)} AS unused,
        CASE WHEN l.window_name = 'total' THEN (
          SELECT jsonb_build_object('permissionKey', s.permission_key, 'eachMicroUsd', s.each_micro_usd,
            'isInForce', s.ended_at_ms IS NULL, 'passportIds', ${passportsUnder(tx, takes)})
          FROM standing_approvals s WHERE s.standing_approval_id = split_part(l.counter, ':', 3)) END AS "standingApproval",
        CASE WHEN l.counter LIKE 'wallet!_%' ESCAPE '!' THEN (
          SELECT jsonb_build_object('accountId', w.account_id)
          FROM wallets w WHERE w.wallet_key = split_part(l.counter, ':', 2)) END AS wallet
      FROM quota_leases l JOIN lease_holders h USING (holder) WHERE l.lease_id = ANY(${ids}::bigint[])`,
  ]);
  return new Map(rows.map((row) => [row.leaseId, heldLease(row)]));
}

/**
 * As `isFor`. The owner of a subject of another issuer is what its token says, and that may be another token
 * than the last one seen.
 */
const passportsUnder = (tx: Transaction, takes: readonly Take[]) => tx`(
  SELECT coalesce(jsonb_agg(p.passport_id), '[]') FROM passports p
  WHERE p.passport_id = ANY(${distinct(takes.map(({ record }) => record.passportId))}::text[])
    AND (p.passport_id = s.passport_id OR (s.owner IS NOT NULL AND p.account_id = s.account_id AND p.mode = s.mode
      AND (p.owner = s.owner OR p.token_hash = ${federatedTokenHash}))))`;

/** All takes of a transaction belong to one sidecar. */
const ownLeases = (tx: Transaction, ids: readonly number[], { source }: Take['record']) => tx`
  SELECT FROM quota_leases l JOIN lease_holders h USING (holder)
  WHERE l.lease_id = ANY(${[...ids]}::bigint[]) AND h.sidecar_id = ${source}`;

/** A lease is for a counter of a gate or a passport; plans are not leased. */
function heldLease(row: LeaseRow): HeldLease {
  const [kind = '', owner = null, part = null] = row.counter.split(':');
  const of = { ...row, isMoney: isMoney(row.counter) };
  if (kind === 'wallet_spend' || kind === 'wallet_rate') return { ...of, gateId: null, passportId: null };
  // Whose user it is, the gate's account says: the limit is its own, as one of the gate alone.
  const passport = part === null || isId('sappr', part) || isOfUser(row.counter) ? null : part;
  const isOfGate = kind === 'gate_spend' || kind === 'gate_rate';
  return { ...of, gateId: isOfGate ? owner : null, passportId: isOfGate ? passport : owner };
}

/**
 * Why these PERMITs cannot have taken the units they claim (contract §6 and §9), in their order; null if they
 * can. The message names the field, never its value.
 *
 * `ended`: how to treat a missing lease. `refuse` for a PERMIT that is being settled, because the units went
 * back. `believe` for one answered long ago: the lease may have gone with its window, its holder or a
 * restore, and none of its units can return.
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

/** Null: there is no such lease, or its number was reused since the decision. */
function leaseAt(leases: HeldLeases, id: number, { record: { timestampMs } }: Take): HeldLease | null {
  const lease = leases.get(id);
  return lease === undefined || timestampMs + quotaLimits.leaseClockLeewayMs < lease.madeAtMs ? null : lease;
}

/** The leases that this take took money from, as the ledger knows them. */
export const moneyLeases = (leases: HeldLeases, take: Take): readonly number[] =>
  (take.record.amountMicroUsd ?? 0) === 0
    ? []
    : (take.took ?? []).filter((id) => {
        const lease = leaseAt(leases, id, take);
        return lease?.isMoney === true && lease.sidecarId === take.record.source;
      });

function whyNot(
  named: readonly (HeldLease | null)[],
  take: Take,
  ended: 'refuse' | 'believe',
): string | null {
  const { record, took, ownWindows = noWindows, passportOwner, holder, isPaid } = take;
  // Leases of another account's passport have always had numbers.
  if (took === null)
    return drawsOnOwn(take) && passportOwner?.accountId !== record.sourceAccount ? 'took is missing' : null;
  const leases = named.filter((lease) => lease !== null);
  const gone = named.length - leases.length;
  if (gone > 0 && ended === 'refuse') return 'took names a lease that has ended';
  for (const lease of leases) {
    const { standingApproval } = lease;
    if (lease.sidecarId !== record.source || (holder !== null && lease.holder !== holder))
      return 'took names a lease of another holder';
    if (!isDrawnOn(lease, take) || !isOfItsWallet(lease, take))
      return 'took names a lease that is not of this gate and passport';
    if (!isIn(lease, record.timestampMs)) return 'took names a lease of another time';
    if (unitsOf(lease, take) > lease.unused) return 'took is more than a lease has left';
    if (standingApproval !== null && !isUnder(standingApproval, record))
      return 'took names a standing approval that is not for this request';
    if (standingApproval?.isInForce === false && ended === 'refuse') return standingApprovalHasEnded;
  }
  // A lease that is gone may have been of one.
  if (take.needsApproval && gone === 0 && leases.every((lease) => lease.standingApproval === null))
    return 'an approval that passport_id asks for is missing';
  const isCharged = !isPaid && (record.amountMicroUsd ?? 0) > 0;
  const names = new Set(leases.map(drawnName));
  const countLacking = (windows: readonly DrawnWindow[]): number =>
    windows.filter((each) => (isCharged || !isMoney(each.counter)) && !names.has(drawnName(each))).length;
  const lacking = countLacking([...ownWindows.spend, ...ownWindows.rate]);
  if (lacking > gone) return 'took lacks a lease of a limit of passport_id';
  const lackingLanes = hasMoved(take) ? 0 : countLacking(ofWallets(ownWindows));
  return lacking + lackingLanes > gone ? 'took lacks a lease of a wallet of passport_id' : null;
}

const noWindows: DrawnWindows = { spend: [], rate: [], levels: [] };

/** It has a limit of its own, or is in a wallet. */
export const drawsOnOwn = ({ ownWindows = noWindows }: Pick<Take, 'ownWindows'>): boolean =>
  ownWindows.spend.length + ownWindows.rate.length + ownWindows.levels.length > 0;

const hasMoved = ({ walletPath, record: { timestampMs } }: Take): boolean =>
  walletPath !== undefined && mayHaveMoved(walletPath, timestampMs);

/**
 * A lease of a wallet is one of those that the passport draws on, or of the path that the record names, which
 * it drew on until it was moved. Who knew no path took from no wallet, or the money would be in no statement.
 * A record in form 1 has no room for a path, and may name any wallet of the passport's account.
 */
function isOfItsWallet({ counter, wallet }: HeldLease, take: Take): boolean {
  if (!counter.startsWith('wallet_')) return true;
  const { walletPath: named, asserted } = take.record;
  if (named === null && asserted !== null) return false;
  if (ofWallets(take.ownWindows ?? noWindows).some((each) => each.counter === counter)) return true;
  const key = counter.split(':')[1];
  const isNamed =
    named === null ? wallet?.accountId === take.passportOwner?.accountId : named.some((each) => each === key);
  return wallet !== null && isNamed && hasMoved(take);
}

/** The sidecar has not heard of the end yet: it decides again. */
export const standingApprovalHasEnded = 'took names a standing approval that has ended';

/** The permission is null where it is not recorded, because personal data is in it. */
const isUnder = (
  { passportIds, permissionKey, eachMicroUsd }: StandingApprovalFact,
  { passportId: of, permissionKey: asked, amountMicroUsd }: Take['record'],
): boolean =>
  of !== null &&
  passportIds.includes(of) &&
  (asked === null || asked === permissionKey) &&
  amountMicroUsd !== null &&
  amountMicroUsd > 0 &&
  amountMicroUsd <= eachMicroUsd;

const unitsOf = ({ isMoney }: HeldLease, { record: { amountMicroUsd } }: Take): number =>
  isMoney ? (amountMicroUsd ?? 0) : 1;

/** The window is by the grantor's clock, the decision by the sidecar's estimate of it. */
const isIn = ({ startsAtMs, endsAtMs }: HeldLease, atMs: UnixMillis): boolean =>
  atMs + quotaLimits.leaseClockLeewayMs >= startsAtMs && atMs < endsAtMs + quotaLimits.leaseClockLeewayMs;

const isDrawnOn = ({ gateId, passportId }: HeldLease, { record }: Take): boolean =>
  (gateId === null || gateId === record.gateId) && (passportId === null || passportId === record.passportId);
