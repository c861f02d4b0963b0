import { signWebhook } from '../../shared/crypto/webhook-signature.ts';
import { limits } from '../../shared/model/limits.ts';
import { secondMs, toSeconds, type UnixMillis } from '../../shared/model/time.ts';
import { attemptPausesMs } from '../../shared/model/webhook.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { trimBlanks } from '../../shared/wire/api/request-headers.ts';
import { parseTraceparent, renderTraceHeaders } from '../../shared/wire/api/trace-context.ts';
import { sentBody, webhookHeaders } from '../../shared/wire/api/webhook.ts';
import type { AttemptResult, LockedDelivery } from './delivery-queue.ts';
import type { WebhookDeps } from './deps.ts';
import { type GuardedAnswer, TargetRefused } from './guarded-fetch.ts';
import { webhooksLimits } from './limits.ts';
import type { Ended } from './outbox.ts';
import { redactAnswer } from './redact-answer.ts';
import { sourceOf } from './source-of.ts';
import { openWebhookSecret } from './webhook-secret.ts';

/** One attempt, and its meaning for the endpoint. */
export interface Attempt extends Ended {
  readonly result: AttemptResult;
  readonly isGone: boolean;
  readonly pausedUntilMs: UnixMillis | null;
}

/**
 * Sends a delivery once, signed with every secret that counts now. Any 2xx is success; a redirect is not
 * followed and is a failure. Never throws for what the endpoint or the network does; throws where the secret
 * cannot be opened.
 */
export async function attemptDelivery(
  deps: Pick<WebhookDeps, 'baseUrl' | 'clock' | 'random' | 'sealer' | 'outbound' | 'tracer'>,
  delivery: LockedDelivery,
  signal: AbortSignal,
): Promise<Attempt> {
  const startedAtMs = deps.clock.now();
  const startedAt = deps.clock.monotonic();
  const message = {
    id: delivery.eventId,
    timestampS: toSeconds(startedAtMs),
    format: delivery.format,
    body: sentBody({ ...delivery, source: sourceOf(deps) }),
  };
  const signatures = secretsOf(deps, delivery, startedAtMs).map((secret) => signWebhook(secret, message));
  const parent = parseTraceparent(delivery.traceparent ?? undefined, delivery.tracestate ?? '');
  const span = deps.tracer?.start('webhook', { kind: 'client', parent }) ?? null;
  const trace = span?.trace ?? parent;
  const headers = {
    ...webhookHeaders({ ...message, signatures }),
    ...(trace !== null && renderTraceHeaders(trace)),
  };
  const outcome = await send(deps, { url: delivery.url, body: message.body, headers }, signal);
  const latencyMs = Math.max(0, Math.round(deps.clock.monotonic() - startedAt));
  const attempt = assessOutcome(deps, delivery, outcome, { startedAtMs, latencyMs });
  span?.end(spanEndOf(delivery, attempt));
  return attempt;
}

/** Without the address of the endpoint, which may have a key in it. */
const spanEndOf = (
  { webhookId, eventId, attempts }: LockedDelivery,
  { result: { statusCode }, hasSucceeded }: Attempt,
) => ({
  attributes: {
    'agent_trust.webhook_id': webhookId,
    'agent_trust.event_id': eventId,
    'agent_trust.attempt': attempts + 1,
    ...(statusCode !== null && { 'http.response.status_code': statusCode }),
  },
  isError: !hasSucceeded,
});

/** The current secret, then those before it that still count. */
function secretsOf(
  { sealer }: Pick<WebhookDeps, 'sealer'>,
  { webhookId, sealedSecret, previousSecrets }: LockedDelivery,
  nowMs: UnixMillis,
): Uint8Array[] {
  const previous = previousSecrets.filter(({ endsAtMs }) => nowMs < endsAtMs);
  const sealed = [sealedSecret, ...previous.map((each) => each.sealed)];
  return sealed.map((each) => openWebhookSecret(sealer, webhookId, each));
}

type Outcome = GuardedAnswer | { readonly status: null; readonly error: string };

