import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { GateId, PassportId, WalletId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import { counterOf as counterOfLimit } from '../../shared/quota/window-limit.ts';
import type { GateBody, StandingApprovalBody } from '../../shared/wire/sync/sync-schema.ts';
import { numbered } from '../support/data/model-service.ts';
import type { Gate, Limit, Passport } from './course.ts';
import { standingOf } from './course-standing.ts';
import type { Process } from './loop.ts';
import type { ControlPlane } from './model/control-plane.ts';
import type { SidecarNode } from './sidecar-node.ts';
import { WalletPromises } from './wallet-promises.ts';

export type Told =
  | { readonly kind: 'PERMIT'; readonly attestationId: string }
  | { readonly kind: 'BLOCK'; readonly attestationId: string; readonly reason: string }
  | { readonly kind: 'SUSPEND'; readonly approvalId: string }
  /** No decision: an error, or 503. */
  | { readonly kind: 'refused'; readonly code: string };

/** One time that a client asked. */
export interface Attempt {
  readonly request: AskedRequest;
  readonly node: SidecarNode;
  readonly process: Process;
  readonly askedAtMs: number;
  readonly presents: string | null;
  /** When it asked: what its sidecar had applied or acknowledged, and from when the last news there were. */
  readonly knownGlobal: number;
  readonly knownAccount: number;
  readonly heardAtMs: number;
  /** Its sidecar had heard the control plane's time. */
  readonly knowsTime: boolean;
  /** Of the spool of its sidecar, when it was answered. */
  epoch: string | null;
  answeredAtMs: number | null;
  /** Null: the client knows nothing. */
  told: Told | null;
  isOver: boolean;
}

/** A request, over all that asked it. */
export interface AskedRequest {
  readonly number: number;
  readonly gate: Gate | null;
  readonly passport: Passport;
  readonly amountMicroUsd: number;
  readonly isKeyed: boolean;
  readonly isHeld: boolean;
  readonly hash: string;
  readonly attempts: Attempt[];
}

/** What was reported of a PERMIT, each time the same. */
export interface Report {
  readonly attestationId: string;
  readonly given: { readonly outcome: 'served' | 'failed'; readonly amount?: number };
  readonly tries: ReportAttempt[];
}

export interface ReportAttempt extends Pick<Attempt, 'node' | 'process' | 'epoch' | 'answeredAtMs'> {
  /** 202: it is shipped, once. */
  readonly isTaken: boolean;
}

/** What blocks a passport, and of when that is. */
interface Block {
  readonly word: string;
  /** Of the global feed. */
  readonly revision: number;
  readonly atMs: number;
}

const slackMs = 50;
/** Above that the asking gate asks a person. */
const askedAboveMicroUsd = 2_000_000;
/** An fsync takes this long after it was due. */
const syncMsMax = 400;
/** A change reaches a sidecar by the next long poll, or by the next pull beside a bus. */
const toldMsMax = 2_500;
/** A loop that stood still for a second catches up before it decides. */
const stopMsMin = 1_200;
/** A folder that is gone is noticed within this. */
const lookMsMax = 1_100;
/** The deadline of a request, and what it is looked for late. */
const answerMsMax = 3_000 + 375 + slackMs;
/** The control plane ends what is due within this. */
const sweptMsMax = 5_000;
/** A clock that is read over the slowest network is this wrong. */
const clockMsMax = 6_000;

/**
 * What must be true, whatever happens. After each step: `noteAnswer` and the ledger's balance. After the last
 * fault, when all is at rest: `findFault`.
 */
export class Oracle {
  readonly requests: AskedRequest[] = [];
  /** By the id of the PERMIT. */
  readonly reports = new Map<string, Report>();
  /** By the id of the PERMIT: what was refunded of it, in micro-USD. */
  readonly refunds = new Map<string, number>();
  readonly wallets: WalletPromises;
  readonly #controlPlane: ControlPlane;
  readonly #wrong: (sentence: string) => void;
  readonly #troubledAtMs: () => number;
  readonly #epochMs: number;
  readonly #fsyncMs: number;
  /** Money and requests that clients were given, by window. */
  readonly #given = new Map<string, number>();
  readonly #attestations = new Map<string, AskedRequest>();
  /** By PERMIT: the windows whose money its client was given. */
  readonly #givenIn = new Map<string, string[]>();
  readonly #permittedWith = new Map<string, string>();
  /** By id; `endedAt`: the revision of the account's feed that ended it. */
  readonly #standing = new Map<
    string,
    { readonly gateId: string; readonly terms: StandingApprovalBody; endedAt: number }
  >();
  /** The largest that was in force, by limit. */
  readonly #limits = new Map<string, number>();

  constructor(deps: {
    readonly controlPlane: ControlPlane;
    readonly wrong: (sentence: string) => void;
    readonly epochMs: number;
    readonly fsyncMs: number;
    /** When something was last wrong between sidecars and control plane. */
    readonly troubledAtMs: () => number;
  }) {
    this.#controlPlane = deps.controlPlane;
    this.#wrong = deps.wrong;
    this.#troubledAtMs = deps.troubledAtMs;
    this.#epochMs = deps.epochMs;
    this.#fsyncMs = deps.fsyncMs;
    const { wallets, ledger } = deps.controlPlane;
    this.wallets = new WalletPromises({
      wallets: () => wallets.all(),
      walletOf: (id) => wallets.walletOf(id),
      wrong: deps.wrong,
    });
    ledger.onGrant = (ask, at) => this.wallets.noteGrant(ask, at);
    deps.controlPlane.holds.onReturn = (id, microUsd) => {
      for (const key of this.#givenIn.get(id) ?? [])
        this.#given.set(key, (this.#given.get(key) ?? 0) - microUsd);
    };
  }

  /** What is approved ahead at a gate from now on. */
  noteStanding({ gate_id: gateId, standing_approvals: told = [] }: GateBody): void {
    const revision = this.#controlPlane.service.entries.account.length;
    for (const [id, known] of this.#standing)
      if (known.gateId === gateId && told.every((each) => each.standing_approval_id !== id))
        known.endedAt = Math.min(known.endedAt, revision);
    for (const terms of told)
      if (!this.#standing.has(terms.standing_approval_id))
        this.#standing.set(terms.standing_approval_id, {
          ...{ gateId, terms, endedAt: Number.POSITIVE_INFINITY },
        });
  }

  noteLimits(gateId: string | null, passportId: string | null, limits: readonly Limit[]): void {
    for (const limit of limits) {
      const key = `${gateId} ${passportId} ${limit.kind} ${limit.window}`;
      this.#limits.set(key, Math.max(limit.limit, this.#limits.get(key) ?? 0));
    }
  }

  /** At once: no cap, no key and no revocation is passed by what a client is told. */
  noteAnswer(attempt: Attempt): void {
    const { told, request } = attempt;
    this.#expectInTime(attempt);
    if (told?.kind !== 'PERMIT') return;
    const known = this.#attestations.get(told.attestationId);
    if (known !== undefined && (known !== request || !request.isKeyed))
      this.#wrong(`${told.attestationId} answers two requests`);
    if (known === undefined) this.#noteGiven(attempt, told.attestationId);
    this.#attestations.set(told.attestationId, request);
    if (request.isKeyed) {
      const name = `${request.number}`;
      const before = this.#permittedWith.get(name);
      if (before !== undefined && before !== told.attestationId)
        this.#wrong(`the key of request ${name} is permitted twice: ${before}, ${told.attestationId}`);
      this.#permittedWith.set(name, told.attestationId);
    }
    for (const block of this.#blocksOf(request.passport)) this.#expectTold(attempt, block);
    this.#expectFresh(attempt);
  }

  /** At once: not more comes back than was charged. */
  noteRefund(attestationId: string, microUsd: number): void {
    const refunded = (this.refunds.get(attestationId) ?? 0) + microUsd;
    this.refunds.set(attestationId, refunded);
    const charged = this.#controlPlane.chains.records.get(attestationId)?.amountMicroUsd ?? 0;
    if (microUsd <= 0 || refunded > charged)
      this.#wrong(`${attestationId}: ${refunded} of ${charged} are refunded`);
  }

  /** What blocks a passport now, and since when. */
  #blocksOf({ id, standing, changedAtRevision, changedAtMs }: Passport): readonly Block[] {
    const frozen = this.wallets.frozenSince(id);
    return [
      ...(standing === 'active' ? [] : [{ word: standing, revision: changedAtRevision, atMs: changedAtMs }]),
      ...(frozen === null ? [] : [{ word: 'in a frozen wallet', ...frozen }]),
    ];
  }

  /**
   * With nothing wrong in between, a change is in force within a second or two, and at once in a process that
   * was stopped when it was made.
   */
  #expectTold({ request, process, askedAtMs, knownGlobal }: Attempt, { word, revision, atMs }: Block): void {
    const { id } = request.passport;
    if (revision <= knownGlobal) this.#wrong(`${process.name} permits ${id}, and knew that it is ${word}`);
    const changedAtMs = atMs;
    if (this.#troubledAtMs() >= changedAtMs) return;
    const { pausedAtMs, runsSinceMs } = process;
    const wasStopped =
      runsSinceMs > changedAtMs + stopMsMin &&
      runsSinceMs > pausedAtMs + stopMsMin &&
      askedAtMs >= pausedAtMs;
    if (wasStopped || (process.runsSinceMs < changedAtMs && askedAtMs > changedAtMs + toldMsMax))
      this.#wrong(`${process.name} permits ${id}, which was ${word} ${askedAtMs - changedAtMs} ms before`);
  }

  /** Whoever asks is answered within the deadline, by a process that runs. */
  #expectInTime({ request, process, askedAtMs, answeredAtMs }: Attempt): void {
    const tookMs = (answeredAtMs ?? askedAtMs) - Math.max(askedAtMs, process.runsSinceMs);
    if (tookMs > answerMsMax) this.#wrong(`request ${request.number} is answered after ${tookMs} ms`);
  }

  #expectFresh({ request, process, askedAtMs, heardAtMs }: Attempt): void {
    const bound = { L1: Number.POSITIVE_INFINITY, L2: 60_000, L3: 5_000 }[
      request.gate?.body.trust_level ?? 'L1'
    ];
    const isNews = process.heardAtMs !== heardAtMs;
    if (!isNews && askedAtMs - heardAtMs > bound + slackMs)
      this.#wrong(`${process.name} permits on a state that is ${askedAtMs - heardAtMs} ms old`);
  }

  #noteGiven(attempt: Attempt, attestationId: string): void {
    const { request, askedAtMs, answeredAtMs } = attempt;
    const { gate, passport } = request;
    if (attempt.presents !== null) return;
    const moneyIn: string[] = [];
    this.#givenIn.set(attestationId, moneyIn);
    const counts = this.#controlPlane.holds.permits.get(attestationId)?.countsMicroUsd;
    const limits = [
      ...(gate?.limits.map((limit) => ({ limit, gate })) ?? []),
      ...passport.limits.map((limit) => ({ limit, gate: null })),
    ];
    for (const { limit, gate: of } of limits) {
      const units = limit.kind.endsWith('_rate') ? 1 : (counts ?? request.amountMicroUsd);
      const counter = counterKey(
        counterOfLimit(limit, (of?.body.gate_id ?? null) as GateId | null, {
          passportId: passport.id as PassportId,
          userKey: null,
        }),
      );
      const earliest = windowAt(limit.window, (this.#epochMs + askedAtMs - slackMs) as UnixMillis);
      const latest = windowAt(
        limit.window,
        (this.#epochMs + (answeredAtMs ?? askedAtMs) + slackMs) as UnixMillis,
      );
      if (earliest.startsAtMs !== latest.startsAtMs) continue;
      const key = windowKey(counter, earliest);
      if (!limit.kind.endsWith('_rate')) moneyIn.push(key);
      const given = (this.#given.get(key) ?? 0) + units;
      this.#given.set(key, given);
      const cap = this.#limits.get(
        `${of?.body.gate_id ?? null} ${of === null ? passport.id : null} ${limit.kind} ${limit.window}`,
      );
      if (cap !== undefined && given > cap) this.#wrong(`${key}: clients were given ${given} of ${cap}`);
    }
  }

  /** Whether the machine may have lost what was answered then (contract §9). */
  #mayBeLost({ node, answeredAtMs, process }: Pick<Attempt, 'node' | 'answeredAtMs' | 'process'>): boolean {
    const atMs = answeredAtMs ?? 0;
    if (
      node.hasFailingReads &&
      this.#controlPlane.voidRuns.some(({ sidecarId }) => sidecarId === node.sidecarId)
    )
      return true;
    if (!process.isAlive && node.unlinkedAtMs.some((goneAtMs) => atMs <= goneAtMs + lookMsMax)) return true;
    const syncedMs = this.#fsyncMs + syncMsMax;
    return node.lostPowerAtMs.some((cutAtMs) => {
      const untilMs = Math.min(cutAtMs, process.endedAtMs);
      const ranMs = untilMs - atMs - pausedMs(process, { fromMs: atMs, untilMs });
      // What it had not synced when it ended, the next start syncs.
      const startAtMs = node.startedAtMs.find((each) => each > process.endedAtMs) ?? cutAtMs;
      const isSynced = this.#fsyncMs === 0 || ranMs > syncedMs || cutAtMs > startAtMs + syncedMs;
      return cutAtMs >= atMs && (node.hasUnsynced || !isSynced);
    });
  }

  /** The first thing that is not as promised, once all is at rest. */
  findFault(): string | null {
    const { chains } = this.#controlPlane;
    for (const request of this.requests) {
      for (const attempt of request.attempts) {
        const { told } = attempt;
        if (!attempt.isOver && attempt.process.isAlive) return `request ${request.number} was never answered`;
        if (told?.kind !== 'PERMIT' && told?.kind !== 'BLOCK') continue;
        const { attestationId } = told;
        if (chains.voided.has(attestationId)) return `${attestationId} was answered and is voided`;
        const record = chains.records.get(attestationId);
        if (record === undefined) {
          if (this.#mayBeLost(attempt) && !this.#isWhole(attempt)) continue;
          return `${attestationId} was answered and is not on record`;
        }
        const isIt =
          record.decision === told.kind &&
          record.requestHash === request.hash &&
          (record.holdExpiresAtMs !== null) === (request.isHeld && told.kind === 'PERMIT') &&
          record.gateId === (request.gate?.body.gate_id ?? null);
        if (!isIt) return `${attestationId} is on record as something else`;
        const late = this.#findLate(request, attempt, record) ?? this.#findPartial(request, record);
        if (late !== null) return late;
      }
    }
    return (
      this.#findExtra() ??
      this.#findBooks() ??
      this.#findHolds() ??
      this.#findReports() ??
      this.#findRefunds() ??
      this.#findStatements()
    );
  }

  /** The control plane was told that no record of its epoch is lost. */
  #isWhole = ({ epoch }: Pick<Attempt, 'epoch'>): boolean =>
    epoch !== null && this.#controlPlane.epochs.get(epoch)?.end === 'returned';

  /** A record of another time than its decision, or with units of a window that was over. */
  #findLate(
    { attempts }: AskedRequest,
    { answeredAtMs, knowsTime }: Attempt,
    { id, timestampMs }: Pick<AttestationRecord, 'id' | 'timestampMs'>,
  ): string | null {
    const { takes, ledger } = this.#controlPlane;
    const firstAtMs = this.#epochMs + Math.min(...attempts.map(({ askedAtMs }) => askedAtMs));
    const lastAtMs = this.#epochMs + (answeredAtMs ?? 0);
    if (knowsTime && (timestampMs < firstAtMs - clockMsMax || timestampMs > lastAtMs + clockMsMax))
      return `${id} is of ${timestampMs}, and was asked and answered from ${firstAtMs} to ${lastAtMs}`;
    for (const leaseId of takes.get(id)?.took ?? []) {
      const endsAtMs = ledger.everyLease.get(leaseId)?.at.window.endsAtMs ?? Number.POSITIVE_INFINITY;
      if (firstAtMs >= endsAtMs)
        return `${id} took units of a window that ended ${firstAtMs - endsAtMs} ms before`;
    }
    return null;
  }

  /** A PERMIT that took from some of its wallets, or from those of another time. */
  #findPartial({ attempts, passport }: AskedRequest, record: AttestationRecord): string | null {
    const { id, amountMicroUsd, decision } = record;
    const { takes, ledger, settlements } = this.#controlPlane;
    const take = takes.get(id);
    if (decision !== 'PERMIT' || take === undefined) return null;
    const isOfSource = ({ node }: Attempt): boolean => node.sidecarId === take.sidecarId;
    const known = attempts.filter(isOfSource).map(({ knownGlobal }) => knownGlobal);
    const isPaid = [...settlements.approvals.values()].some(({ usedBy }) => usedBy === id);
    const counters = take.took.flatMap((leaseId) => {
      const at = ledger.everyLease.get(leaseId)?.at;
      return at === undefined ? [] : [`${at.counter} ${at.window.name}`];
    });
    const fault = this.wallets.faultOf({
      passportId: passport.id,
      knownGlobal: Math.min(...known),
      isCharged: !isPaid && (amountMicroUsd ?? 0) > 0,
      counters,
    });
    if (fault !== null) return `${id} ${fault}`;
    // The time of the record tells of which wallet it is, and a sidecar that has never heard the time of the
    // control plane has only its wall clock.
    const knowsTime = attempts.every((each) => !isOfSource(each) || each.knowsTime);
    const misnamed =
      isPaid || record.asserted === null || !knowsTime
        ? null
        : this.wallets.misnamed({
            ...{ walletId: record.walletId as WalletId | null, knownGlobal: Math.min(...known), counters },
            isCharged: (amountMicroUsd ?? 0) > 0,
          });
    if (misnamed !== null) return `${id} ${misnamed}`;
    const knownAccount = Math.min(...attempts.filter(isOfSource).map((each) => each.knownAccount));
    return isPaid ? null : this.#findUnapproved(record, { counters, knownAccount });
  }

  /** What a person has to approve names the approval of a person, or a standing one that fits and stands. */
  #findUnapproved(
    { id, gateId, passportId, amountMicroUsd, timestampMs }: AttestationRecord,
    { counters, knownAccount }: { readonly counters: readonly string[]; readonly knownAccount: number },
  ): string | null {
    const asked = (amountMicroUsd ?? 0) > askedAboveMicroUsd && gateId === numbered.gate(8);
    const used = counters.flatMap((counter) => standingOf(counter.split(' ')[0] ?? '', gateId) ?? []);
    if (used.length !== (asked ? 1 : 0)) return `${id} names ${used.length} standing approvals`;
    const [name] = used;
    const known = name === undefined ? undefined : this.#standing.get(name);
    if (known === undefined) return asked ? `${id} names ${name}, which was never made` : null;
    const { terms, endedAt } = known;
    const fits = terms.passport_id === passportId && (amountMicroUsd ?? 0) <= terms.each_micro_usd;
    if (!fits) return `${id} names ${name}, which is not for it`;
    if (timestampMs > terms.expires_at_ms + clockMsMax) return `${id} names ${name}, which has expired`;
    return endedAt <= knownAccount
      ? `${id} names ${name}, of which its sidecar knew that it has ended`
      : null;
  }

  /** PERMITs that stand and were told to nobody, or twice. */
  #findExtra(): string | null {
    const { chains, settlements } = this.#controlPlane;
    const standing = new Map<string, string[]>();
    for (const [id, record] of chains.records) {
      if (record.decision !== 'PERMIT' || chains.voided.has(id)) continue;
      const key = `${record.passportId} ${record.gateId} ${record.requestHash}`;
      standing.set(key, [...(standing.get(key) ?? []), id]);
    }
    for (const request of this.requests) {
      const key = `${request.passport.id} ${request.gate?.body.gate_id ?? null} ${request.hash}`;
      const permits = standing.get(key) ?? [];
      if (permits.length > 1 && request.isKeyed)
        return `request ${request.number} has PERMITs ${permits.join(', ')}`;
      if (permits.length === 0) continue;
      // Decision record 0010: a look-up that is delivered once more may read what has come true since.
      if (request.attempts.every(this.#isRefused) && !settlements.isReadByRepeats(permits[0] ?? ''))
        return `request ${request.number} was refused to all who asked, and ${permits[0]} stands: ${request.attempts.map(describe).join('; ')}`;
    }
    return null;
  }

  /** It has no PERMIT, and its sidecar knew so: what it settled is void. */
  #isRefused = (attempt: Attempt): boolean => {
    const { request, told, isOver, process, node, askedAtMs, answeredAtMs } = attempt;
    if (!isOver || told?.kind === 'PERMIT' || this.#mayBeLost(attempt)) return false;
    // Of a plain PERMIT the record whose write failed may turn up, and one whose client has gone stands.
    if (!request.isKeyed)
      return told !== null && !node.hasFailedWrites && (answeredAtMs ?? 0) - askedAtMs < 2_900;
    return process.isAlive || (told !== null && !node.hasFailedWrites);
  };

  /** What is on record as spent, by window, is what the ledger counts as used. */
  #findBooks(): string | null {
    const { chains, ledger, takes, holds } = this.#controlPlane;
    const spent = new Map<string, number>();
    for (const [id, { took, amountMicroUsd }] of takes) {
      if (!chains.isStanding(id)) continue;
      const counts = holds.permits.get(id)?.countsMicroUsd ?? amountMicroUsd ?? 0;
      for (const leaseId of took) {
        const lease = ledger.everyLease.get(leaseId);
        if (lease === undefined) continue;
        const key = windowKey(lease.at.counter, lease.at.window);
        spent.set(key, (spent.get(key) ?? 0) + (lease.isMoney ? counts : 1));
      }
    }
    for (const [key, units] of spent) {
      const at = ledger.windows.get(key);
      if (at !== undefined && units > at.limitMax) return `${key}: ${units} of ${at.limitMax} are on record`;
      let used = at?.retired ?? 0;
      for (const lease of ledger.leases.values()) if (lease.at === at) used += lease.used;
      if (units !== used) return `${key}: ${units} are on record, and the ledger counts ${used}`;
    }
    return null;
  }

  /** A hold ends once, or is open and in time. */
  #findHolds(): string | null {
    const { chains, holds, nowMs } = this.#controlPlane;
    for (const [id, { hold, isVoid }] of holds.permits) {
      if (hold === null || isVoid) continue;
      const ends = (chains.changes.get(id) ?? []).filter(isEnd);
      if (hold.status === 'open' && hold.expiresAtMs + sweptMsMax < nowMs)
        return `the hold of ${id} has not ended ${nowMs - hold.expiresAtMs} ms after its time`;
      if (ends.length !== (hold.status === 'open' ? 0 : 1))
        return `the hold of ${id} is ${hold.status}, and has ${ends.length} ends on record`;
    }
    return null;
  }

  /** What was answered 202 has come, each once, and has its effect. */
  #findReports(): string | null {
    const { holds } = this.#controlPlane;
    const arrived = new Map<string, number>();
    for (const { attestationId } of holds.reported)
      arrived.set(attestationId, (arrived.get(attestationId) ?? 0) + 1);
    for (const { attestationId: id, given, tries } of this.reports.values()) {
      const taken = tries.filter((each) => each.isTaken && (!this.#mayBeLost(each) || this.#isWhole(each)));
      const came = arrived.get(id) ?? 0;
      if (came < taken.length) return `${taken.length} outcomes of ${id} were taken, and ${came} came`;
      if (came > tries.length) return `${tries.length} outcomes of ${id} were sent, and ${came} came`;
      const state = holds.permits.get(id);
      if (taken.length === 0 || state === undefined) continue;
      const isRefused = holds.reported.every(
        (each) => each.attestationId !== id || each.status === 'refused',
      );
      if (isRefused && state.hold?.status === 'expired') continue;
      if (state.reported?.outcome !== given.outcome) return `${id} ${given.outcome}, and it is not known`;
      const refunded = this.refunds.get(id) ?? 0;
      const settled = Math.round((given.amount ?? Number.NaN) * 1_000_000);
      const counts = given.outcome === 'failed' ? 0 : settled - refunded;
      if (Number.isFinite(counts) && state.countsMicroUsd !== counts)
        return `${id} counts ${state.countsMicroUsd} instead of ${counts}`;
    }
    return null;
  }

  /** What was refunded counts no more, and what was not counts: by the last record of each PERMIT. */
  #findRefunds(): string | null {
    const { chains, holds } = this.#controlPlane;
    for (const [id, refunded] of this.refunds) {
      const record = chains.records.get(id);
      if (record === undefined || chains.voided.has(id)) continue;
      const end = (chains.changes.get(id) ?? []).findLast(isEnd);
      const charged = (end ?? record).amountMicroUsd ?? 0;
      const counts = holds.permits.get(id)?.countsMicroUsd ?? 0;
      if (counts !== charged - refunded || counts !== this.#countedOf(record))
        return `${id} counts ${counts}, was charged ${charged}, and ${refunded} were refunded`;
    }
    return null;
  }

  /** As statements count it: what the last record says that refers to it. */
  #countedOf({ id, amountMicroUsd }: AttestationRecord): number {
    const last = this.#controlPlane.chains.changes.get(id)?.at(-1);
    return (last === undefined ? amountMicroUsd : last.amountMicroUsd) ?? 0;
  }

  /**
   * By wallet: the sum over the records that name it, or one below it, is what PERMITs took from its leases.
   * A tree whose wallets were moved has another statement than it was drawn on by.
   */
  #findStatements(): string | null {
    const { chains, takes, ledger, wallets, settlements } = this.#controlPlane;
    if (this.wallets.hasMovedWallets) return null;
    const paid = new Set([...settlements.approvals.values()].map(({ usedBy }) => usedBy));
    const named = new Map<string, number>();
    const drawn = new Map<string, number>();
    for (const [id, record] of chains.records) {
      const took = takes.get(id)?.took ?? [];
      const counted = this.#countedOf(record);
      if (record.decision !== 'PERMIT' || record.asserted === null || chains.voided.has(id)) continue;
      // An approval has paid from the wallets of when it was asked for.
      if (counted === 0 || paid.has(id)) continue;
      for (const each of record.walletId === null ? [] : wallets.get(record.walletId as WalletId).path)
        named.set(each, (named.get(each) ?? 0) + counted);
      const counters = took.map((leaseId) => ledger.everyLease.get(leaseId)?.at.counter.split(':') ?? []);
      for (const [kind, key = ''] of counters)
        if (kind === 'wallet_spend') drawn.set(key, (drawn.get(key) ?? 0) + counted);
    }
    for (const { walletId, key, limits } of wallets.all()) {
      const [isMoney] = Object.keys(limits).filter((name) => name.endsWith('_usd'));
      const [of, from] = [named.get(walletId) ?? 0, drawn.get(key) ?? 0];
      if (isMoney !== undefined && of !== from)
        return `the statement of ${walletId} says ${of}, and ${from} were taken from it`;
    }
    return null;
  }
}

/** How long it stood still in that time, and synced nothing; by its last pause. */
function pausedMs(
  { pausedAtMs, runsSinceMs }: Process,
  { fromMs, untilMs }: { readonly fromMs: number; readonly untilMs: number },
): number {
  if (pausedAtMs < fromMs || pausedAtMs > untilMs) return 0;
  return (runsSinceMs > pausedAtMs ? Math.min(runsSinceMs, untilMs) : untilMs) - pausedAtMs;
}

/** Of a hold. */
const isEnd = ({ resolution }: AttestationRecord): boolean =>
  resolution !== 'reported' && resolution !== 'refunded';

const describe = ({ node, askedAtMs, answeredAtMs, told }: Attempt): string => {
  const what =
    told === null ? 'given up' : 'reason' in told ? told.reason : 'code' in told ? told.code : told.kind;
  return `${node.index} ${Math.round(askedAtMs)}-${Math.round(answeredAtMs ?? 0)} ${what}`;
};
