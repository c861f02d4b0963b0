import { AgentTrustError } from '../../clients/node/src/errors.ts';
import type { Decision } from '../../clients/node/src/sidecar.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { numbered } from '../support/data/model-service.ts';
import type { Chance } from './chance.ts';
import { type Course, gateAt } from './course.ts';
import { type Process, theLoop } from './loop.ts';
import type { ControlPlane } from './model/control-plane.ts';
import type { AskedRequest, Attempt, Oracle, Report, ReportAttempt, Told } from './oracle.ts';
import type { Ask } from './plan.ts';
import type { SidecarNode } from './sidecar-node.ts';

interface ClientDeps {
  readonly course: Course;
  readonly nodes: readonly SidecarNode[];
  readonly controlPlane: ControlPlane;
  readonly oracle: Oracle;
  readonly chance: Chance;
  readonly ofRefunds: Chance;
  readonly note: (line: string) => void;
  readonly wrong: (sentence: string) => void;
  readonly process: Process;
}

const triesMax = 3;

/** Those who ask, ask again after 503 with a key, and come back with an approval. */
export class Clients {
  readonly counts = new Map<string, number>();
  readonly #deps: ClientDeps;
  readonly #requests = new Map<number, AskedRequest>();
  /** Of what was permitted, the part that is refunded. */
  readonly #refunded: number;
  #isRetired = false;

  constructor(deps: ClientDeps) {
    this.#deps = deps;
    this.#refunded = deps.ofRefunds.pick([0, 0.1, 0.5, 0.9]);
  }

  ask(step: Ask): void {
    this.#attempt(step, step.sidecar, { presents: null, tries: 0 });
  }

  /** From now on nobody asks again. */
  retire(): void {
    this.#isRetired = true;
  }