async function send(
  { outbound }: Pick<WebhookDeps, 'outbound'>,
  {
    url,
    body,
    headers,
  }: { readonly url: string; readonly body: string; readonly headers: Readonly<Record<string, string>> },
  signal: AbortSignal,
): Promise<Outcome> {
  try {
    return await outbound.request(url, {
      method: 'POST',
      headers,
      body,
      maxBytes: webhooksLimits.webhookAnswerBytesMax,
      timeoutMs: limits.webhookTimeoutMs,
      signal,
    });
  } catch (error) {
    return { status: null, error: describe(error) };
  }
}

/**
 * For the owner of the endpoint: why there was no answer, without what a message of the network may carry
 * along.
 */
function describe(error: unknown): string {
  if (error instanceof TargetRefused) return error.message;
  const code = error instanceof Error && 'code' in error ? String(error.code) : null;
  if (code !== null && /^[A-Z0-9_]{1,64}$/.test(code)) return code;
  return error instanceof Error ? error.message.slice(0, 200) : 'no answer';
}

function assessOutcome(
  deps: Pick<WebhookDeps, 'clock' | 'random'>,
  delivery: LockedDelivery,
  outcome: Outcome,
  times: { readonly startedAtMs: UnixMillis; readonly latencyMs: number },
): Attempt {
  const nowMs = deps.clock.now();
  const hasSucceeded = outcome.status !== null && outcome.status >= 200 && outcome.status < 300;
  const isGone = outcome.status === 410;
  const askedForMs = outcome.status === null || hasSucceeded ? null : retryAfterMs(outcome, nowMs);
  // An endpoint that is overloaded says so for all of its deliveries.
  const isBusy = outcome.status === 429 || outcome.status === 503;
  const pausedUntilMs = isBusy && askedForMs !== null ? ((nowMs + askedForMs) as UnixMillis) : null;
  const pauseMs = hasSucceeded || isGone ? null : pauseBefore(delivery.tries + 1, deps.random);
  const nextAttemptAtMs =
    pauseMs === null ? null : (Math.round(nowMs + Math.max(pauseMs, askedForMs ?? 0)) as UnixMillis);
  const status = hasSucceeded ? 'succeeded' : nextAttemptAtMs === null ? 'failed' : 'pending';
  const answered = outcome.status === null ? { error: outcome.error, response: null } : answerOf(outcome);
  const statusCode = outcome.status;
  return {
    result: { delivery, ...times, ...answered, statusCode, status, nextAttemptAtMs },
    hasSucceeded,
    latencyMs: times.latencyMs,
    isGone,
    pausedUntilMs,
  };
}

const answerOf = ({ body, isCut }: GuardedAnswer) => ({
  error: null,
  response: redactAnswer(body, { isCut }),
});

/**
 * How long to wait before attempt number `tries + 1` of the schedule, cut or stretched by a tenth so that
 * what failed together does not come back together. Null: there is no further attempt.
 */
function pauseBefore(tries: number, random: Random): number | null {
  const pauseMs = attemptPausesMs[tries];
  if (pauseMs === undefined) return null;
  const jitter = (random.bytes(1)[0] ?? 0) / 255;
  return pauseMs * (0.9 + 0.2 * jitter);
}

/**
 * RFC 9110 §10.2.3: seconds, or a date. Null where there is none that can be read; never more than
 * `webhooksLimits.webhookRetryAfterMsMax`.
 */
export function retryAfterMs({ headers }: Pick<GuardedAnswer, 'headers'>, nowMs: UnixMillis): number | null {
  const text = trimBlanks(headers['retry-after'] ?? '');
  const askedMs = /^\d+$/.test(text) ? Number(text) * secondMs : dateOf(text) - nowMs;
  return askedMs > 0 ? Math.min(askedMs, webhooksLimits.webhookRetryAfterMsMax) : null;
}

/** An HTTP date (`Wed, 21 Oct 2026 07:28:00 GMT`); NaN for anything else. */
const dateOf = (text: string): number =>
  /^[A-Z][a-z]{2}, .{1,30} GMT$/.test(text) ? Date.parse(text) : Number.NaN;
