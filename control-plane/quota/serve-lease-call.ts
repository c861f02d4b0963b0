/**
 * Room `control-plane/quota`: units for sidecars. This file serves their lease calls and describes the life
 * of a unit, `find-limits.ts` and `find-lanes.ts` say what they may ask for, `judge-takes.ts` what a PERMIT
 * can have taken, `charge-more.ts` takes money beyond a hold.
 */

import type { AccountId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import { currentWindow, type QuotaWindow, windowAt, windowKey } from '../../shared/quota/window.ts';
import {
  counterOfLease,
  type LeaseAnswer,
  type LeaseCall,
  type LeaseRequest,
} from '../../shared/wire/sync/lease-call.ts';
import type { Database, Transaction } from '../base/database.ts';
import { type HeldUnits, heldUnits } from '../book/held-units.ts';
import {
  beginHolder,
  findLeases,
  type LastCall,
  type LeaseRow,
  lockHolder,
  lockLeases,
  type StoredGrant,
  saveCall,
  takeFromHolder,
  trimLeases,
} from '../book/holder-store.ts';
import { foldPosts } from '../book/lease-posts.ts';
import { moveUnits, type WindowMove } from '../book/ledger.ts';
import { quotaLimits } from '../book/limits.ts';
import { lentUnits } from '../book/unused-units.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { beginReading, sendWithCommit, together } from '../storage/together.ts';
import { type ConnectionStatus, readConnectionStatus } from '../sync/sidecar-store.ts';
import { type FoundLimit, readWalletsOf } from './find-lanes.ts';
import { findLimits } from './find-limits.ts';

export type LeaseCallOutcome =
  | { readonly kind: 'answered'; readonly answer: LeaseAnswer }
  /** The holder is unknown here, and must drop all of its units. */
  | { readonly kind: 'holder_unknown' }
  | { readonly kind: Exclude<ConnectionStatus, 'newest'> };

/**
 * The life of a unit, a request or a micro-dollar of one calendar window:
 *
 *     free ──lease──> leased to a holder ──PERMIT──> posted        posted: used by the holder, as its record says
 *      │ ^               │  │                          ^
 *      │ └──give back────┘  └──SUSPEND──┐              │
 *      │ └──denied, expired──────────> held ──PERMIT───┘           held: by an approval
 *      └────the control plane's own PERMIT or SUSPEND──^
 *
 * `quota_windows.leased` counts all units that are not free: leased, held and posted. It grows only by a
 * grant, which stays within the limit, and shrinks only when the owner of units gives them up. So posted +
 * held never pass the limit, whatever crashes. `quota_leases` counts what each holder was leased and has not
 * passed on; `lease_posts` counts what its records took of that, and `used` the posts folded so far. A
 * return, a SUSPEND and the end of an epoch draw on the unused units of the lease, the void of a PERMIT on
 * its used units, which `former_leases` keeps where the lease goes first: a lying holder cannot free units
 * given to others. When the window ends, all of its units end, wherever they are, and the next window begins
 * with all units free.
 *
 * A crash only ever leaves unused units counted, at most until the window ends. What crashes, and when:
 *   the holder                       it starts anew under another name; what no record took of the old leases
 *                                    goes back when its spool has been shipped to the end and nothing of it
 *                                    can be missing (return-leases.ts)
 *   the control plane before commit  nothing has happened; the holder sends the same call again
 *   after it, or the answer is lost  the holder sends the same call again and is answered the same: nothing
 *                                    moves twice
 *   the database, set back by a restore  the holder's number is not the next one: `holder_unknown`, and it
 *                                        uses nothing of what it has
 *   the control plane stands still   PostgreSQL ends its session after `storageLimits.lockingPauseMsMax`, as
 *                                    if it had crashed
 *   a lock is not had                within `quotaLimits.leaseLockMsMax`: nothing has happened, and the call
 *                                    is refused with `overloaded`; the holder sends it again
 *
 * One call is one transaction. To prevent deadlocks it locks in this order: the row of the holder, its
 * leases, and last, with one statement for returns and grants, the quota windows in the order of their key
 * (see book/ledger.ts).
 */
export async function serveLeaseCall(
  sql: Database,
  accountId: AccountId,
  call: LeaseCall,
  nowMs: UnixMillis,
): Promise<LeaseCallOutcome> {
  const answered = await beginReading(sql, async (tx): Promise<() => Promise<Answered>> => {
    const { holder, seq } = call;
    const { sender, last, limits } = await beginCall(tx, accountId, call, nowMs);
    if (sender !== 'newest') return unmoved({ kind: sender });
    if (last === null || (seq !== last.seq && seq !== last.seq + 1))
      return unmoved({ kind: 'holder_unknown' });
    if (seq === last.seq) return unmoved(await answerAgain(tx, call, last, nowMs));
    if (mayFold(call)) await foldPosts(tx, holder);
    return answerNext(tx, { call, limits, nowMs });
  });
  const { outcome, made } = await answered();
  if (made > 0) await trimLeases(sql, nowMs);
  if (outcome.kind !== 'answered') return outcome;
  const answer = await withLent(sql, call, outcome.answer);
  const wallets = await readWalletsOf(sql, accountId, call.wallets ?? []);
  return { ...outcome, answer: call.wallets === undefined ? answer : { ...answer, wallets } };
}

interface BegunCall {
  readonly sender: ConnectionStatus;
  readonly last: LastCall | null;
  /** By index of the ask. */
  readonly limits: Awaited<ReturnType<typeof findLimits>>;
}

/** One round trip, except for a holder's first call, which inserts the holder. */
async function beginCall(
  tx: Transaction,
  accountId: AccountId,
  call: LeaseCall,
  nowMs: UnixMillis,
): Promise<BegunCall> {
  const { sidecar_id: sidecarId, connection_id: connectionId, holder, seq, asks } = call;
  // Not locked, as for records: a call that passes just before another process connects counts as earlier.
  const readStatus = () => readConnectionStatus(tx, { sidecarId, connectionId, accountId });
  if (seq === 1) {
    const [, sender] = await together([() => boundWaits(tx, waits), readStatus]);
    if (sender !== 'newest') return { sender, last: null, limits: [] };
    await beginHolder(tx, { holder, sidecarId, accountId, epoch: call.epoch ?? null }, nowMs);
  }
  const [, sender, last, limits] = await together([
    () => boundWaits(tx, waits),
    readStatus,
    () => lockHolder(tx, { holder, sidecarId }),
    () => findLimits(tx, accountId, asks, nowMs),
    // A void locks leases without their holder, and quota windows after them. A fold locks all leases.
    () => (mayFold(call) ? null : lockLeases(tx, { holder, sidecarId }, windowsOf(call, nowMs))),
  ]);
  return { sender, last, limits };
}

const waits = { lockMsMax: quotaLimits.leaseLockMsMax };

const mayFold = ({ seq }: LeaseCall): boolean => seq % quotaLimits.leaseCallsPerFold === 0;

/** All windows that a call names. */
const windowsOf = ({ returns, asks }: LeaseCall, nowMs: UnixMillis) => [
  ...returns.map(heldUnits).map(({ window, ...each }) => ({ ...each, name: window })),
  ...asks.map((ask) => ({ ...windowAt(ask.window, nowMs), counter: counterKey(counterOfLease(ask)) })),
];

/**
 * Adds how much of a dry window is only lent, which blocks a request for a moment only. Skips windows that
 * the account may not draw on.
 */
async function withLent(
  sql: Database,
  { holder, asks }: LeaseCall,
  { grants }: LeaseAnswer,
): Promise<LeaseAnswer> {
  const dry = grants.flatMap(({ granted, limit, starts_at_ms: startsAtMs }, place) => {
    const ask = asks[place];
    if (ask === undefined || limit === null || granted >= ask.units_needed) return [];
    if (limit === hidden.limit) return [];
    return [{ place, counter: counterKey(counterOfLease(ask)), window: ask.window, startsAtMs }];
  });
  if (dry.length === 0) return { grants };
  const lent = await lentUnits(sql, dry, holder);
  const byPlace = new Map(dry.map(({ place }, index) => [place, lent[index] ?? 0]));
  return {
    grants: grants.map((grant, place) => {
      const units = byPlace.get(place);
      return units === undefined ? grant : { ...grant, lent: units };
    }),
  };
}

interface Answered {
  readonly outcome: LeaseCallOutcome;
  /** Leases of windows that the holder had none of before. */
  readonly made: number;
}

const unmoved = (outcome: LeaseCallOutcome) => async (): Promise<Answered> => ({ outcome, made: 0 });

async function answerAgain(
  tx: Transaction,
  { holder, asks }: LeaseCall,
  last: LastCall,
  nowMs: UnixMillis,
): Promise<LeaseCallOutcome> {
  const counters = asks.map((ask) => counterKey(counterOfLease(ask)));
  const windows = asks.flatMap(({ window: name }, place) => {
    const counter = counters[place];
    const startsAtMs = last.answer[place]?.startsAtMs;
    return counter === undefined || startsAtMs === undefined ? [] : [{ counter, name, startsAtMs }];
  });
  const leases = await findLeases(tx, holder, windows);
  return answerOf(last, leaseIdsOf(asks, last.answer, leases), nowMs);
}

/** By index of the ask; undefined if the holder has no lease of its window. */
function leaseIdsOf(
  asks: readonly LeaseRequest[],
  answer: readonly StoredGrant[],
  leases: readonly LeaseRow[],
): readonly (number | undefined)[] {
  const ids = new Map(leases.map((lease) => [windowKey(lease.counter, lease), lease.leaseId]));
  return asks.map((ask, place) => {
    const startsAtMs = answer[place]?.startsAtMs;
    if (startsAtMs === undefined) return undefined;
    return ids.get(windowKey(counterKey(counterOfLease(ask)), { name: ask.window, startsAtMs }));
  });
}

/**
 * Times are by the current clock, even for a repeated answer: a lost answer must not make a window seem to
 * end later.
 */
const answerOf = (
  { answer }: LastCall,
  leaseIds: readonly (number | undefined)[],
  nowMs: UnixMillis,
): LeaseCallOutcome => ({
  kind: 'answered',
  answer: {
    grants: answer.map(({ granted, limit, leased, startsAtMs, endsAtMs }, place) => ({
      ...(leaseIds[place] === undefined ? {} : { lease_id: leaseIds[place] }),
      granted,
      limit,
      leased,
      starts_at_ms: startsAtMs,
      ends_at_ms: endsAtMs,
      left_ms: Math.max(endsAtMs - nowMs, 0),
    })),
  },
});

/**
 * Executes a call; the holder's row and leases are locked. The last save is sent with the COMMIT, because
 * quota windows are locked by then. The answer is known after it.
 */
async function answerNext(
  tx: Transaction,
  { call: asked, limits, nowMs }: Pick<BegunCall, 'limits'> & { call: LeaseCall; nowMs: UnixMillis },
): Promise<() => Promise<Answered>> {
  const { holder, seq, returns, asks } = asked;
  const given = returns.map(heldUnits);
  const windowRequests = asks.map((ask, place) => toWindowRequest(ask, limits[place] ?? null, nowMs));
  const taken = await takeFromHolder(tx, holder, given);
  const moves = movesOf(
    given.map((each, place) => ({ ...each, units: taken[place] ?? 0 })),
    windowRequests,
  );
  const moved = await moveUnits(tx, moves, nowMs);
  const grants = new Map(moves.map(({ ask }, place) => [ask?.group, moved[place] ?? null]));
  const answer = windowRequests.map(({ window, limit, found }, place): StoredGrant => {
    const { granted, leased } = grants.get(place) ?? { granted: 0, leased: 0 };
    const { startsAtMs, endsAtMs } = window;
    if (found?.isHidden === true) return { ...hidden, granted, startsAtMs, endsAtMs };
    return { granted, limit, leased, startsAtMs, endsAtMs };
  });
  const granted = windowRequests.map(({ counter, window }, place) => ({
    counter,
    window,
    units: answer[place]?.granted ?? 0,
  }));
  const call = { seq, answer, granted: granted.filter(({ units }) => units > 0) };
  const saved = saveCall(tx, holder, call, nowMs);
  await sendWithCommit(() => saved);
  return async () => {
    const leases = await saved;
    const made = leases.filter(({ isNew }) => isNew).length;
    return { outcome: answerOf(call, leaseIdsOf(asks, answer, leases), nowMs), made };
  };
}

/** Of a wallet of another account: its sidecar learns what it was granted, and nothing else. */
const hidden = { limit: Number.MAX_SAFE_INTEGER, leased: 0 };

interface WindowRequest {
  readonly ask: LeaseRequest;
  readonly counter: CounterKey;
  readonly window: QuotaWindow;
  readonly limit: number | null;
  readonly found: FoundLimit | null;
}

const toWindowRequest = (ask: LeaseRequest, found: FoundLimit | null, nowMs: UnixMillis): WindowRequest => ({
  ask,
  counter: counterKey(counterOfLease(ask)),
  window: currentWindow({ window: ask.window, endsAtMs: found?.endsAtMs ?? null }, nowMs),
  limit: found?.limit ?? null,
  found,
});

/** Of a standing approval that is not in force, which may never have existed, no window is opened. */
const isOver = ({ ask, limit }: Pick<WindowRequest, 'ask' | 'limit'>): boolean =>
  ask.standing_approval_id !== undefined && limit === 0;

/** One move per window, even if a call returns to it and asks for it; asks are numbered by index. */
function movesOf(
  returned: readonly HeldUnits[],
  windowRequests: readonly WindowRequest[],
): readonly WindowMove[] {
  const moves = new Map<string, WindowMove>();
  for (const { counter, window, startsAtMs, units } of returned) {
    const at = windowAt(window, startsAtMs);
    moves.set(windowKey(counter, at), { counter, window: at, unitsBack: units, ask: null });
  }
  windowRequests.forEach(({ ask, counter, window, limit, found }, group) => {
    if (limit === null || isOver({ ask, limit })) return;
    const name = windowKey(counter, window);
    const unitsBack = moves.get(name)?.unitsBack ?? 0;
    const { units_min: unitsMin, units_needed: unitsNeeded, units_ahead: unitsAhead } = ask;
    const { baseLimit } = found ?? {};
    const units = { unitsMin, unitsNeeded, unitsAhead };
    moves.set(name, { counter, window, unitsBack, ask: { group, limit, baseLimit, ...units } });
  });
  return [...moves.values()];
}
