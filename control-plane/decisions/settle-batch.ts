import { drawnName, ofWallets, windowsOf } from '../../shared/decision/windows-of.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must, unreachable } from '../../shared/errors/assert.ts';
import type { AccountId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { baseOf, counterKey } from '../../shared/quota/counter.ts';
import type { Malformed } from '../../shared/wire/sync/attestation-batch.ts';
import { counterOfLease } from '../../shared/wire/sync/lease-call.ts';
import type {
  ArrivedCall,
  ArrivedPermit,
  ArrivedSettlement,
  LookUpSettlement,
  SettlementAnswer,
  SuspendSettlement,
  WindowInNeed,
} from '../../shared/wire/sync/settlement.ts';
import { type KnownThings, readKnown } from '../attestations/judge-records.ts';
import type { Transaction } from '../base/database.ts';
import type { ShortWindow } from '../book/unused-units.ts';
import { findWalletPaths, type WalletPath } from '../quota/wallet-paths.ts';
import { waitBounds } from '../storage/bound-waits.ts';
import { databaseFailure } from '../storage/database-away.ts';
import { distinct } from '../storage/distinct.ts';
import { beginReading, together } from '../storage/together.ts';
import { type ConnectionStatus, readConnectionStatus } from '../sync/sidecar-store.ts';
import { closeRefusals } from './close-refusals.ts';
import type { DecisionDeps } from './deps.ts';
import { type Admitted, judgePermits, judgeSuspends } from './judge-settlements.ts';
import { lookUpAll } from './look-up.ts';
import { readParties, refused } from './read-parties.ts';
import { settlePermits } from './settle-permits.ts';
import { settleSuspends } from './settle-suspends.ts';
import { bindingNow, type LookUp, questionOf, type SettlementSender } from './settled-request.ts';

/** The key that a sidecar calls with, and its account. */
interface SettlingKey {
  readonly accountId: AccountId;
  readonly keyId: string;
}

/** The answer to the sidecar; `superseded` and `unknown` as at ingest (shared/wire/sync/sync.ts). */
export type SettlementCallOutcome =
  | { readonly kind: 'answered'; readonly answers: readonly SettlementAnswer[] }
  | { readonly kind: Exclude<ConnectionStatus, 'newest'> };

type SettleDeps = Pick<
  DecisionDeps,
  'sql' | 'clock' | 'random' | 'baseUrl' | 'signingKeys' | 'appending' | 'slots' | 'logger'
>;

/**
 * Settles requests of a sidecar that must be committed before they are answered (contract §5 and §8), in as
 * few transactions per call as the lock order permits (`partsOf`). The sender must be the newest connection
 * of its sidecar id, read without a lock as at ingest.
 *
 * A settlement past its deadline is not started: `late`. `arrivedAtMs`: arrival of the call, on the monotonic
 * clock. Throws if the outcome of the commit is unknown; the sidecar repeats the call or voids it.
 *
 * If a transaction fails because of one settlement, its settlements are retried one by one, so that the
 * others succeed. If some are settled and the rest cannot be, throws `service_unavailable`: a sidecar would
 * take `overloaded` or `superseded` to mean that no look-up of the call read anything.
 */
export async function settleBatch(
  deps: SettleDeps,
  from: SettlingKey,
  call: ArrivedCall,
  arrivedAtMs: number = deps.clock.monotonic(),
): Promise<SettlementCallOutcome> {
  return deps.slots(
    from.accountId,
    () => settleByParts(deps, from, call, arrivedAtMs),
    Math.min(limits.quotaWaitMsMax, wantedMsMax(call)),
  );
}

/** For so long the sidecar waits for the answers, 0 where it wants none any more. */
const wantedMsMax = ({ settlements }: ArrivedCall): number =>
  Math.max(0, ...settlements.map((each) => (each.kind === 'malformed' ? 0 : each.wanted_ms)));

/** Settles the parts in turn, each in its own transaction. */
async function settleByParts(
  deps: SettleDeps,
  from: SettlingKey,
  call: ArrivedCall,
  arrivedAtMs: number,
): Promise<SettlementCallOutcome> {
  const answers = new Map<ArrivedSettlement, SettlementAnswer>();
  const parts: (readonly ArrivedSettlement[])[] = partsOf(call.settlements);
  for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
    let outcome: SettlementCallOutcome;
    try {
      outcome = await settleTogether(deps, from, { ...call, settlements: part }, arrivedAtMs);
    } catch (error) {
      if (call.settlements.length === 1 || isOfAll(error))
        throw answers.size === 0 ? error : new ApiError('service_unavailable', { cause: error });
      if (part.length > 1) parts.unshift(...part.map((each) => [each]));
      else for (const each of part) answers.set(each, refused('internal error'));
      continue;
    }
    if (outcome.kind !== 'answered') {
      if (answers.size === 0) return outcome;
      throw new ApiError('service_unavailable', { cause: `the connection is ${outcome.kind} by now` });
    }
    for (const [place, answer] of outcome.answers.entries())
      answers.set(must(part[place], 'each answer is to a settlement'), answer);
  }
  const inOrder = call.settlements.map((settlement) => ({
    settlement,
    answer: must(answers.get(settlement), 'each settlement is answered'),
  }));
  return { kind: 'answered', answers: await closeRefusals(deps, call.sidecar_id, inOrder) };
}

