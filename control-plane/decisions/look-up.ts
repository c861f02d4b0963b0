import type { PresentedApproval } from '../../shared/model/approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import {
  type ApprovalBinding,
  findPendingApproval,
  findPendingIds,
  readPresentedApproval,
} from '../approvals/approval-store.ts';
import type { Transaction } from '../base/database.ts';
import { limitsMayChange } from '../book/unused-units.ts';
import { findClaims } from './claim-settlements.ts';
import { holdSettlements, type Reading, readSettlements } from './read-settlements.ts';
import { answerEarlier, type LookUp } from './settled-request.ts';
import type { ClaimedPermit } from './settlement.ts';

/**
 * Looks up presented approvals, keys, and pending approvals of the same requests. Takes nothing. Answers are
 * in the order of the look-ups.
 *
 * Unused units of other holders are read before the keys: a copy of the request claims its key before it
 * posts its units, so a reader that sees neither has missed nothing. They are read again after the keys: the
 * void of a copy frees key and units together, and a reader between the two would find the key gone but the
 * units still taken.
 */
export async function lookUpAll(
  tx: Transaction,
  lookUps: readonly LookUp[],
  nowMs: UnixMillis,
): Promise<readonly SettlementAnswer[]> {
  if (lookUps.length === 0) return [];
  const presented: (Presented | null)[] = [];
  for (const each of lookUps) presented.push(await readPresented(tx, each, nowMs));
  const isRefused = (place: number): boolean => {
    const standing = presented[place]?.standing;
    return standing !== undefined && refusing.has(standing);
  };
  const short = lookUps.map((each, place) => (isRefused(place) ? [] : each.short));
  const mayChange = await limitsMayChange(tx, short);
  // A look-up that its approval refuses reads no PERMIT: its sidecar would not void that reading.
  const asked = lookUps.map((each, place) => (isRefused(place) ? { ...each, key: null } : each));
  const claims = await findClaims(tx, asked, nowMs);
  const mayHaveChanged = await limitsMayChange(
    tx,
    short.map((windows, place) => (claims[place] !== null || mayChange[place] === true ? [] : windows)),
  );
  const bound = lookUps.flatMap(({ binding }) => (binding === null ? [] : [binding]));
  const pending = await findPendingIds(tx, bound);
  // Held together, before they are found one by one.
  await holdSettlements(tx, pending);
  const answers: SettlementAnswer[] = [];
  for (const [place, each] of lookUps.entries()) {
    const known = {
      presented: presented[place] ?? null,
      earlier: claims[place] ?? null,
      isOnePending: pending.length > 0,
      nowMs,
    };
    const found = await lookUpOne(tx, each, known);
    answers.push(
      found ?? { kind: 'none', may_change: mayChange[place] === true || mayHaveChanged[place] === true },
    );
  }
  return answers;
}

/**
 * An approval that refuses the request outranks the key: `decide` checks it before any limit, and only
 * effects of the first PERMIT itself allow a replay of it (shared/decision/may-be-replay.ts).
 */
async function lookUpOne(
  tx: Transaction,
  lookUp: LookUp,
  known: {
    readonly presented: Presented | null;
    readonly earlier: ClaimedPermit | null;
    /** Of any of the look-ups; most find none. */
    readonly isOnePending: boolean;
    readonly nowMs: UnixMillis;
  },
): Promise<SettlementAnswer | null> {
  const { presented, earlier, isOnePending, nowMs } = known;
  const { binding } = lookUp;
  if (presented !== null && refusing.has(presented.standing)) return presented;
  if (earlier !== null) return answerEarlier(earlier, lookUp);
  if (presented !== null) return presented;

  if (!isOnePending || binding === null) return null;
  const waiting = await findWaiting(tx, { binding, reader: lookUp }, nowMs);
  if (waiting === null) return null;
  const { approvalId, expiresAtMs } = waiting;
  return { kind: 'suspended', approval_id: approvalId, expires_at_ms: expiresAtMs, is_new: false };
}

/** The pending approval of the same request, read by this reader. */
export async function findWaiting(
  tx: Transaction,
  { binding, reader }: { readonly binding: ApprovalBinding; readonly reader: Omit<Reading, 'reads'> },
  nowMs: UnixMillis,
): Promise<Awaited<ReturnType<typeof findPendingApproval>>> {
  const waiting = await findPendingApproval(tx, binding);
  if (waiting === null || waiting.expiresAtMs <= nowMs) return null;
  const { readerId, source } = reader;
  const gone = await readSettlements(tx, [{ reads: waiting.approvalId, readerId, source }], nowMs);
  return gone.size > 0 ? null : waiting;
}

type Presented = Extract<SettlementAnswer, { kind: 'approval' }>;

/** `used` is not included: the first PERMIT of the key may have used it. */
const refusing: ReadonlySet<PresentedApproval> = new Set<Presented['standing']>([
  'mismatch',
  'denied',
  'expired',
]);

async function readPresented(
  tx: Transaction,
  { approvalId, binding }: Pick<LookUp, 'approvalId' | 'binding'>,
  nowMs: UnixMillis,
): Promise<Presented | null> {
  if (approvalId === null) return null;
  if (binding === null) return { kind: 'approval', standing: 'mismatch', expires_at_ms: null };
  const { state, expiresAtMs } = await readPresentedApproval(tx, approvalId, binding, nowMs);
  return { kind: 'approval', standing: state, expires_at_ms: expiresAtMs };
}
