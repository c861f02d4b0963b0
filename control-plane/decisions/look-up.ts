import type { PresentedApproval } from '../../shared/model/approval.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { counterOfLease } from '../../shared/wire/lease-call.ts';
import type { LookUpSettlement, SettlementAnswer, WindowOfLease } from '../../shared/wire/settlement.ts';
import { type ApprovalBinding, findPendingApproval, readStanding } from '../approvals/approval-store.ts';
import type { RecordSender } from '../attestations/judge-records.ts';
import type { Transaction } from '../deps.ts';
import { holdersHaveUnused, type LedgerWindow } from '../leases/unused-units.ts';
import type { Parties } from './read-parties.ts';
import { answerEarlier, bindingNow, keyOf } from './settled-request.ts';
import { type ClaimedPermit, findClaims, markAnswered } from './settlement-store.ts';

/** A look-up of a sidecar, and what it is about. */
export interface AdmittedLookUp {
  readonly lookUp: LookUpSettlement;
  readonly parties: Parties;
}

/**
 * What is known of presented approvals, of keys, and of pending approvals of the same requests. Takes nothing. Answers are in the order of the look-ups.
 *
 * Units that other holders have not used yet are read before the keys: a copy of the request posts its units after its key is claimed, so whoever sees
 * neither has missed nothing.
 */
export async function lookUpAll(
  tx: Transaction,
  admitted: readonly AdmittedLookUp[],
  sender: RecordSender,
): Promise<readonly SettlementAnswer[]> {
  if (admitted.length === 0) return [];
  const short = admitted.map(({ lookUp }) => lookUp.short.map(ledgerWindow));
  const mayChange = await holdersHaveUnused(tx, short);
  const claims = await findClaims(
    tx,
    admitted.map(({ lookUp }) => ({
      key: keyOf(lookUp, sender.accountId),
      requestHash: lookUp.request_hash,
    })),
    sender.nowMs,
  );
  const answers: SettlementAnswer[] = [];
  for (const [place, each] of admitted.entries()) {
    const found = await lookUpOne(tx, each, { ...sender, earlier: claims[place] ?? null });
    answers.push(found ?? { kind: 'none', may_change: mayChange[place] ?? false });
  }
  return answers;
}

const ledgerWindow = (short: WindowOfLease): LedgerWindow => ({
  counter: counterKey(counterOfLease(short)),
  window: short.window,
  startsAtMs: short.starts_at_ms,
});

/**
 * An approval that refuses the request comes before the key, because `decide` looks at it before any limit, and only what the first PERMIT itself
 * leaves behind lets the first one be answered again (shared/decision/may-be-replay.ts).
 */
async function lookUpOne(
  tx: Transaction,
  { lookUp, parties }: AdmittedLookUp,
  { nowMs, earlier }: RecordSender & { readonly earlier: ClaimedPermit | null },
): Promise<SettlementAnswer | null> {
  const binding = bindingNow(lookUp, parties.gate);
  const presented =
    lookUp.approval_id === null ? null : await readPresented(tx, lookUp.approval_id, binding, nowMs);
  if (presented !== null && refusing.has(presented.standing)) return presented;
  if (earlier !== null) return answerEarlier(earlier, lookUp);
  if (presented !== null) return presented;

  const waiting = binding === null ? null : await findWaiting(tx, binding, nowMs);
  if (waiting === null) return null;
  const { approvalId, expiresAtMs } = waiting;
  return { kind: 'suspended', approval_id: approvalId, expires_at_ms: expiresAtMs, is_new: false };
}

/** The approval under which the same request waits. It is answered with from here on: the void of the request that opened it finds that. */
export async function findWaiting(
  tx: Transaction,
  binding: ApprovalBinding,
  nowMs: RecordSender['nowMs'],
): Promise<Awaited<ReturnType<typeof findPendingApproval>>> {
  const waiting = await findPendingApproval(tx, binding);
  if (waiting === null || waiting.expiresAtMs <= nowMs) return null;
  const voided = await markAnswered(tx, [waiting.approvalId]);
  return voided.has(waiting.approvalId) ? null : waiting;
}

type Presented = Extract<SettlementAnswer, { kind: 'approval' }>;

/** `used` is not among them: it may be the first PERMIT of the key that used it. */
const refusing: ReadonlySet<PresentedApproval> = new Set<Presented['standing']>([
  'mismatch',
  'denied',
  'expired',
]);

async function readPresented(
  tx: Transaction,
  approvalId: NonNullable<LookUpSettlement['approval_id']>,
  binding: ApprovalBinding | null,
  nowMs: RecordSender['nowMs'],
): Promise<Presented> {
  if (binding === null) return { kind: 'approval', standing: 'mismatch', expires_at_ms: null };
  const { standing, expiresAtMs } = await readStanding(tx, approvalId, binding, nowMs);
  return { kind: 'approval', standing, expires_at_ms: expiresAtMs };
}
