import { sha256Hex } from '../crypto/content-hash.ts';
import type { Verifier } from '../crypto/ed25519.ts';
import { foreignKeyBytes, foreignVerifier } from '../crypto/foreign-key.ts';
import type { JsonObject } from '../crypto/json-object.ts';
import { type CompiledCondition, compileConditions } from '../decision/compile-conditions.ts';
import type { TrustedIssuers } from '../decision/compile-gate.ts';
import type {
  FederatedAlgorithm,
  FederatedIssuer,
  Federation,
  ForeignKey,
  PassportSource,
} from '../model/federation.ts';
import type { AccountId, IssuerId } from '../model/ids.ts';
import type { Mode } from '../model/mode.ts';
import type { UnixMillis } from '../model/time.ts';
import { readForms } from '../wire/api/conditions.ts';

/** A key, ready to verify. */
export interface ForeignVerificationKey extends ForeignKey {
  readonly bytes: Uint8Array;
  readonly verify: Verifier;
}

type PreparedKey = Pick<ForeignVerificationKey, 'bytes' | 'verify'>;

/** 100 issuers of each mode with five keys each; beyond this the cache starts over. */
const preparedKeysMax = 1_024;

const preparedKeys = new Map<string, PreparedKey>();

/**
 * Importing a key takes longer than verifying with it. The control plane reads the issuers of an account for
 * each token, and a table makes them anew when another one changes.
 */
function preparedKey(key: ForeignKey): PreparedKey {
  const { algorithm, publicKey } = key;
  const name = `${algorithm} ${publicKey}`;
  const known = preparedKeys.get(name);
  if (known !== undefined) return known;
  const bytes = foreignKeyBytes(key);
  const made = { bytes, verify: foreignVerifier(algorithm, bytes) };
  if (preparedKeys.size >= preparedKeysMax) preparedKeys.clear();
  preparedKeys.set(name, made);
  return made;
}

/** An issuer of others, ready to verify its tokens. */
export class ForeignIssuer implements PassportSource {
  readonly issuerId: IssuerId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly version: number;
  readonly federation: Federation;
  readonly keys: readonly ForeignVerificationKey[];
  readonly maxKeyAgeMs: number;
  readonly hasWallets: boolean;
  /** Of its constraints: each of its passports has them. */
  readonly conditions: readonly CompiledCondition[];
  /** See PassportSource. */
  keysAtMs: UnixMillis | null;
  isCurrent = true;

  /** Throws TypeError for an unusable key, and InvariantError for a faulty condition. */
  constructor(issuer: FederatedIssuer) {
    const { issuerId, accountId, mode, version, federation, keys, keysAtMs, hasWallets } = issuer;
    this.issuerId = issuerId;
    this.accountId = accountId;
    this.mode = mode;
    this.version = version;
    this.federation = federation;
    this.keys = keys.map((key) => ({ ...key, ...preparedKey(key) }));
    this.maxKeyAgeMs = federation.maxKeyAgeMs;
    this.hasWallets = hasWallets;
    this.conditions = compileConditions(federation.constraints.conditions, readForms(issuer.conditionForms));
    this.keysAtMs = keysAtMs;
  }

  /**
   * The one key for such a token: by `kid` and algorithm, and without a `kid` the only one of the algorithm.
   * Null: none, or two that claim to be it. One that is listed twice is one.
   */
  find(kid: string | null, algorithm: FederatedAlgorithm): ForeignVerificationKey | null {
    const fitting = this.keys.filter(
      (key) => key.algorithm === algorithm && (kid === null || key.kid === kid),
    );
    const [key, ...others] = fitting;
    return key === undefined || others.some((other) => other.publicKey !== key.publicKey) ? null : key;
  }
}

/** The issuers of others that are known at a place: at a gate, or without one. */
export interface KnownIssuers {
  /**
   * Names those of other accounts among them; empty: there are none. A token may be of one issuer among
   * these, and of another, or of none, among those.
   */
  readonly name: string;
  /** Suspended ones of the own account, too, which fit no token. */
  readonly size: number;
  /** The one issuer of that mode that these unverified claims fit. Null: none or several (contract §4). */
  pick(payload: JsonObject, mode: Mode): ForeignIssuer | null;
}

/** None. */
export const noForeignIssuers: KnownIssuers = { name: '', size: 0, pick: () => null };

/**
 * The issuers of others that the gates of an account know, by what their tokens say of them: its own, and
 * those of other accounts that its gates name by id.
 */
export class ForeignIssuerTable {
  readonly #accountId: AccountId;
  readonly #byId = new Map<string, ForeignIssuer>();
  /** Of the own account. */
  readonly #suspended = new Set<string>();
  readonly #own: KnownIssuers;
  /** By what a gate trusts; made anew when one of another account comes or goes. */
  #named = new WeakMap<object, KnownIssuers>();