/**
 * Suspends do not share a transaction with permits: they lock gates, a holder and approvals, which come
 * before the chains of permits (storage/locks.ts). They come second, so that a suspend finds a permit of the
 * same call with its key.
 */
function partsOf(settlements: readonly ArrivedSettlement[]): (readonly ArrivedSettlement[])[] {
  if (settlements.every(({ kind }) => kind !== 'permit')) return [settlements];
  const suspends = settlements.filter(({ kind }) => kind === 'suspend');
  const others = settlements.filter(({ kind }) => kind !== 'suspend');
  return suspends.length === 0 ? [others] : [others, suspends];
}

/**
 * The database is unreachable or overloaded, or this replica stopped appending: retrying one by one would not
 * help.
 */
export const isOfAll = (error: unknown): boolean =>
  error instanceof ApiError || databaseFailure(error) !== null;

async function settleTogether(
  deps: SettleDeps,
  from: SettlingKey,
  call: ArrivedCall,
  arrivedAtMs: number,
): Promise<SettlementCallOutcome> {
  return beginReading(deps.sql, async (tx): Promise<SettlementCallOutcome> => {
    const waitedMs = deps.clock.monotonic() - arrivedAtMs;
    const wanted = call.settlements.filter(
      (settlement): settlement is Readable =>
        settlement.kind !== 'malformed' && settlement.wanted_ms >= waitedMs,
    );
    const records = wanted.flatMap((settlement) =>
      settlement.kind === 'permit' ? [settlement.shipped] : [],
    );
    const suspends = wanted.flatMap(({ kind, gate_id: gateId, passport_id: passportId }) =>
      kind === 'suspend' ? [{ gateId, passportId }] : [],
    );
    const { accountId, keyId } = from;
    const connection = { sidecarId: call.sidecar_id, connectionId: call.connection_id, accountId };
    // Sent together: the checks of records and suspends do not depend on which others are refused.
    const [, status, parties, known] = await together([
      () => setUpSettling(tx),
      () => readConnectionStatus(tx, connection),
      () => readParties(tx, from.accountId, wanted),
      () => readKnown(tx, records, suspends),
    ]);
    if (status !== 'newest') return { kind: status };
    const sender = {
      accountId,
      keyId,
      sidecarId: call.sidecar_id,
      holder: call.holder,
      nowMs: deps.clock.now(),
    };
    const answers = await settleWanted(tx, deps, { wanted, parties, known }, sender);
    return {
      kind: 'answered',
      answers: call.settlements.map((settlement) => answers.get(settlement) ?? unreadAnswer(settlement)),
    };
  });
}

/**
 * Must be sent first. Bounds pauses, and lock waits, which must not outlive the waiting requests. Forces
 * generic plans: PostgreSQL would plan each statement with a list of ids per call, because one id looks
 * cheaper than the ten it assumes, and planning took a third of its time. A generic plan survives until the
 * next ANALYZE, however much the tables grow, so it must suit tables of any size: rows are found one by one
 * by key (storage/connect.ts).
 */
export const setUpSettling = (tx: Transaction, lockWaitMsMax: number = limits.quotaWaitMsMax) => tx`
  SELECT ${waitBounds(tx, { lockMsMax: lockWaitMsMax })},
    set_config('plan_cache_mode', 'force_generic_plan', true),
    set_config('enable_hashjoin', 'off', true),
    set_config('enable_mergejoin', 'off', true)`;

type Readable = Exclude<ArrivedSettlement, Malformed>;

/** For a settlement that was not started. */
const unreadAnswer = (settlement: ArrivedSettlement): SettlementAnswer =>
  settlement.kind === 'malformed' ? { kind: 'refused', message: settlement.message } : { kind: 'late' };

