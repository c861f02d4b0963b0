import { type CompiledGate, compileGate, noGate } from '../../shared/decision/compile-gate.ts';
import { mayAskConditions } from '../../shared/decision/decide.ts';
import type { PassportFacts } from '../../shared/decision/facts.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { scanPii } from '../../shared/pii/scan-pii.ts';
import { sentAmount } from '../../shared/wire/api/check.ts';
import { findStandingApprovals } from '../approvals/standing-approval-store.ts';
import { appendRecords } from '../attestations/append-records.ts';
import { tooEarlyToSettleLater } from '../attestations/record-form.ts';
import type { Transaction } from '../base/database.ts';
import { takeUnits } from '../book/take-units.ts';
import { findGates } from '../gates/gate-store.ts';
import { findNamedPassports, type NamedPassport } from '../passports/named-passport-store.ts';
import { findWalletPaths } from '../quota/wallet-paths.ts';
import { distinct } from '../storage/distinct.ts';
import { beginReading, together } from '../storage/together.ts';
import { CheckRun, needsLent } from './check-run.ts';
import type { DecidingDeps } from './deps.ts';
import { drawnWindows, noDraws } from './drawn-windows.ts';
import type { CheckInput, EnforcementCall } from './enforcement.ts';
import { decisionsLimits } from './limits.ts';
import { lookUpAll } from './look-up.ts';
import { findStandings } from './passport-standing-store.ts';
import { dropReadings } from './read-settlements.ts';
import { setUpSettling } from './settle-batch.ts';
import { settlePermits } from './settle-permits.ts';
import { settleSuspends } from './settle-suspends.ts';
import type { SettlementId } from './settlement.ts';
import { sumOf, WindowBook } from './window-book.ts';

export type CheckOutcome =
  /** Committed, or answered without effects. */
  | { readonly kind: 'run'; readonly run: CheckRun }
  | { readonly kind: 'failed'; readonly error: unknown }
  /** Left no effects; the next transaction decides it. */
  | { readonly kind: 'again' }
  /** Left no effects, and waits for requests in flight. */
  | { readonly kind: 'wait' }
  /** Left no effects, and has a proof that nobody has looked at. */
  | { readonly kind: 'prove' }
  /** Left no effects, and takes a batch of its own: its scan would have held up all others. */
  | { readonly kind: 'alone' };

const again: CheckOutcome = { kind: 'again' };
const alone: CheckOutcome = { kind: 'alone' };

/**
 * Decides requests of one account in one transaction, on its view of the database (contract §9). Each request
 * sees what the ones before it took; a request that depends on an uncommitted neighbour is `again`. Outcomes
 * are in the order of the calls.
 *
 * Rows are locked in the order of storage/locks.ts; hot rows (counts, spend, quota windows) come last, once
 * for the whole batch. SUSPENDs lock gates and approvals before chains, so a transaction holds SUSPENDs or
 * PERMITs: SUSPENDs beside PERMITs are `again`.
 *
 * If the ledger no longer grants the sum, a concurrent transaction took the units: this one rolls back, and
 * all are `again`. If the outcome of the commit is unknown, all fail, and are voided as soon as the database
 * answers. Throws if a statement failed; that leaves no effects.
 */
export async function decideTogether(
  deps: DecidingDeps,
  calls: readonly EnforcementCall[],
): Promise<readonly CheckOutcome[]> {
  let unknown: readonly SettlementId[] | null = null;
  try {
    return await beginReading(deps.sql, async (tx): Promise<readonly CheckOutcome[]> => {
      const inputs = await readInputs(tx, deps, calls);
      const runs = inputs.map((input, place) =>
        input instanceof ApiError || input === null
          ? input
          : new CheckRun(deps, must(calls[place], 'each input is of a call'), input),
      );
      const running = runs.filter((run) => run instanceof CheckRun);
      await perform(tx, deps, running);
      const outcomes = runs.map(outcomeOf);
      unknown = running.flatMap(({ unknownIds }) => unknownIds);
      return outcomes;
    });
  } catch (error) {
    if (error instanceof OthersWereQuicker) return calls.map(() => again);
    if (unknown === null) throw error;
    // All statements succeeded, but the outcome of the commit is unknown.
    for (const id of unknown as readonly SettlementId[]) deps.voidQueue.add(id);
    return calls.map(() => ({ kind: 'failed', error }));
  }
}

/** Thrown to roll back; control flow, not a failure. */
class OthersWereQuicker extends Error {
  override readonly name = 'OthersWereQuicker';
}

function outcomeOf(run: CheckRun | ApiError | null): CheckOutcome {
  if (run === null) return alone;
  if (run instanceof ApiError) return { kind: 'failed', error: run };
  if (run.next === 'again') return again;
  if (run.next === 'wait' || run.next === 'prove') return { kind: run.next };
  const answer = must(run.answer, 'a run ends with an answer, or later');
  return answer.kind === 'error'
    ? { kind: 'failed', error: new ApiError(answer.code) }
    : { kind: 'run', run };
}