  constructor(accountId: AccountId) {
    this.#accountId = accountId;
    this.#own = this.#knownBeside([]);
  }

  find(issuerId: IssuerId): ForeignIssuer | null {
    return this.#byId.get(issuerId) ?? null;
  }

  /** Those that a gate knows; null: without a gate. */
  knownAt(gate: { readonly trustedIssuers: TrustedIssuers } | null): KnownIssuers {
    const trusted = gate?.trustedIssuers ?? 'any';
    if (trusted === 'any' || trusted.named.size === 0) return this.#own;
    const known = this.#named.get(trusted);
    if (known !== undefined) return known;
    const others = [...trusted.named].filter((id) => this.#isOther(this.#byId.get(id)));
    const made = others.length === 0 ? this.#own : this.#knownBeside(others.sort());
    this.#named.set(trusted, made);
    return made;
  }

  /**
   * The same settings and keys, read once more, leave verified passports as they are. Any other change has
   * all passports verified again that this issuer may fit too: it must be the only one.
   */
  put(told: FederatedIssuer): void {
    const known = this.#byId.get(told.issuerId);
    if (known !== undefined && known.version === told.version) {
      known.keysAtMs = told.keysAtMs;
      return;
    }
    const made = new ForeignIssuer(told);
    this.remove(told.issuerId);
    this.#suspended.delete(told.issuerId);
    this.#forgetBeside(made.federation);
    this.#byId.set(told.issuerId, made);
    this.#named = new WeakMap();
  }

  suspend({ issuerId, accountId }: Pick<FederatedIssuer, 'issuerId' | 'accountId'>): void {
    this.remove(issuerId);
    if (accountId === this.#accountId) this.#suspended.add(issuerId);
  }

  remove(issuerId: IssuerId): void {
    const known = this.#byId.get(issuerId);
    if (known === undefined) return;
    this.#byId.delete(issuerId);
    this.#named = new WeakMap();
    known.isCurrent = false;
    this.#forgetBeside(known.federation);
  }

  /** Another table takes over: whatever was verified by this one is verified again. */
  endAll(): void {
    for (const issuer of this.#byId.values()) issuer.isCurrent = false;
  }

  #isOther(issuer: ForeignIssuer | undefined): boolean {
    return issuer !== undefined && issuer.accountId !== this.#accountId;
  }

  /** The own ones, whichever there are when it is asked, and these. */
  #knownBeside(others: readonly string[]): KnownIssuers {
    const names = new Set(others);
    const known = () =>
      [...this.#byId.values()].filter((issuer) => !this.#isOther(issuer) || names.has(issuer.issuerId));
    const suspended = this.#suspended;
    return {
      name: others.length === 0 ? '' : sha256Hex(others.join(' ')).slice(0, nameChars),
      get size() {
        return known().length + suspended.size;
      },
      pick: (payload, mode) => onlyFitting(known(), payload, mode),
    };
  }

  /** What was verified by an issuer that fits tokens of this one is verified again. */
  #forgetBeside(changed: Federation): void {
    for (const [issuerId, issuer] of this.#byId) {
      if (!mayFitBoth(issuer.federation, changed)) continue;
      issuer.isCurrent = false;
      this.#byId.set(issuerId, new ForeignIssuer({ ...issuer, keys: issuer.keys }));
    }
  }
}

/** 128 bits: nobody finds two sets of issuers with one name. */
const nameChars = 32;

/** Whether a token may fit both: by its `iss`, or by that and, for a JWT-SVID, its subject. */
const mayFitBoth = (one: Federation, other: Federation): boolean =>
  one.issuer === other.issuer || (one.type === 'jwt-svid') !== (other.type === 'jwt-svid');

/** The one of these that the claims fit; null: none or several. */
export function onlyFitting(
  issuers: readonly ForeignIssuer[],
  payload: JsonObject,
  mode: Mode,
): ForeignIssuer | null {
  const fitting = issuers.filter((issuer) => issuer.mode === mode && fits(issuer.federation, payload));
  const [issuer, ...others] = fitting;
  return issuer === undefined || others.length > 0 ? null : issuer;
}

/** A JWT-SVID has no `iss`: its subject lies in the trust domain. Others name their issuer. */
function fits({ type, issuer, audiences }: Federation, { iss, sub, aud }: JsonObject): boolean {
  const isOfIssuer =
    type === 'jwt-svid' ? typeof sub === 'string' && sub.startsWith(`${issuer}/`) : iss === issuer;
  return isOfIssuer && namesAudience(aud, audiences);
}

/** Whether `aud` (RFC 7519 §4.1.3), a text or a list of texts, has one of these. */
export const namesAudience = (aud: unknown, audiences: readonly string[]): boolean =>
  [aud].flat().some((each) => typeof each === 'string' && audiences.includes(each));
