import { mayBePending } from '../../shared/decision/check-approval.ts';
import { compileGate } from '../../shared/decision/compile-gate.ts';
import { decide } from '../../shared/decision/decide.ts';
import type { Decision, RequestFacts } from '../../shared/decision/facts.ts';
import { needsRun, Run, type RunAnswer, type RunEffect, type RunEvent } from '../../shared/decision/run.ts';
import { must, unreachable } from '../../shared/errors/assert.ts';
import { makeId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import type { SettlementOutcome } from '../../sidecar/settle/open-settlement.ts';
import { eventOf, fateOf, hasNotArrived, readingFateOf } from '../../sidecar/settle/settlement-outcome.ts';
import { aGate, aPassport, aRequest, aStanding, aWindow, nowMs, usd } from '../unit/decision/samples.ts';
import { type LedgerCall, RunLedger } from './run-ledger.ts';

/** One request that a client sends. Copies are requests with the same key. Each asks for 1 unit of money. */
export interface CopySpec {
  readonly sidecar: number;
  readonly key: string | null;
  readonly hash: string;
  /** It presents the approval of `WorldSpec.approval`. */
  readonly presents: boolean;
}

export interface WorldSpec {
  readonly limit: number;
  readonly sidecars: number;
  readonly copies: readonly CopySpec[];
  /** Requests without an approval are suspended. */
  readonly suspends: boolean;
  /** The approval that exists from the start, with 1 unit of the limit. */
  readonly approval: 'pending' | 'approved' | null;
  /**
   * How often a call may get no answer, get lost or come too late, a client go, and the passport be revoked.
   */
  readonly faults: number;
}

export interface WorldEvent {
  readonly name: string;
  /** Happens by itself in the end. */
  readonly isDue: boolean;
  readonly happen: () => void;
}

/** What a sidecar has sent for a copy and not heard of, or not sent yet. */
interface Open {
  readonly call: LedgerCall;
  isSent: boolean;
  isUncertain: boolean;
  attempt: number;
}

interface Copy extends CopySpec {
  readonly name: string;
  readonly request: RequestFacts;
  run: Run | null;
  /** By the ledger, for this request. */
  isRefused: boolean;
  isGone: boolean;
  isAskingLeases: boolean;
  isWaiting: boolean;
  waits: number;
  open: Open | null;
  voidSettlement: (() => void) | null;
  settlements: number;
  /** What voids each reading of what it may be answered with. */
  readings: VoidEntry[];
  calls: number;
  decision: Decision | null;
  isStarted: boolean;
  told: Told | null;
  /** While it waited, every unit was used on record or held by an approval. */
  hasSeenUsedUp: boolean;
  /** Of the look-up whose answer it got last: see Message. */
  underWay: readonly string[];
}

type Told =
  | { readonly kind: 'PERMIT'; readonly id: string }
  | { readonly kind: 'BLOCK' | 'SUSPEND' | 'error'; readonly reason: string };

interface Sidecar {
  available: number;
  reserved: number;
  /** Passed on: until the control plane has voided what they were for. */
  passedOn: number;
  /** Taken by plain PERMITs, whose records are not shipped yet. */
  used: string[];
  isRevocationKnown: boolean;
  readonly voids: VoidEntry[];
}

/** Of a settlement, of a reading, or of both. */
interface VoidEntry {
  readonly id: string | null;
  readonly units: 0 | 1;
  readonly reader: string | null;
}

interface Message {
  readonly copy: Copy;
  readonly call: LedgerCall;
  readonly attempt: number;
  stage: 'request' | 'answer';
  answer: SettlementAnswer | null;
  /** Of a look-up: PERMITs of its key that were on their way when it began. */
  underWay: readonly string[];
}

type CallOf<Kind extends LedgerCall['kind']> = Omit<
  Extract<LedgerCall, { readonly kind: Kind }>,
  'of' | 'sidecar' | 'key' | 'hash' | 'presents' | 'reader'
> & { readonly kind: Kind };

/** No attempt of its own: nobody waits for its answer. */
const repeated = 0;
const passport = aPassport();
const unit = usd(1);
const presentedId = makeId('appr', nowMs, new Uint8Array(10));

/**
 * Sidecars, clients and the network of a small world, a host of `Run` over maps. It does what sidecar/enforce
 * does with each effect, and the ledger (run-ledger.ts) what control-plane/decisions does with each call.
 * Whoever drives it chooses which of its `events` happens next.
 */
export class RunWorld {
  readonly spec: WorldSpec;
  readonly ledger: RunLedger;
  readonly copies: readonly Copy[];
  readonly #sidecars: readonly Sidecar[];
  readonly #gate: ReturnType<typeof compileGate>;
  readonly #messages: Message[] = [];
  #faultsLeft: number;

  constructor(spec: WorldSpec) {
    this.spec = spec;
    this.ledger = new RunLedger(spec, presentedId);
    this.#faultsLeft = spec.faults;
    this.#gate = compileGate(
      aGate({
        spend_limits: { daily_usd: spec.limit },
        ...(spec.suspends ? { approvals: { above_usd: 0.5 } } : {}),
      }),
      null,
    );
    this.#sidecars = Array.from({ length: spec.sidecars }, () => ({
      ...{ available: 0, reserved: 0, passedOn: 0 },
      ...{ used: [], isRevocationKnown: false, voids: [] },
    }));
    this.copies = spec.copies.map((copy, place) => ({
      ...copy,
      name: `copy${place}`,
      request: aRequest({
        ...{ amountMicroUsd: unit, idempotencyKey: copy.key, requestHash: copy.hash },
        approvalId: copy.presents ? presentedId : null,
        approval: copy.presents ? 'unasked' : 'none',
      }),
      ...{ run: null, open: null, voidSettlement: null, decision: null, told: null },
      ...{ isRefused: false, isGone: false, isAskingLeases: false, isWaiting: false, isStarted: false },
      ...{ hasSeenUsedUp: false, waits: 0, settlements: 0, calls: 0 },
      ...{ readings: [], underWay: [] },
    }));
  }

  /** Everything that can happen now. Without `faults` only what happens by itself in the end. */
  events(): WorldEvent[] {
    const events: WorldEvent[] = [];
    const due = (name: string, happen: () => void) => events.push({ name, isDue: true, happen });
    const may = (name: string, happen: () => void) => events.push({ name, isDue: false, happen });
    const fault = (name: string, happen: () => void) => {
      if (this.#faultsLeft === 0) return;
      may(name, () => {
        this.#faultsLeft--;
        happen();
      });
    };
    for (const copy of this.copies) {
      const { name, open } = copy;
      if (!copy.isStarted) due(`${name} comes`, () => this.#start(copy));
      if (copy.isAskingLeases) {
        due(`${name} gets leases`, () => this.#grant(copy));
        fault(`${name} gets its leases too late`, () => this.#leasesLate(copy));
      }
      if (copy.isStarted && copy.told === null && !copy.isGone)
        fault(`the client of ${name} goes`, () => {
          copy.isGone = true;
          this.#endReadings(copy, false);
        });
      if (open === null) continue;
      if (!open.isSent && !this.#mustWait(copy, open)) due(`${name} sends`, () => this.#send(copy, open));
      const runOut = () => this.#outcome(copy, open, { kind: open.isSent ? 'unknown' : 'shed' });
      const isLost =
        open.isSent &&
        !this.#messages.some(({ call, attempt }) => call === open.call && attempt === open.attempt);
      if (isLost) due(`${name} runs out of time`, runOut);
      else fault(`${name} runs out of time`, runOut);
      if (open.isSent) {
        fault(`the call of ${name} breaks`, () => {
          open.isUncertain = true;
          open.attempt++;
          this.#send(copy, open);
        });
      }
    }
    for (const message of this.#messages) {
      const what = `${message.stage} ${message.attempt} of ${message.copy.name}`;
      due(`${what} arrives`, () => this.#arrive(message));
      fault(`${what} is lost`, () => this.#remove(message));
      if (message.stage === 'answer') continue;
      // A look-up is not: see readingFateOf.
      if (message.call.kind === 'look_up') continue;
      fault(`${what} is turned away`, () => {
        message.answer = { kind: 'late' };
        message.stage = 'answer';
      });
      fault(`${what} is delivered twice`, () => {
        this.#messages.push({ ...message, attempt: repeated });
      });
    }
    this.#sidecars.forEach((sidecar, place) => {
      const [first] = sidecar.voids;
      if (first !== undefined) {
        due(`sidecar${place} ships a void`, () => {
          sidecar.voids.shift();
          sidecar.passedOn -= first.units;
          if (first.id !== null) this.ledger.void(first.id, place, first.units);
          if (first.reader !== null) this.ledger.voidReading(first.reader);
        });
      }
      if (sidecar.used.length > 0) due(`sidecar${place} ships a record`, () => this.#post(place, sidecar));
      if (sidecar.available > 0) {
        may(`sidecar${place} returns a unit`, () => {
          sidecar.available--;
          this.ledger.returnUnit(place);
        });
      }
      if (this.ledger.isRevoked && !sidecar.isRevocationKnown)
        may(`sidecar${place} learns of the revocation`, () => {
          sidecar.isRevocationKnown = true;
        });
    });
    // Last of all, so that it is over only when nothing else happens by itself.
    for (const copy of this.copies)
      if (copy.isWaiting) due(`${copy.name} has waited`, () => this.#waited(copy));
    if (!this.ledger.isRevoked)
      fault('the passport is revoked', () => {
        this.ledger.isRevoked = true;
      });
    for (const id of this.ledger.pendingApprovals()) may(`${id} is approved`, () => this.ledger.approve(id));
    for (const id of this.ledger.liveApprovals()) fault(`${id} expires`, () => this.ledger.expire(id));
    return events;
  }

  /** Throws, naming it, for the first promise that is broken now. */
  check(): void {
    this.ledger.check();
    for (const copy of this.copies) {
      if (copy.isStarted && copy.told === null && this.ledger.isUsedUp) copy.hasSeenUsedUp = true;
      const { told, name } = copy;
      if (told?.kind === 'PERMIT' && !this.ledger.isStanding(told.id))
        throw new Error(`${name} was told PERMIT ${told.id}, which does not stand`);
    }
  }

  /** The same at the end, when nothing is under way any more. */
  checkEnd(): void {
    this.check();
    this.ledger.checkEnd();
    this.#sidecars.forEach(({ available, reserved, passedOn, used }, place) => {
      const held = available + reserved + passedOn + used.length;
      if (reserved !== 0 || passedOn !== 0)
        throw new Error(`sidecar${place} still has units for what is over`);
      if (held !== this.ledger.leasedTo(place)) throw new Error(`sidecar${place} and the ledger differ`);
    });
    for (const id of this.ledger.pendingApprovals()) {
      const isTold = this.copies.some(({ told }) => told?.kind === 'SUSPEND' && told.reason === id);
      if (!isTold && id !== presentedId) throw new Error(`${id} waits for a person, and nobody was told`);
    }
    for (const copy of this.copies) {
      const { told, name, isGone, run } = copy;
      if (told === null && !isGone) throw new Error(`${name} was not answered`);
      if (told !== null && run !== null && run.state !== 'answered')
        throw new Error(`the run of ${name} has not ended`);
      for (const id of this.ledger.standingOf(name)) {
        const isTold = this.copies.some((each) => each.told?.kind === 'PERMIT' && each.told.id === id);
        if (!isTold) throw new Error(`${id} stands, and its client was told ${JSON.stringify(told)}`);
      }
      if (told?.kind !== 'BLOCK' || told.reason !== 'spend_limit_exceeded') continue;
      if (copy.key !== null && !copy.hasSeenUsedUp)
        throw new Error(`${name} was told the limit, which was never used up while it waited`);
      const later = copy.underWay.find((id) => this.ledger.isStanding(id));
      if (later !== undefined) throw new Error(`${name} was told the limit, which ${later} was using up`);
    }
  }

  #start(copy: Copy): void {
    copy.isStarted = true;
    this.#decide(copy);
  }

  #decide(copy: Copy): void {
    if (this.#isOver(copy)) return;
    const sidecar = this.#sidecarOf(copy);
    const request = copy.run?.known(copy.request) ?? copy.request;
    const quota = {
      spend: [
        aWindow({
          ...{ limit: this.spec.limit * unit, available: sidecar.available * unit },
          ...{ isFinal: copy.isRefused, endsAtMs: (nowMs + 60_000) as UnixMillis },
        }),
      ],
      ...{ rate: [], standingApprovals: [], wallet: null },
    };
    const standing = aStanding({ status: sidecar.isRevocationKnown ? 'revoked' : 'active' });
    const decision = decide(this.#gate, { kind: 'verified', passport, standing }, request, quota, nowMs);
    const isPending = mayBePending(this.#gate, passport, request, decision);
    copy.decision = decision;
    if (copy.run === null && !needsRun(decision, request, isPending)) {
      this.#record(copy, decision);
      return;
    }
    copy.run ??= new Run(copy.request);
    this.#perform(copy, copy.run.decided(decision, isPending));
  }

  #report(copy: Copy, event: RunEvent): void {
    this.#perform(copy, must(copy.run, 'only a run gets events').on(event));
  }

  #perform(copy: Copy, effect: RunEffect): void {
    if (effect.kind === 'decide') this.#decide(copy);
    else if (effect.kind === 'ask_leases') copy.isAskingLeases = true;
    else if (effect.kind === 'look_up')
      copy.open = this.#newOpen(copy, { kind: 'look_up', id: '', isShort: copy.isRefused });
    else if (effect.kind === 'wait') copy.isWaiting = true;
    else if (effect.kind === 'settle_permit') this.#settle(copy, 'permit');
    else if (effect.kind === 'settle_suspend') this.#settle(copy, 'suspend');
    else if (effect.kind === 'void') must(copy.voidSettlement, 'a run voids what it has settled')();
    else if (effect.kind === 'record') this.#record(copy, effect.decision);
    else if (effect.kind === 'answer') this.#answer(copy, effect.answer);
    else unreachable(effect);
  }

  #settle(copy: Copy, kind: 'permit' | 'suspend'): void {
    const sidecar = this.#sidecarOf(copy);
    const { moneyMicroUsd } = must(must(copy.decision, 'decided').charge, 'what is settled has a charge');
    const units = moneyMicroUsd === 0 ? 0 : 1;
    if (sidecar.available < units) throw new Error(`${copy.name} takes units that are not there`);
    sidecar.available -= units;
    sidecar.reserved += units;
    copy.settlements++;
    const id = `${kind === 'permit' ? 'att' : 'appr'} of ${copy.name} ${copy.settlements}`;
    const open = this.#newOpen(copy, { kind, id, units });
    copy.open = open;
    copy.voidSettlement = () => {
      this.#void(copy, { id, units, reader: open.call.reader });
      this.#report(copy, { kind: 'written' });
    };
  }

  #void(copy: Copy, entry: VoidEntry): void {
    const sidecar = this.#sidecarOf(copy);
    sidecar.reserved -= entry.units;
    sidecar.passedOn += entry.units;
    sidecar.voids.push(entry);
  }

  /**
   * The copy is over. What it has read and is not answered with is theirs alone again who have settled it.
   */
  #endReadings(copy: Copy, isAnsweredWith: boolean): void {
    const kept = isAnsweredWith ? 1 : 0;
    const unused = copy.readings.splice(0, copy.readings.length - kept);
    for (const reading of unused) this.#void(copy, reading);
  }

  #tell(copy: Copy, told: Told, isRead = false): void {
    copy.told ??= told;
    this.#endReadings(copy, isRead);
  }

  #record(copy: Copy, decision: Decision): void {
    const sidecar = this.#sidecarOf(copy);
    if (decision.outcome === 'PERMIT') {
      if (sidecar.available < 1) throw new Error(`${copy.name} takes units that are not there`);
      sidecar.available--;
      const id = `plain att of ${copy.name}`;
      sidecar.used.push(id);
      this.ledger.spool(id);
      this.#tell(copy, { kind: 'PERMIT', id });
    } else this.#tell(copy, { kind: 'BLOCK', reason: `${decision.reason}` });
    if (copy.run?.state === 'recording') copy.run.on({ kind: 'written' });
  }

  #answer(copy: Copy, answer: RunAnswer): void {
    if (copy.isGone) return;
    if (answer.kind === 'decision') this.#tell(copy, { kind: 'PERMIT', id: this.#idOf(copy) });
    else if (answer.kind === 'suspended')
      this.#tell(copy, { kind: 'SUSPEND', reason: answer.approval.approvalId }, true);
    else if (answer.kind === 'replay') {
      if (this.#sidecarOf(copy).isRevocationKnown)
        throw new Error(`${copy.name} was answered a first PERMIT after the revocation`);
      this.#tell(copy, { kind: 'PERMIT', id: answer.first.attestationId }, true);
    } else if (answer.kind === 'error') this.#tell(copy, { kind: 'error', reason: answer.code });
    else unreachable(answer);
  }

  /** A client that goes leaves a run that nobody needs, unless something of it is under way. */
  #isOver = (copy: Copy): boolean => copy.isGone || copy.told !== null;

  #grant(copy: Copy): void {
    copy.isAskingLeases = false;
    const isGranted = this.ledger.lease(copy.sidecar);
    if (isGranted) this.#sidecarOf(copy).available++;
    if (this.#isOver(copy)) return;
    const canTake = this.#sidecarOf(copy).available > 0;
    if (!canTake) copy.isRefused = true;
    this.#report(copy, { kind: canTake ? 'granted' : 'refused' });
  }

  #waited(copy: Copy): void {
    copy.isWaiting = false;
    copy.waits++;
    if (this.#isOver(copy)) return;
    copy.isRefused = false;
    this.#report(copy, { kind: copy.waits > this.#waitsMax ? 'late' : 'waited' });
  }

  /** Where nothing fails, time is never over. */
  get #waitsMax(): number {
    return this.spec.faults === 0 ? 20 : 2;
  }

  #leasesLate(copy: Copy): void {
    copy.isAskingLeases = false;
    if (!this.#isOver(copy)) this.#report(copy, { kind: 'late' });
  }

  #newOpen(copy: Copy, about: CallOf<'permit' | 'suspend'> | CallOf<'look_up'>): Open {
    const { name, sidecar, key, hash, presents } = copy;
    const asked = { of: name, sidecar, key, hash, presents, reader: `reading of ${name} ${++copy.calls}` };
    return { call: { ...asked, ...about }, isSent: false, isUncertain: false, attempt: 1 };
  }

  /** A look-up waits while a permit with its key is open here. */
  #mustWait(copy: Copy, { call }: Open): boolean {
    if (call.kind !== 'look_up' || copy.key === null) return false;
    return this.copies.some(
      ({ open, sidecar, key }) =>
        open?.call.kind === 'permit' && sidecar === copy.sidecar && key === copy.key,
    );
  }

  #send(copy: Copy, open: Open): void {
    open.isSent = true;
    const { call, attempt } = open;
    this.#messages.push({ copy, call, attempt, stage: 'request', answer: null, underWay: [] });
  }

  #arrive(message: Message): void {
    const { copy, call, attempt } = message;
    if (message.stage === 'request') {
      if (call.kind === 'look_up' && !this.ledger.hasBegun(message))
        message.underWay = this.#permitsUnderWay(call);
      const answer = this.ledger.execute(call, message);
      if (answer === null) return;
      message.answer = answer;
      message.stage = 'answer';
      return;
    }
    this.#remove(message);
    const { open } = copy;
    if (open?.call !== call || open.attempt !== attempt) return;
    if (message.answer?.kind === 'none' && this.#mustWait(copy, open)) {
      // A permit of its key began here meanwhile: it looks again when that is known.
      open.isSent = false;
      return;
    }
    copy.underWay = message.underWay;
    this.#outcome(copy, open, must(message.answer, 'an answer says something'));
  }

  /** One that presents an approval uses up no limit: its unit was the approval's before. */
  #permitsUnderWay(call: LedgerCall): readonly string[] {
    const same = ({ call: other }: { readonly call: LedgerCall }) =>
      other.kind === 'permit' &&
      !other.presents &&
      other.key !== null &&
      other.key === call.key &&
      other.hash === call.hash;
    return this.copies.flatMap(({ open }) => (open !== null && same(open) ? [open.call.id] : []));
  }

  /** What was reserved ends with the outcome. */
  #outcome(copy: Copy, open: Open, outcome: SettlementOutcome): void {
    const { call, isUncertain } = open;
    const isWanted = !copy.isGone;
    copy.open = null;
    const { reader } = call;
    const isCertain = call.kind === 'look_up' ? !isUncertain : hasNotArrived(outcome);
    const reading = readingFateOf(outcome, isCertain);
    const endsToo = outcome.kind === 'replayed' && call.kind === 'permit';
    if (reading === 'read') copy.readings.push({ id: endsToo ? call.id : null, units: 0, reader });
    if (!isWanted) this.#endReadings(copy, false);
    if (call.kind === 'look_up') {
      if (reading === 'void') this.#void(copy, { id: null, units: 0, reader });
      if (isWanted) this.#report(copy, eventOf(outcome, 'looked_up'));
      return;
    }
    const sidecar = this.#sidecarOf(copy);
    const isPermit = call.kind === 'permit';
    const fate = fateOf(outcome, { isPermit, isWanted });
    switch (fate) {
      case 'undo':
        this.#report(copy, { kind: 'late' });
        return;
      case 'keep':
      case 'pass_on':
        sidecar.reserved -= call.units;
        break;
      case 'give_back':
        sidecar.reserved -= call.units;
        sidecar.available += call.units;
        if (reading === 'void') this.#void(copy, { id: null, units: 0, reader });
        break;
      case 'void':
        this.#void(copy, { ...call, reader: reading === 'void' ? reader : null });
        break;
      default:
        unreachable(fate);
    }
    if (isWanted) this.#report(copy, eventOf(outcome, 'settled'));
  }

  #post(place: number, sidecar: Sidecar): void {
    must(sidecar.used.shift(), 'a record that is shipped was spooled');
    this.ledger.post(place);
  }

  #idOf = (copy: Copy): string => `att of ${copy.name} ${copy.settlements}`;
  #sidecarOf = (copy: Copy): Sidecar => must(this.#sidecars[copy.sidecar], 'a copy comes to a sidecar');

  #remove(message: Message): void {
    const place = this.#messages.indexOf(message);
    if (place >= 0) this.#messages.splice(place, 1);
  }
}