interface WantedSettlements {
  readonly wanted: readonly Readable[];
  /** Of each of them. */
  readonly parties: Awaited<ReturnType<typeof readParties>>;
  /** About its permits and suspends. */
  readonly known: KnownThings;
}

/** Look-ups come first; they take nothing. */
async function settleWanted(
  tx: Transaction,
  deps: SettleDeps,
  { wanted, parties, known }: WantedSettlements,
  sender: SettlementSender,
): Promise<ReadonlyMap<ArrivedSettlement, SettlementAnswer>> {
  const answers = new Map<ArrivedSettlement, SettlementAnswer>();
  const lookUps: Admitted<LookUpSettlement>[] = [];
  const permits: Admitted<ArrivedPermit>[] = [];
  const suspends: Admitted<SuspendSettlement>[] = [];
  wanted.forEach((settlement, place) => {
    const about = must(parties[place], 'each settlement is about something');
    if (about.kind !== 'parties') answers.set(settlement, about);
    else if (settlement.kind === 'look_up') lookUps.push({ settlement, parties: about });
    else if (settlement.kind === 'permit') permits.push({ settlement, parties: about });
    else if (settlement.kind === 'suspend') suspends.push({ settlement, parties: about });
    else unreachable(settlement);
  });
  /** Notes the answers of known settlements, then processes the new ones and notes theirs. */
  const settle = async <New>(
    admitted: readonly Admitted<ArrivedSettlement>[],
    judged: readonly (SettlementAnswer | { readonly kind: 'new'; readonly new: New })[],
    settleAll: (news: readonly New[]) => Promise<readonly SettlementAnswer[]>,
  ): Promise<void> => {
    const places = judged.flatMap((each, place) => (each.kind === 'new' ? [{ place, new: each.new }] : []));
    const settled = await settleAll(places.map((each) => each.new));
    const of = new Map(places.map(({ place }, index) => [place, settled[index]]));
    for (const [place, each] of judged.entries()) {
      const { settlement } = must(admitted[place], 'each verdict is about a settlement');
      const answer = each.kind === 'new' ? of.get(place) : each;
      answers.set(settlement, must(answer, 'each settlement is answered'));
    }
  };
  const { nowMs } = sender;
  const wallets = await findWalletPaths(tx, passportsShortOfWallets(lookUps));
  await settle(
    lookUps,
    lookUps.map((each) => ({ kind: 'new', new: lookUpOf(each, sender, wallets) })),
    (news) => lookUpAll(tx, news, nowMs),
  );
  await settle(permits, await judgePermits(tx, permits, known, sender), (news) =>
    settlePermits(tx, deps, { permits: news }, nowMs),
  );
  await settle(suspends, judgeSuspends(suspends, known, sender), (news) =>
    settleSuspends(tx, deps, news, nowMs),
  );
  return answers;
}

const passportsShortOfWallets = (lookUps: readonly Admitted<LookUpSettlement>[]): readonly PassportId[] =>
  distinct(
    lookUps.map(({ settlement: { short, passport_id: id } }) =>
      short.some(({ wallet }) => wallet !== undefined) ? id : null,
    ),
  );

const lookUpOf = (
  { settlement, parties }: Admitted<LookUpSettlement>,
  sender: SettlementSender,
  wallets: ReadonlyMap<PassportId, WalletPath>,
): LookUp => ({
  ...questionOf(settlement, sender),
  approvalId: settlement.approval_id,
  binding: bindingNow(settlement, parties.gate),
  short: settlement.short.flatMap((each) => shortOf(each, settlement.passport_id, wallets)),
});

/** A wallet that the passport does not draw on may be of any account, and says nothing about its request. */
function shortOf(
  short: WindowInNeed,
  passportId: PassportId,
  paths: ReadonlyMap<PassportId, WalletPath>,
): readonly ShortWindow[] {
  const { window, starts_at_ms: startsAtMs, leased_max: leasedMax } = short;
  const counter = counterKey(counterOfLease(short));
  if (short.wallet === undefined) return [{ counter, window, startsAtMs, leasedMax }];
  const { wallets = [] } = paths.get(passportId) ?? {};
  const drawn = windowsOf({ gate: null, passport: { passportId, spendWindows: [] }, wallets });
  const lane = ofWallets(drawn).find((each) => drawnName(each) === drawnName({ counter, window }));
  if (lane === undefined) return [];
  const base = {
    counter: must(baseOf(counter), 'a lane has a base'),
    leasedMax: must(lane.baseLimit, 'a lane has a base') + leasedMax,
  };
  return [{ counter, window, startsAtMs, leasedMax: lane.limit + leasedMax, base }];
}
