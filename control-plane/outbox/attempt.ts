import { limits } from '../../shared/model/limits.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { trimBlanks } from '../../shared/wire/api/request-headers.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { OutboundDeps } from './deps.ts';
import { AnswerTooLate, type GuardedAnswer, TargetRefused } from './guarded-fetch.ts';
import { outboxLimits } from './limits.ts';
import type { Answer, Attempt, Claimed, Outbox } from './outbox.ts';
import { redactAnswer } from './redact-answer.ts';

/** Sends a delivery once, and says what follows for it and its endpoint. */
export async function attemptOnce<D extends Claimed, A extends Answer>(
  { clock, random }: Pick<BaseDeps, 'clock' | 'random'>,
  outbox: Pick<Outbox<D, A>, 'send' | 'pauseMs'>,
  delivery: D,
  signal: AbortSignal,
): Promise<Attempt<D, A>> {
  const startedAtMs = clock.now();
  const startedAt = clock.monotonic();
  const answer = await outbox.send(delivery, { nowMs: startedAtMs, signal });
  const latencyMs = Math.max(0, Math.round(clock.monotonic() - startedAt));
  const endedAtMs = clock.now();
  const { hasSucceeded, isGone, isFinal, askedForMs, isBusy } = answer;
  const pauseMs = hasSucceeded || isGone || isFinal ? null : outbox.pauseMs(delivery.tries + 1);
  return {
    delivery,
    answer,
    startedAtMs,
    endedAtMs,
    latencyMs,
    nextAttemptAtMs:
      pauseMs === null ? null : after(endedAtMs, Math.max(pauseMs * jitter(random), askedForMs ?? 0)),
    pausedUntilMs: isBusy && askedForMs !== null ? after(endedAtMs, askedForMs) : null,
  };
}

const after = (timeMs: UnixMillis, pauseMs: number) => Math.round(timeMs + pauseMs) as UnixMillis;

/** Cuts or stretches by a tenth, so that what failed together does not come back together. */
const jitter = (random: Random): number => 0.9 + (0.2 * (random.bytes(1)[0] ?? 0)) / 255;

/** What an address of others has answered. */
export interface Posted extends Answer {
  readonly statusCode: number | null;
  /** Without what looks like a secret. */
  readonly said: string | null;
  /** Why there was no answer. */
  readonly error: Error | null;
}

/** Posts to an address of others. Never throws for what it or the network does. */
export async function post(
  { clock, outbound }: OutboundDeps & Pick<BaseDeps, 'clock'>,
  url: string,
  asked: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly signal: AbortSignal;
  },
): Promise<Posted> {
  try {
    const answer = await outbound.request(url, {
      method: 'POST',
      ...asked,
      maxBytes: outboxLimits.answerBytesMax,
      timeoutMs: limits.webhookTimeoutMs,
    });
    const { status } = answer;
    const hasSucceeded = status >= 200 && status < 300;
    return {
      hasSucceeded,
      fault: null,
      isGone: status === 410,
      isFinal: false,
      askedForMs: hasSucceeded ? null : retryAfterMs(answer, clock.now()),
      // An endpoint that is overloaded says so for all of its deliveries.
      isBusy: status === 429 || status === 503,
      statusCode: status,
      said: redactAnswer(answer.body, answer),
      error: null,
    };
  } catch (error) {
    return { ...noAnswer, statusCode: null, said: null, error: error as Error };
  }
}

/** The attempt has failed, and nothing more is known of the other side. */
export const noAnswer = {
  ...{ hasSucceeded: false, fault: null, isGone: false, isFinal: false, askedForMs: null, isBusy: false },
} as const;

/** Why there was no answer, in words that hold no address; null: only `error.message` says it, which may. */
export const whyNone = (error: Error): string | null =>
  error instanceof TargetRefused || error instanceof AnswerTooLate ? error.message : codeOf(error);

export function codeOf(error: Error): string | null {
  const code = 'code' in error ? String(error.code) : '';
  return /^[A-Z0-9_]{1,64}$/.test(code) ? code : null;
}

/**
 * RFC 9110 §10.2.3: seconds, or a date. Null where there is none that can be read; never more than
 * `outboxLimits.retryAfterMsMax`.
 */
function retryAfterMs({ headers }: Pick<GuardedAnswer, 'headers'>, nowMs: UnixMillis): number | null {
  const text = trimBlanks(headers['retry-after'] ?? '');
  const askedMs = /^\d+$/.test(text) ? Number(text) * secondMs : dateOf(text) - nowMs;
  return askedMs > 0 ? Math.min(askedMs, outboxLimits.retryAfterMsMax) : null;
}

/** An HTTP date (`Wed, 21 Oct 2026 07:28:00 GMT`); NaN for anything else. */
const dateOf = (text: string): number =>
  /^[A-Z][a-z]{2}, .{1,30} GMT$/.test(text) ? Date.parse(text) : Number.NaN;