/**
 * Reads the inputs of the decisions. Another account's gate, or one of the other mode, is `gate_not_found`
 * (contract §2). Null: the scans before it have spent `checks.scanMsMax`.
 */
async function readInputs(
  tx: Transaction,
  deps: DecidingDeps,
  calls: readonly EnforcementCall[],
): Promise<readonly (CheckInput | ApiError | null)[]> {
  const { accountId } = must(calls[0], 'a batch has a first').caller;
  const gateIds = distinct(calls.map(({ gateId }) => gateId));
  const tokens = calls.flatMap(({ verdict }) => (verdict.kind === 'verified' ? [verdict.passport] : []));
  // A request alone is tried again, on what holds by then.
  const lockWaitMsMax = calls.length === 1 ? decisionsLimits.lockWaitAloneMsMax : limits.quotaWaitMsMax;
  const askedAtMs = deps.clock.now();
  const passportIds = distinct(tokens.map(({ passportId }) => passportId));
  const [, gates, standings, standingApprovals, paths, named] = await together([
    () => setUpSettling(tx, lockWaitMsMax),
    () => findGates(tx, accountId, gateIds),
    () => findStandings(tx, tokens),
    () => findStandingApprovals(tx, gateIds, askedAtMs),
    () => findWalletPaths(tx, passportIds),
    () => findAllNamed(tx, calls),
  ]);
  const namedPaths = await findNamedPaths(tx, named);
  const nowMs = deps.clock.now();
  const compiled = new Map(
    [...gates].map(([id, gate]) => [id, compileGate(gate, gate.catalogTerms, standingApprovals.get(id))]),
  );
  const gateOf = ({ caller, gateId }: EnforcementCall & { readonly gateId: GateId }) => {
    const isOfMode = gates.get(gateId)?.mode === caller.mode;
    return (isOfMode ? compiled.get(gateId) : undefined) ?? new ApiError('gate_not_found');
  };
  const factsOf = ({ caller, verdict }: EnforcementCall): PassportFacts | ApiError => {
    if (verdict.kind === 'refused') return verdict;
    if (verdict.kind === 'named') {
      const facts = named[caller.mode].get(verdict.subjectId);
      return facts ?? new ApiError('passport_not_found', { param: 'subject.id' });
    }
    const known = standings.get(verdict.passport.tokenHash);
    // The token verifies but has no row (see readStandings): forged, or no longer revocable.
    if (known === undefined) return { kind: 'refused', reason: 'passport_unknown_key' };
    return { kind: 'verified', passport: verdict.passport, standing: known.standing };
  };
  const scansBeginAtMs = deps.clock.monotonic();
  const mayScan = (place: number): boolean =>
    place === 0 || deps.clock.monotonic() - scansBeginAtMs < decisionsLimits.checks.scanMsMax;
  /** Never a reason for a batch of its own. */
  const shadowScan = ({ asked }: EnforcementCall, gate: CompiledGate | null): CheckInput['shadowPii'] => {
    if (gate === null || gate.shadow === null || nowMs >= gate.shadow.expiresAtMs) return null;
    const { pii } = gate.shadow.policy;
    if (pii === null || pii.types === gate.pii?.types) return null;
    return mayScan(1) ? scanPii(asked, pii.types) : 'unscanned';
  };
  return calls.map((call, place): CheckInput | ApiError | null => {
    const { gateId, request } = call;
    const gate = gateId === null ? null : gateOf({ ...call, gateId });
    if (gate instanceof ApiError) return gate;
    // Before the record of one would be written in form 1, without its end.
    if (request.hold !== null && deps.appending.recordForm() === 1) return tooEarlyToSettleLater();
    const policy = gate ?? noGate(call.caller);
    if (policy.pii !== null && !mayScan(place)) return null;
    const facts = factsOf(call);
    if (facts instanceof ApiError) return facts;
    const refusal = sentAmount(request, mayAskConditions(policy, facts));
    if (refusal !== null) return refusal;
    const passport = facts.kind === 'verified' ? facts.passport : null;
    return {
      gate,
      policy,
      facts,
      passport,
      request: policy.pii === null ? request : { ...request, pii: scanPii(call.asked, policy.pii.types) },
      shadowPii: shadowScan(call, gate),
      drawn:
        passport === null
          ? noDraws
          : drawnWindows(gate, passport, {
              path: (call.verdict.kind === 'named' ? namedPaths : paths).get(passport.passportId),
              accountId,
            }),
      nowMs,
    };
  });
}

type Named = ReadonlyMap<string, PassportFacts>;