  #attempt(
    step: Ask,
    sidecar: number,
    how: { readonly presents: string | null; readonly tries: number },
  ): void {
    const { nodes, controlPlane } = this.#deps;
    const node = nodes[sidecar] as SidecarNode;
    const { process, checks, core } = node;
    if (process === null || checks === null || core === null) {
      this.count('nobody listens');
      return;
    }
    const request = this.#requestOf(step);
    const loop = theLoop();
    const connection = controlPlane.sidecars.get(node.sidecarId ?? '');
    const attempt: Attempt = {
      request,
      node,
      process,
      presents: how.presents,
      askedAtMs: loop.nowMs,
      // What was acknowledged outlives the process.
      knownGlobal: Math.max(connection?.ackedGlobal ?? 0, core.replica.globalRevision),
      knownAccount: Math.max(connection?.ackedAccount ?? 0, core.replica.accountRevision),
      heardAtMs: process.heardAtMs,
      knowsTime: process.knowsTime,
      epoch: null,
      answeredAtMs: null,
      told: null,
      isOver: false,
    };
    request.attempts.push(attempt);
    const ending = new AbortController();
    if (step.abortsAfterMs !== null && how.tries === 0)
      loop.schedule(process, step.abortsAfterMs, 'io', () => ending.abort());
    const gateId = request.gate?.body.gate_id ?? numbered.gate(99);
    const body = { ...bodyOf(step), ...(how.presents !== null && { approval_id: how.presents }) };
    loop.schedule(process, 0, 'io', () => {
      checks
        .ask(gateId, { passport: request.passport.token, request: body } as never, { signal: ending.signal })
        .then(
          (decision) => this.#note(step, attempt, toldOf(decision), how),
          (error: unknown) => this.#note(step, attempt, this.#failureOf(error), how),
        );
    });
  }

  #failureOf(error: unknown): Told | null {
    if (error instanceof AgentTrustError) return { kind: 'refused', code: error.code ?? 'error' };
    if (error instanceof DOMException) return null;
    this.#deps.wrong(`a check throws ${error instanceof Error ? error.stack : String(error)}`);
    return null;
  }

  #note(
    step: Ask,
    attempt: Attempt,
    told: Told | null,
    how: { readonly presents: string | null; readonly tries: number },
  ): void {
    const { oracle, note, wrong } = this.#deps;
    attempt.told = told;
    attempt.isOver = true;
    attempt.answeredAtMs = theLoop().nowMs;
    attempt.epoch = attempt.node.epoch;
    const text =
      told === null
        ? 'given up'
        : 'reason' in told
          ? `BLOCK ${told.reason}`
          : 'code' in told
            ? told.code
            : told.kind;
    this.count(text);
    if (attempt.node.accountId !== this.#deps.course.accountId) this.count(`elsewhere: ${told?.kind}`);
    note(
      `request ${step.request} at ${attempt.process.name}: ${text} ${told !== null && 'attestationId' in told ? told.attestationId : ''}`,
    );
    if (text === 'internal_error') wrong('a check is answered internal_error');
    oracle.noteAnswer(attempt);
    // What an approval has paid is not among the units of leases.
    if (told?.kind === 'PERMIT' && how.presents === null) this.#regret(step, told.attestationId);
    if (step.isHeld && told?.kind === 'PERMIT') this.#serve(step, told.attestationId);
    this.#goOn(step, attempt, how);
  }

  #goOn(
    step: Ask,
    { told, node }: Attempt,
    { presents, tries }: { readonly presents: string | null; readonly tries: number },
  ): void {
    const { chance, course, process } = this.#deps;
    if (tries >= triesMax || told === null || this.#isRetired) return;
    const again = (sidecar: number, pauseMs: number, presented: string | null): void => {
      theLoop().schedule(process, pauseMs, 'io', () =>
        this.#isRetired ? undefined : this.#attempt(step, sidecar, { presents: presented, tries: tries + 1 }),
      );
    };
    const any = chance.below(course.sidecars);
    const other = node.accountId === course.accountId ? any : node.index;
    if (told.kind === 'SUSPEND') again(other, chance.between(300, 2_500), told.approvalId);
    else if (told.kind === 'refused' && step.isKeyed)
      again(chance.happens(0.5) ? other : node.index, chance.between(20, 800), presents);
    else if (
      told.kind === 'BLOCK' &&
      told.reason.startsWith('approval_') &&
      told.reason !== 'approval_denied' &&
      presents !== null
    )
      again(other, chance.between(300, 1_500), presents);
  }

  /** What was permitted is done, or not, and reported; perhaps once more, perhaps elsewhere. */
  #serve(step: Ask, attestationId: string): void {
    const { chance, oracle } = this.#deps;
    const known = oracle.reports.get(attestationId);
    if (known !== undefined || this.#isRetired || chance.happens(0.25)) return;
    const hasFailed = chance.happens(0.3);
    const amount =
      hasFailed || chance.happens(0.3) ? null : Math.min(step.amountUsd ?? 0, chance.pick([0, 0.01, 0.2]));
    const report: Report = {
      attestationId,
      given: { outcome: hasFailed ? 'failed' : 'served', ...(amount === null ? {} : { amount }) },
      tries: [],
    };
    oracle.reports.set(attestationId, report);
    this.#report(report, chance.pick([5, 100, 1_500]) * chance.fraction(), step.sidecar);
  }

  /** It comes to nothing after all, or to less; perhaps to even less later. */
  #regret({ amountUsd }: Ask, attestationId: string): void {
    const { ofRefunds: chance, oracle } = this.#deps;
    if (amountUsd === null || oracle.refunds.has(attestationId) || !chance.happens(this.#refunded)) return;
    oracle.refunds.set(attestationId, 0);
    for (let times = chance.pick([1, 1, 2, 3]); times > 0; times--) {
      const amount = chance.happens(0.4) ? null : Math.round(amountUsd * 1e6 * chance.pick([0.1, 0.5, 1]));
      this.#refund({ attestationId, amount, tries: 0 }, chance.between(100, 3_000));
    }
  }

  #refund(of: { attestationId: string; amount: number | null; tries: number }, pauseMs: number): void {
    const { ofRefunds: chance, controlPlane, oracle, process } = this.#deps;
    theLoop().schedule(process, pauseMs, 'io', () => {
      const { attestationId, amount, tries } = of;
      const counted = controlPlane.holds.permits.get(attestationId)?.countsMicroUsd ?? 0;
      const verdict = controlPlane.refund(attestationId, amount as MicroUsd | null);
      const text = verdict === null ? 'unknown' : verdict.kind === 'refused' ? verdict.code : 'taken';
      this.count(`refund ${text}`);
      this.#deps.note(`refund of ${attestationId}: ${text}`);
      if (verdict?.kind === 'changed') oracle.noteRefund(attestationId, amount ?? counted);
      // Not on record, or its hold is open.
      else if (tries < triesMax && !this.#isRetired)
        this.#refund({ ...of, tries: tries + 1 }, chance.between(300, 1_500));
    });
  }

  /** `asked`: the sidecar that was asked; the others of its account take the outcome, too. */
  #report(report: Report, pauseMs: number, asked: number): void {
    const { chance, course, nodes, process: outside } = this.#deps;
    theLoop().schedule(outside, pauseMs, 'io', () => {
      const any = chance.below(course.sidecars);
      const node = nodes[asked < course.sidecars ? any : asked] as SidecarNode;
      const { process, checks } = node;
      const again = (): void => {
        if (report.tries.length < triesMax && !this.#isRetired)
          this.#report(report, chance.between(20, 800), asked);
      };
      if (process === null || checks === null) return again();
      const attempt: ReportAttempt = { node, process, epoch: null, answeredAtMs: null, isTaken: false };
      report.tries.push(attempt);
      theLoop().schedule(process, 0, 'io', () => {
        const note = (isTaken: boolean, text: string): void => {
          Object.assign(attempt, { isTaken, epoch: node.epoch, answeredAtMs: theLoop().nowMs });
          this.count(`outcome ${text}`);
          this.#deps.note(`outcome of ${report.attestationId} at ${process.name}: ${text}`);
          // An answer may be lost on its way to the client, too.
          if (!isTaken || chance.happens(0.2)) again();
        };
        checks.report(report.attestationId, report.given, 'live').then(
          () => note(true, 'taken'),
          (error: unknown) =>
            note(false, error instanceof AgentTrustError ? (error.code ?? 'error') : 'error'),
        );
      });
    });
  }

  #requestOf(step: Ask): AskedRequest {
    const { course, oracle } = this.#deps;
    const known = this.#requests.get(step.request);
    if (known !== undefined) return known;
    const request: AskedRequest = {
      number: step.request,
      gate: gateAt(course, step.gate),
      passport: course.passports[step.passport] as AskedRequest['passport'],
      amountMicroUsd: Math.round((step.amountUsd ?? 0) * 1_000_000),
      isKeyed: step.isKeyed,
      isHeld: step.isHeld,
      hash: contentHash(bodyOf(step)),
      attempts: [],
    };
    this.#requests.set(step.request, request);
    oracle.requests.push(request);
    return request;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }
}

const bodyOf = (step: Ask): Readonly<Record<string, unknown>> => ({
  permission_key: step.permission,
  ...(step.amountUsd !== null && { amount: step.amountUsd, currency: 'USD' }),
  note: `request ${step.request}`,
  ...(step.isHeld && { hold: true }),
  ...(step.isKeyed && { idempotency_key: `key-${step.request}` }),
});

function toldOf(decision: Decision): Told {
  switch (decision.decision) {
    case 'PERMIT':
      return { kind: 'PERMIT', attestationId: decision.attestation_id };
    case 'BLOCK':
      return { kind: 'BLOCK', attestationId: decision.attestation_id, reason: String(decision.reason) };
    case 'SUSPEND':
      return { kind: 'SUSPEND', approvalId: decision.approval_id };
    default:
      return { kind: 'refused', code: decision.reason };
  }
}
