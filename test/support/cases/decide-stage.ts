import { nobleEd25519 } from '../../../shared/crypto/ed25519-noble.ts';
import type { CompiledGate, CompiledPolicy } from '../../../shared/decision/compile-gate.ts';
import { decide } from '../../../shared/decision/decide.ts';
import type {
  Charge,
  Decision,
  PassportFacts,
  PresentedProof,
  QuotaView,
  RequestFacts,
  VerifiedPassport,
  WindowView,
} from '../../../shared/decision/facts.ts';
import { must } from '../../../shared/errors/assert.ts';
import type { PresentedApproval } from '../../../shared/model/approval.ts';
import { type ApprovalId, type GateId, makeId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { redactRequest } from '../../../shared/pii/redact-request.ts';
import { scanPii } from '../../../shared/pii/scan-pii.ts';
import { counterKey } from '../../../shared/quota/counter.ts';
import { windowAt } from '../../../shared/quota/window.ts';
import { counterOf, type WindowLimit } from '../../../shared/quota/window-limit.ts';
import { openProof } from '../../../shared/verification/open-proof.ts';
import { parseRequestFacts } from '../../../shared/wire/check.ts';
import { renderDecision } from '../../../shared/wire/decision.ts';
import type { Place, Presenter } from './decision-case.ts';
import { withProof } from './make-proof.ts';
import type { Stage } from './play-case.ts';

const ed25519 = nobleEd25519();

interface StoredApproval {
  readonly approvalId: ApprovalId;
  status: Exclude<PresentedApproval, 'none' | 'unasked' | 'mismatch'>;
  readonly passportId: string;
  readonly gateId: string | null;
  readonly gateVersion: number;
  readonly requestHash: string;
  readonly held: readonly Draw[];
}

/** Units of one window. */
interface Draw {
  readonly key: string;
  readonly units: number;
}

interface Setting {
  readonly policies: Readonly<Record<Place, CompiledPolicy | CompiledGate>>;
  readonly factsOf: (by: Presenter) => PassportFacts;
  /** As it is shown; the same for all of the case. */
  readonly tokenOf: () => string;
  readonly nowMs: UnixMillis;
  /** Nothing can be looked up any more. */
  readonly isCutOff: boolean;
}

/**
 * The plainest shell around `decide` that there can be: one map of counters, one list of approvals, and time
 * that stands.
 */
export class DecideStage implements Stage {
  /** What is used of each window. */
  readonly #used = new Map<string, number>();
  readonly #approvals: StoredApproval[] = [];
  /** Names of those that were used. */
  readonly #proofs = new Set<string>();
  #setting: Setting;
  #gateVersion = 1;

  constructor(setting: Setting) {
    this.#setting = setting;
  }

  /** What was well until now changes; what has been counted stays. */
  change(setting: Partial<Setting>): void {
    this.#setting = { ...this.#setting, ...setting };
  }

  async ask({ by, at, request }: Parameters<Stage['ask']>[0]) {
    const policy = this.#setting.policies[at];
    const facts = this.#setting.factsOf(by);
    const asked = this.#factsOf(policy, facts, request);
    const { spend, rate } = this.#windowsOf(policy, facts);
    const view = {
      spend: spend.map((key) => this.#view(key)),
      rate: rate.map((key) => this.#view(key)),
      standingApprovals: [],
      wallet: null,
    };
    const first = decide(policy, facts, asked, view satisfies QuotaView, this.#setting.nowMs);
    // What the same request holds already must not keep it out (contract §8).
    const isWaiting =
      first.reason === 'spend_limit_exceeded' && this.#waitingFor(policy, facts, asked) !== undefined;
    const decision = isWaiting
      ? decide(policy, facts, { ...asked, approval: 'pending' }, view, this.#setting.nowMs)
      : first;
    const approval = this.#settle(decision, { policy, facts, asked, spend, rate });
    return renderDecision(decision, {
      attestationId:
        decision.outcome === 'SUSPEND' ? null : makeId('att', this.#setting.nowMs, new Uint8Array(10)),
      approval:
        approval === null
          ? null
          : { approvalId: approval.approvalId, expiresAtMs: (this.#setting.nowMs + 1) as UnixMillis },
      redacted: decision.isRedacted ? redactRequest(request, must(policy.pii, 'it redacts').types) : null,
      nowMs: this.#setting.nowMs,
    });
  }

  async resolve(approvalId: string, word: 'approve' | 'deny') {
    this.#end(approvalId, word === 'approve' ? 'approved' : 'denied');
  }

  async waitForExpiry(approvalId: string) {
    this.#end(approvalId, 'expired');
  }

  async changePolicy() {
    this.#gateVersion++;
  }

  async renameGate() {
    // Approvals are bound to the policy.
  }

  #end(approvalId: string, status: StoredApproval['status']): void {
    const approval = must(
      this.#approvals.find((each) => each.approvalId === approvalId),
      'the approval was opened',
    );
    approval.status = status;
    if (status === 'approved') return;
    for (const { key, units } of approval.held) this.#used.set(key, this.#usedOf(key) - units);
  }

  #factsOf(
    policy: CompiledPolicy,
    facts: PassportFacts,
    request: Readonly<Record<string, unknown>>,
  ): RequestFacts {
    const asked = { ...parseRequestFacts(request), proof: this.#proofOf(facts, request) };
    const pii = policy.pii === null ? null : scanPii(request, policy.pii.types);
    if (asked.approvalId === null || this.#setting.isCutOff) return { ...asked, pii };
    const found = this.#approvals.find((each) => each.approvalId === asked.approvalId);
    const isBound = found !== undefined && this.#isOf(found, policy, facts, asked);
    return { ...asked, pii, approval: isBound ? found.status : 'mismatch' };
  }

  #proofOf(facts: PassportFacts, request: Readonly<Record<string, unknown>>): PresentedProof {
    const token = this.#setting.tokenOf();
    const { proof } = withProof(request, token, this.#setting.nowMs);
    if (proof === undefined) return { kind: 'none' };
    if (facts.kind === 'refused') return { kind: 'unread' };
    const opened = openProof(proof, { ...facts.passport, token });
    const isSigned =
      opened !== null && ed25519.verifier(opened.key.bytes)(Buffer.from(opened.signedText), opened.signature);
    if (opened === null || !isSigned) return { kind: 'invalid' };
    if (this.#proofs.has(opened.replayName)) return { kind: 'replayed' };
    this.#proofs.add(opened.replayName);
    const { scheme, fromMs, untilMs } = opened;
    return { kind: 'verified', scheme, fromMs, untilMs, firstUse: 'exact' };
  }

  #isOf(
    approval: StoredApproval,
    policy: CompiledPolicy,
    facts: PassportFacts,
    asked: RequestFacts,
  ): boolean {
    return (
      facts.kind === 'verified' &&
      approval.passportId === facts.passport.passportId &&
      approval.gateId === gateIdOf(policy) &&
      approval.gateVersion === this.#gateVersion &&
      approval.requestHash === asked.requestHash
    );
  }

  #waitingFor(policy: CompiledPolicy, facts: PassportFacts, asked: RequestFacts): StoredApproval | undefined {
    return this.#approvals.find(
      (each) => each.status === 'pending' && this.#isOf(each, policy, facts, asked),
    );
  }

  /** The windows in the order of the view, each as the key of its counter and its limit. */
  #windowsOf(policy: CompiledPolicy, facts: PassportFacts) {
    if (facts.kind === 'refused') return { spend: [], rate: [] };
    const { passport } = facts;
    const all = (limits: readonly WindowLimit[]) =>
      limits.map((limit) => ({ limit, key: this.#keyOf(limit, policy, passport) }));
    return {
      spend: all([...policy.spendWindows, ...passport.spendWindows]),
      rate: all([...policy.rateWindows, ...passport.rateWindows]),
    };
  }

  #keyOf(limit: WindowLimit, policy: CompiledPolicy, { passportId }: VerifiedPassport): string {
    const { startsAtMs } = windowAt(limit.window, this.#setting.nowMs);
    return `${counterKey(counterOf(limit, gateIdOf(policy), passportId))} ${limit.window} ${startsAtMs}`;
  }

  #usedOf(key: string): number {
    return this.#used.get(key) ?? 0;
  }

  #view({ limit, key }: { readonly limit: WindowLimit; readonly key: string }): WindowView {
    const used = this.#usedOf(key);
    const { isCutOff, nowMs } = this.#setting;
    return {
      limit: limit.limit,
      available: isCutOff ? 0 : limit.limit - used,
      used,
      isFinal: !isCutOff,
      endsAtMs: isCutOff ? null : windowAt(limit.window, nowMs).endsAtMs,
    };
  }

  /**
   * Takes what the decision takes. The approval that a SUSPEND waits for is one that waits already, or a new
   * one.
   */
  #settle(
    { outcome, charge }: Decision,
    about: {
      readonly policy: CompiledPolicy;
      readonly facts: PassportFacts;
      readonly asked: RequestFacts;
      readonly spend: readonly { readonly key: string }[];
      readonly rate: readonly { readonly key: string }[];
    },
  ): StoredApproval | null {
    const { policy, facts, asked } = about;
    const presented = this.#approvals.find((each) => each.approvalId === asked.approvalId);
    if (outcome === 'PERMIT' && presented !== undefined) presented.status = 'used';
    if (outcome === 'SUSPEND') {
      const waiting = this.#waitingFor(policy, facts, asked);
      if (waiting !== undefined) return waiting;
    }
    if (charge === null) return null;
    const draws = drawsOf(charge, about);
    for (const { key, units } of draws) this.#used.set(key, this.#usedOf(key) + units);
    if (outcome !== 'SUSPEND' || facts.kind === 'refused') return null;
    const opened: StoredApproval = {
      approvalId: makeId('appr', this.#setting.nowMs, new Uint8Array(10).fill(this.#approvals.length)),
      status: 'pending',
      passportId: facts.passport.passportId,
      gateId: gateIdOf(policy),
      gateVersion: this.#gateVersion,
      requestHash: asked.requestHash,
      held: draws,
    };
    this.#approvals.push(opened);
    return opened;
  }
}

const gateIdOf = (policy: CompiledPolicy | CompiledGate): GateId | null =>
  'gateId' in policy ? policy.gateId : null;

const drawsOf = (
  { moneyMicroUsd, requests }: Charge,
  {
    spend,
    rate,
  }: {
    readonly spend: readonly { readonly key: string }[];
    readonly rate: readonly { readonly key: string }[];
  },
): readonly Draw[] => [
  ...spend.map(({ key }) => ({ key, units: moneyMicroUsd })),
  ...rate.map(({ key }) => ({ key, units: requests })),
];
