import { LRUCache } from 'lru-cache';
import type { VerifiedPassport } from '../../shared/decision/facts.ts';
import type { IssuerId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { ShownTokens } from '../../shared/wire/sync/shown-tokens.ts';
import { ControlPlaneError } from './control-plane-error.ts';
import { replicaLimits } from './limits.ts';

export interface SightingsDeps {
  /**
   * Resolves to the number of tokens that verified there. Throws ControlPlaneError for a refusal, and the
   * network's error for no answer.
   */
  readonly show: (shown: ShownTokens) => Promise<number>;
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly logger: Logger;
}

interface Sighting {
  readonly token: string;
  readonly mode: Mode;
  readonly issuerId: IssuerId;
  readonly terms: string;
}

/**
 * Passports of other issuers that this sidecar has met and the control plane may not know (contract §4). It
 * decides on them at once; their tokens are shown before the first call that names them: a batch of records,
 * leases, or a settlement. They are kept in memory alone.
 *
 *     met ──flush──> shown, until the terms of its tokens or the settings of its issuer change
 *      └──refused, or not verified there──> met again with its next token
 *
 * While the control plane is away the oldest are dropped: their records name the subject, and they are shown
 * with their next token.
 */
export class Sightings {
  readonly #deps: SightingsDeps;
  readonly #waiting = new Map<PassportId, Sighting>();
  readonly #unknownKeys = new Set<IssuerId>();
  /** When each issuer was last asked for. Only known ones are, so there are some hundreds at most. */
  readonly #askedAtMs = new Map<IssuerId, number>();
  /** The terms that were shown last. */
  readonly #shown = new LRUCache<PassportId, string>({ max: replicaLimits.shownPassportsMax });
  #generation: string | null = null;
  #flushing: Promise<void> | null = null;

  constructor(deps: SightingsDeps) {
    this.#deps = deps;
  }

  /** A token of another issuer has verified. */
  note(token: string, passport: VerifiedPassport): void {
    const { passportId, issuerId, permissions, trustTier, owner, mode, source } = passport;
    // The constraints are the issuer's. The ledger lends by those that the control plane has.
    const terms = JSON.stringify([source?.version, trustTier, owner, ...permissions]);
    if (this.#shown.get(passportId) === terms) return;
    this.#waiting.delete(passportId);
    this.#waiting.set(passportId, { token, mode, issuerId, terms });
    if (this.#waiting.size > replicaLimits.sightingsMax) {
      for (const oldest of this.#waiting.keys()) {
        this.#waiting.delete(oldest);
        break;
      }
    }
  }

  /** A token names a key that the issuer did not have. Anybody can write such a token. */
  noteUnknownKey(issuerId: IssuerId): void {
    const nowMs = this.#deps.clock.monotonic();
    const askedAtMs = this.#askedAtMs.get(issuerId) ?? Number.NEGATIVE_INFINITY;
    if (nowMs - askedAtMs < replicaLimits.unknownKeyGapMs) return;
    this.#askedAtMs.set(issuerId, nowMs);
    if (this.#unknownKeys.size < limits.federationsMax) this.#unknownKeys.add(issuerId);
    // Nobody else may call soon. A later flush repeats what this one does not get through.
    if (this.#flushing === null) void this.flush().catch(() => undefined);
  }

  /** With another one the database went back, and may have lost what it was shown. */
  noteGeneration(generation: string): void {
    if (this.#generation !== null && this.#generation !== generation) this.#shown.clear();
    this.#generation = generation;
  }

  /** Resolves once everything noted so far was shown. Throws if the control plane does not answer. */
  async flush(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing;
    if (this.#waiting.size === 0 && this.#unknownKeys.size === 0) return;
    this.#flushing = this.#showAll();
    try {
      await this.#flushing;
    } finally {
      this.#flushing = null;
    }
  }

  async #showAll(): Promise<void> {
    while (this.#waiting.size > 0 || this.#unknownKeys.size > 0) {
      const batch = [...this.#waiting].slice(0, limits.shownTokensMax);
      const unknownKeys = [...this.#unknownKeys];
      const tokens = batch.map(([, { token, mode, issuerId }]) => ({ token, mode, issuer_id: issuerId }));
      const seen = await this.#show({ tokens, unknown_keys: unknownKeys });
      for (const [passportId, sighting] of batch) {
        if (seen === tokens.length) this.#shown.set(passportId, sighting.terms);
        if (this.#waiting.get(passportId) === sighting) this.#waiting.delete(passportId);
      }
      for (const issuerId of unknownKeys) this.#unknownKeys.delete(issuerId);
    }
  }

  /** A refusal does not pass: repeating it would hold up all records behind it. Nothing was seen then. */
  async #show(shown: ShownTokens): Promise<number> {
    try {
      return await this.#deps.show(shown);
    } catch (error) {
      const isRefused = error instanceof ControlPlaneError && error.status >= 400 && error.status < 500;
      if (!isRefused) throw error;
      this.#deps.logger.warn({ err: error }, 'the control plane refuses to see tokens of other issuers');
      return 0;
    }
  }
}
