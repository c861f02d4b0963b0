import { parseUsd } from '../../shared/model/money.ts';
import type { Given } from './caps.ts';
import type { Lane, Runner } from './course.ts';

/** A request as a client asks it, once or often. */
export interface Asked {
  readonly lane: Lane;
  readonly passport: Runner;
  readonly amountUsd: number | null;
  /** What all requests of one idempotency key share. */
  readonly key: AskedKey | null;
  /** As it is sent. */
  readonly body: Readonly<Record<string, unknown>>;
  /** The request that this one is: the same with and without the approval that it was given. */
  readonly sameAs: object;
  /** When it was sent first, under this key if it has one. */
  readonly askedAtMs: number;
}

export interface AskedKey {
  readonly name: string;
  readonly askedAtMs: number;
  /** How often it was asked. */
  count: number;
  /** The attestation of its PERMIT, once somebody was told. */
  attestationId: string | null;
}

/** A PERMIT of which a client knows. */
export interface Permitted extends Given {
  readonly attestationId: string;
  readonly asked: Asked;
}

/**
 * The clock of clients and that of windows are one here. A control plane carries it, so its windows may begin
 * this much earlier or later.
 */
export const slackMs = 50;

/** One request, over all that asked it. */
export interface ToldRequest {
  readonly asked: Asked;
  /**
   * How often it was asked and nothing, or half an answer, came back: what was decided for those is not known
   * here.
   */
  unanswered: number;
  isPermitted: boolean;
  /** Where and when it was asked, and what came of it: for whoever looks into a violation. */
  readonly story: string[];
}

/** As programs log it. */
const clockTime = (): string => new Date().toISOString().slice(11, -1);

/** What clients have said of one PERMIT that holds money. */
export interface ToldOutcomes {
  /** As JSON; whether a server had taken it or not. */
  readonly sent: Set<string>;
  /** Of these, what a server has taken: from then on it must not be lost. */
  readonly taken: Set<string>;
}

/** What all clients were told, and whether it fits together. */
export class Answers {
  /** By PERMIT. */
  readonly outcomes = new Map<string, ToldOutcomes>();
  readonly permits = new Map<string, Permitted>();
  /** By `Asked.sameAs`. */
  readonly requests = new Map<object, ToldRequest>();
  /** All that were asked. */
  readonly keys: AskedKey[] = [];
  /** How many answers said what: PERMIT, a reason, an error, or nothing. */
  readonly counts = new Map<string, number>();
  /** Sentences about answers that must not be. */
  readonly wrong: string[] = [];

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /**
   * To be called when it is sent. Returns what to call with its end: a whole answer, of whatever kind, or
   * that none came.
   */
  asks(asked: Asked, server: string): (end: string | null) => void {
    const request = this.requests.get(asked.sameAs) ?? {
      asked,
      unanswered: 0,
      isPermitted: false,
      story: [],
    };
    this.requests.set(asked.sameAs, request);
    request.unanswered++;
    const sentAt = clockTime();
    return (end) => {
      if (end !== null) request.unanswered--;
      request.story.push(`${sentAt} ${server}, ${clockTime()} ${end ?? 'no answer'}`);
    };
  }

  outcomesOf(attestationId: string): ToldOutcomes {
    const known = this.outcomes.get(attestationId) ?? { sent: new Set(), taken: new Set() };
    this.outcomes.set(attestationId, known);
    return known;
  }

  permit(asked: Asked, attestationId: string): void {
    const request = this.requests.get(asked.sameAs);
    if (request !== undefined) request.isPermitted = true;
    const known = this.permits.get(attestationId);
    if (known !== undefined) {
      if (asked.key === null || known.asked.sameAs !== asked.sameAs)
        this.#isWrong(asked, `${attestationId} answers two requests`);
      return;
    }
    const { key, lane, passport, amountUsd } = asked;
    if (key !== null) {
      if (key.attestationId !== null) this.#isWrong(asked, `${key.name} was permitted twice`);
      key.attestationId = attestationId;
    }
    this.permits.set(attestationId, {
      attestationId,
      asked,
      gateId: lane.gateId,
      passportId: passport.id,
      requests: 1,
      moneyMicroUsd: (amountUsd === null ? 0 : parseUsd(amountUsd)) ?? 0,
      earliestMs: asked.askedAtMs - slackMs,
      latestMs: Date.now() + slackMs,
    });
  }

  /** A conflict is said only where the key was permitted for another request, and no error is ours. */
  error(asked: Asked, status: number, code: string): void {
    this.count(`${status} ${code}`);
    if (code === 'internal_error') this.#isWrong(asked, 'the answer is internal_error');
    if (code === 'idempotency_conflict' && asked.key === null)
      this.#isWrong(asked, 'a conflict without a key');
  }

  #isWrong(asked: Asked, sentence: string): void {
    this.wrong.push(`${sentence}: ${JSON.stringify(asked.body)}`);
  }
}
