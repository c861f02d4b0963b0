import { chooseEd25519 } from '../shared/crypto/choose-ed25519.ts';
import { type Keyset, keyset, parseJwks } from '../shared/crypto/keyset.ts';
import { grants } from '../shared/decision/check-permission.ts';
import type { VerifiedPassport } from '../shared/decision/facts.ts';
import { limits } from '../shared/model/limits.ts';
import type { PermissionKey } from '../shared/model/permission.ts';
import { toMillis } from '../shared/model/time.ts';
import type { Clock } from '../shared/runtime/clock.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { admitToken, openToken } from '../shared/verification/verify-token.ts';
import type { ReadForeign } from './foreign-permissions.ts';
import { permissionOf } from './guard-calls.ts';
import { proxyLimits } from './limits.ts';

/** Which tools are shown with a passport. */
export type ShownTools =
  | { readonly kind: 'some'; has(tool: string): boolean; grants(permission: PermissionKey): boolean }
  /** With the reason, and a sentence for people. */
  | { readonly kind: 'none'; readonly reason: string; readonly detail: string };

/**
 * Shows the tools whose permission a passport grants. The passport is verified here, with the published keys
 * of the service: asking the gate would take from its limits, and leave a record of a call that never was.
 * So a list does not know of revocations, limits or the catalog; each call is decided in full. What tokens of
 * other issuers permit, the control plane knows.
 */
export class PermittedTools {
  readonly #url: string;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #foreign: ReadForeign;
  readonly #ed25519 = chooseEd25519();
  #keys: { readonly set: Keyset; readonly readAtMs: number } | null = null;
  #triedAtMs = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  /** `controlPlaneUrl`: its origin. `foreign`: what tokens of other issuers permit. */
  constructor(options: {
    readonly controlPlaneUrl: string;
    readonly foreign: ReadForeign;
    readonly clock: Clock;
    readonly logger: Logger;
  }) {
    this.#foreign = options.foreign;
    this.#url = `${options.controlPlaneUrl}/.well-known/jwks.json`;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  async of(token: string | undefined): Promise<ShownTools> {
    if (token === undefined)
      return none('passport_missing', 'Show a passport to see the tools that it permits.');
    await this.#refresh(proxyLimits.keysMsMax);
    let passport = this.#verify(token);
    if (passport === 'passport_unknown_key') {
      // A new key signs 60 s after it is published.
      await this.#refresh(proxyLimits.keysPauseMs);
      passport = this.#verify(token);
    }
    if (passport === null) {
      return none('service_unavailable', 'The keys that verify passports cannot be read. Try again later.');
    }
    // Of another form than ours.
    if (passport === 'passport_malformed') return this.#ofOthers(token);
    if (typeof passport === 'string') return none(passport, 'This passport is not valid.');
    return some(passport.permissions);
  }

  async #ofOthers(token: string): Promise<ShownTools> {
    const foreign = await this.#foreign(token);
    return foreign.kind === 'granted' ? some(foreign.permissions) : none(foreign.reason, foreign.detail);
  }

  /** The passport, or why it is none; null where there are no keys. */
  #verify(token: string): VerifiedPassport | string | null {
    if (this.#keys === null) return null;
    const opened = openToken(token, this.#keys.set);
    if (opened.kind === 'refused') return opened.reason;
    const { open, key } = opened;
    const verdict = admitToken(opened, key.verify(open.signingInput, open.signature));
    if (verdict.kind === 'refused') return verdict.reason;
    const { passport } = verdict;
    const nowMs = this.#clock.now();
    if (passport.expiresAtS !== null && nowMs >= toMillis(passport.expiresAtS)) return 'passport_expired';
    if (nowMs + limits.notBeforeLeewayMs < toMillis(passport.notBeforeS)) return 'passport_not_yet_valid';
    return passport;
  }

  /** Reads the keys where they are older than that. Without an answer those of before stay. */
  async #refresh(ageMsMax: number): Promise<void> {
    const nowMs = performance.now();
    if (this.#keys !== null && nowMs - this.#keys.readAtMs < ageMsMax) return;
    if (this.#reading === null && nowMs - this.#triedAtMs < proxyLimits.keysPauseMs) return;
    this.#triedAtMs = nowMs;
    this.#reading ??= this.#read(nowMs)
      .catch((error: unknown) => this.#logger.warn({ err: error }, 'the keys of the service cannot be read'))
      .finally(() => {
        this.#reading = null;
      });
    await this.#reading;
  }

  async #read(readAtMs: number): Promise<void> {
    const response = await fetch(this.#url, {
      redirect: 'error',
      signal: AbortSignal.timeout(proxyLimits.keysAnswerMsMax),
    });
    if (!response.ok) throw new Error(`${this.#url} answers ${response.status}`);
    const text = await response.text();
    if (text.length > limits.jwksBytesMax) throw new Error(`${this.#url} answers too much`);
    this.#keys = { set: keyset(this.#ed25519, parseJwks(JSON.parse(text))), readAtMs };
  }
}

const some = (permissions: ReadonlySet<string>): ShownTools => ({
  kind: 'some',
  grants: (permission) => grants(permissions, permission),
  has: (tool) => {
    const permission = permissionOf(tool);
    return permission !== null && grants(permissions, permission);
  },
});

const none = (reason: string, detail: string): ShownTools => ({ kind: 'none', reason, detail });