/** The passports that calls name instead of presenting their tokens, by mode. */
async function findAllNamed(
  tx: Transaction,
  calls: readonly EnforcementCall[],
): Promise<Readonly<Record<Mode, Named>>> {
  const find = async (mode: Mode): Promise<Named> => {
    const asking = calls.filter(({ caller, verdict }) => caller.mode === mode && verdict.kind === 'named');
    const [first] = asking;
    if (first === undefined) return new Map();
    const names = asking.flatMap(({ verdict }) => (verdict.kind === 'named' ? [verdict.subjectId] : []));
    const found = await findNamedPassports(tx, first.caller, names);
    return new Map([...found].map(([name, facts]) => [name, asAsserted(facts)]));
  };
  const [live, test] = await together([() => find('live'), () => find('test')]);
  return { live, test };
}

/** Of a subject that is named, its wallets are known once its passport is. */
const findNamedPaths = (tx: Transaction, { live, test }: Readonly<Record<Mode, Named>>) =>
  findWalletPaths(
    tx,
    distinct(
      [...live.values(), ...test.values()].flatMap((facts) =>
        facts.kind === 'verified' ? [facts.passport.passportId] : [],
      ),
    ),
  );

/** See NamedSubject. */
const asAsserted = (facts: NamedPassport): PassportFacts => ({
  ...facts,
  passport: { ...facts.passport, trustTier: 'L1' },
});

async function perform(tx: Transaction, deps: DecidingDeps, runs: readonly CheckRun[]): Promise<void> {
  const [first] = runs;
  if (first === undefined) return;
  const { nowMs } = first.input;
  const book = await WindowBook.read(
    tx,
    runs.map(({ input }) => input.drawn),
    nowMs,
  );
  await decideAll(tx, runs, book, nowMs);
  // Settlements are locked before chains.
  await dropUnusedReadings(tx, runs);
  await settle(tx, deps, runs, { book, nowMs });
  await dropUnusedReadings(tx, runs);
  await take(
    tx,
    runs.map(({ ask }) => ask),
    nowMs,
  );
}

/** Decides, performs the look-ups that are due, and repeats until none is. */
async function decideAll(
  tx: Transaction,
  all: readonly CheckRun[],
  book: WindowBook,
  nowMs: UnixMillis,
): Promise<void> {
  let runs = all;
  while (runs.length > 0) {
    await decidePass(tx, runs, book, nowMs);
    const looking = runs.filter(({ next }) => next === 'look_up');
    const found = await lookUpAll(
      tx,
      looking.map((run) => run.lookUp(book)),
      nowMs,
    );
    for (const [place, run] of looking.entries()) run.found(must(found[place], 'each look-up is answered'));
    runs = looking.filter(({ next }) => next === 'decide');
  }
}

async function decidePass(
  tx: Transaction,
  runs: readonly CheckRun[],
  book: WindowBook,
  nowMs: UnixMillis,
): Promise<void> {
  const lacking: CheckRun[] = [];
  for (const run of runs) {
    const decision = run.consider(book);
    if (needsLent(decision)) lacking.push(run);
    else run.conclude(decision, book);
  }
  if (lacking.length === 0) return;
  await book.readLent(
    tx,
    lacking.map(({ input }) => input.drawn),
    nowMs,
  );
  for (const run of lacking) run.conclude(run.consider(book), book);
}

async function settle(
  tx: Transaction,
  deps: DecidingDeps,
  runs: readonly CheckRun[],
  { book, nowMs }: { readonly book: WindowBook; readonly nowMs: UnixMillis },
): Promise<void> {
  const permits = runs.filter(({ next }) => next === 'settle_permit');
  const recording = runs.filter(({ next }) => next === 'record');
  const suspends = runs.filter(({ next }) => next === 'settle_suspend');
  if (permits.length + recording.length > 0) {
    for (const run of suspends) run.decideAgain();
    const made = {
      permits: permits.map((run) => run.permit()),
      beside: recording.map((run) => run.record()),
    };
    const answers = await settlePermits(tx, deps, made, nowMs);
    for (const run of recording) run.recorded();
    for (const [place, run] of permits.entries())
      run.settled(must(answers[place], 'each permit is answered'), book);
    return;
  }
  const answers = await settleSuspends(
    tx,
    deps,
    suspends.map((run) => run.suspend()),
    nowMs,
  );
  for (const [place, run] of suspends.entries())
    run.settled(must(answers[place], 'each suspend is answered'), book);
  const blocked = suspends.filter(({ next }) => next === 'record');
  await appendRecords(
    tx,
    deps,
    blocked.map((run) => run.record()),
  );
  for (const run of blocked) run.recorded();
}

async function dropUnusedReadings(tx: Transaction, runs: readonly CheckRun[]): Promise<void> {
  await dropReadings(
    tx,
    runs.flatMap((run) => run.takeUnusedReadings()),
  );
}

/** Locks quota windows until the commit; must be the last statement. */
async function take(
  tx: Transaction,
  asks: readonly ReturnType<typeof sumOf>[],
  nowMs: UnixMillis,
): Promise<void> {
  const sum = sumOf(asks);
  if (sum.length === 0) return;
  const [grant] = await takeUnits(tx, [sum], nowMs);
  if (!must(grant, 'an ask is answered').isGranted) throw new OthersWereQuicker();
}
