import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { Transport } from '../clients/node/src/transport.ts';
import { sha256Hex } from '../shared/crypto/content-hash.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import { proxyLimits } from './limits.ts';

/**
 * What the sidecar says of a passport (contract §16). `agent`: the same for all passports of an agent; where
 * its issuer is one of others, for all tokens of a subject.
 */
export type Standing =
  | { readonly kind: 'stands'; readonly agent: string }
  | { readonly kind: 'ended'; readonly reason: string; readonly detail: string }
  /**
   * It cannot be known now. `status`: of an answer that is a refusal; null: there was none. `agent`: as
   * before; null: the token was never seen to stand.
   */
  | {
      readonly kind: 'unknown';
      readonly agent: string | null;
      readonly status: number | null;
      readonly code: string;
      readonly detail: string;
    };

/** Asks the sidecar whether passports stand at the gate. Nothing is decided, counted or recorded for that. */
export class Standings {
  /** While nothing can be known, requests pass and streams go on. */
  readonly servesUnknown: boolean;
  readonly #transport: Transport;
  readonly #path: string;
  /** By token. */
  readonly #watched = new Map<string, Set<() => void>>();
  /** The last that was known, by the hash of a token that has stood. Whose it is does not change. */
  readonly #known = new LRUCache<string, Exclude<Standing, { kind: 'unknown' }>>({
    max: proxyLimits.sessionsMax,
  });

  constructor(options: {
    readonly sidecarUrl: string;
    readonly apiKey: string;
    readonly gate: string;
    readonly servesUnknown: boolean;
  }) {
    this.servesUnknown = options.servesUnknown;
    this.#transport = new Transport(options.sidecarUrl, options.apiKey, proxyLimits.sidecarConnectionsMax);
    this.#path = `/v1/gates/${options.gate}/standing`;
  }

  /** `waitMs`: for the end of a passport that stands. Never rejects. */
  async ask(token: string, waitMs = 0): Promise<Standing> {
    const standing = await this.#ask(token, waitMs);
    const name = sha256Hex(token);
    if (standing.kind !== 'unknown') {
      if (standing.kind === 'stands' || this.#known.has(name)) this.#known.set(name, standing);
      return standing;
    }
    const known = this.#known.get(name);
    return known?.kind === 'ended' ? known : { ...standing, agent: known?.agent ?? null };
  }

  async #ask(token: string, waitMs: number): Promise<Standing> {
    const outcome = await this.#transport.exchange({
      ...{ method: 'POST', path: this.#path, body: JSON.stringify({ passport: token, wait_ms: waitMs }) },
      deadlineAt: performance.now() + waitMs + proxyLimits.decisionMsMax,
      ...{ retriesMax: 2, pauseMs: 20, isIdempotent: true, isVoidAt503: true },
    });
    if (outcome.kind === 'failed') {
      return unknown(null, outcome.code, 'The sidecar does not answer.');
    }
    return standingIn(outcome.status, parse(outcome.text));
  }

  /**
   * Calls back once: when the passport has ended, or nothing was known of it for `passportLostMsMax`. What it
   * returns ends the watch.
   */
  watch(token: string, onEnded: () => void): () => void {
    const known = this.#watched.get(token);
    const watchers = known ?? new Set();
    watchers.add(onEnded);
    if (known === undefined) {
      this.#watched.set(token, watchers);
      void this.#follow(token, watchers);
    }
    return () => watchers.delete(onEnded);
  }

  async #follow(token: string, watchers: Set<() => void>): Promise<void> {
    let knownAtMs = performance.now();
    let askedAtMs = knownAtMs;
    let isEnded = false;
    while (!isEnded) {
      // Most streams are over by then; and a sidecar that stops or is away answers at once.
      await sleep(Math.max(0, askedAtMs + proxyLimits.standingPauseMs - performance.now()));
      if (watchers.size === 0) break;
      askedAtMs = performance.now();
      const { kind } = await this.ask(token, proxyLimits.standingWaitMs);
      if (kind === 'stands') knownAtMs = performance.now();
      const isLost = performance.now() - knownAtMs > proxyLimits.passportLostMsMax;
      isEnded = kind === 'ended' || (isLost && !this.servesUnknown);
    }
    this.#watched.delete(token);
    for (const onEnded of watchers) onEnded();
  }

  close(): void {
    this.#transport.close();
  }
}

function standingIn(status: number, answer: JsonObject): Standing {
  const { stands, retryable, account_id, agent_id, passport_id, federated } = answer;
  if (status === 200 && stands === true) {
    return { kind: 'stands', agent: federated === true ? String(passport_id) : `${account_id} ${agent_id}` };
  }
  const [reason, detail] = [String(answer['reason']), String(answer['detail'])];
  if (status === 200 && stands === false) {
    return retryable === true && !/^passport_/.test(reason)
      ? unknown(null, reason, detail)
      : { kind: 'ended', reason, detail };
  }
  // No sidecar takes it for a token.
  if (status === 400) return { kind: 'ended', reason: 'passport_malformed', detail: 'It is no passport.' };
  const error = isJsonObject(answer['error']) ? answer['error'] : {};
  const { code = 'bad_answer', message = 'The answer is not one of a sidecar.' } = error;
  return unknown(status, String(code), String(message));
}

const unknown = (status: number | null, code: string, detail: string): Standing => ({
  ...{ kind: 'unknown', agent: null, status, code, detail },
});

function parse(text: string): JsonObject {
  try {
    const json: unknown = JSON.parse(text);
    return isJsonObject(json) ? json : {};
  } catch {
    // Not JSON.
    return {};
  }
}
