import type { CheckName, DecisionReason, Outcome } from '../../shared/model/decision.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { Forgery } from './forge-token.ts';

/** What has happened before the decision. */
type Circumstance =
  | 'passport revoked'
  | 'passport suspended'
  | 'issuer suspended'
  | 'account suspended'
  | 'key compromised';

/** Stand in `trusted_issuers` for ids that only the runner knows. */
export const ownIssuer = '$own_issuer';
export const foreignIssuer = '$foreign_issuer';

/**
 * One decision as data: what is set up, what is asked, what has to come out. The same cases run against `decide`, the control plane
 * and the sidecar, so everything here can be done over HTTP: `gate` and `passport` are bodies of the creating calls, `request`
 * is that of the check.
 */
export interface DecisionCase {
  /** The behaviour, as a sentence. Unique. */
  readonly name: string;
  /** `POST /gates` without its name, by account A. Null: `/enforce` without a gate. */
  readonly gate: {
    readonly trust_level: TrustTier;
    readonly constraints: Readonly<Record<string, unknown>>;
    /** Null: none is published. */
    readonly catalog: { readonly permissions: readonly object[] } | null;
  } | null;
  /** `POST /passports`, by account A (`own`) or by account B (`foreign`); valid for one hour from the issue. */
  readonly passport: {
    readonly issued_by: 'own' | 'foreign';
    readonly mode: Mode;
    readonly permissions: readonly string[];
    readonly trust_tier: TrustTier;
    readonly constraints: Readonly<Record<string, unknown>>;
  };
  /** What is done to the token on its way; null: nothing. */
  readonly forgery: Forgery | null;
  readonly circumstances: readonly Circumstance[];
  /** How old the state is that the decision is made on. Only a sidecar's is ever older than 0. */
  readonly stateAgeMs: number;
  /** From the issue of the passport to the decision. Null: it does not matter. */
  readonly sinceIssueMs: number | null;
  /** Mode of the caller's key, and of the gate. */
  readonly mode: Mode;
  readonly request: Readonly<Record<string, unknown>>;
  readonly want: Want;
}

export interface Want {
  readonly decision: Outcome;
  readonly reason: DecisionReason | null;
  readonly constraints_evaluated: readonly CheckName[];
  readonly retryable?: boolean;
  /** In USD, of a limit that was missed. */
  readonly limit?: number;
  readonly requested?: number;
}

/** How long the passports of the cases are valid. */
export const passportLifeMs = 3_600_000;

/** A case with what is usual left out: an L1 passport of the own issuer for `orders:create`, at an L1 gate without constraints or catalog. */
export interface CaseData {
  readonly name: string;
  readonly gate?: Partial<NonNullable<DecisionCase['gate']>> | null;
  readonly passport?: Partial<DecisionCase['passport']>;
  readonly forgery?: Forgery;
  readonly circumstances?: readonly Circumstance[];
  readonly stateAgeMs?: number;
  readonly sinceIssueMs?: number;
  readonly mode?: Mode;
  readonly request?: Readonly<Record<string, unknown>>;
  readonly want: Want;
}

export const complete = (data: CaseData): DecisionCase => ({
  name: data.name,
  gate: data.gate === null ? null : { trust_level: 'L1', constraints: {}, catalog: null, ...data.gate },
  passport: {
    issued_by: 'own',
    mode: 'live',
    permissions: ['orders:create'],
    trust_tier: 'L1',
    constraints: {},
    ...data.passport,
  },
  forgery: data.forgery ?? null,
  circumstances: data.circumstances ?? [],
  stateAgeMs: data.stateAgeMs ?? 0,
  sinceIssueMs: data.sinceIssueMs ?? null,
  mode: data.mode ?? 'live',
  request: data.request ?? { permission_key: 'orders:create' },
  want: data.want,
});

/** The checks of a gate without constraints, by its trust level: L1 asks nothing of the age of the state. */
export const atL1 = [
  'passport',
  'trust_level',
  'issuer',
  'permission',
] as const satisfies readonly CheckName[];
export const atL2 = [
  'passport',
  'trust_level',
  'freshness',
  'issuer',
  'permission',
] as const satisfies readonly CheckName[];

export const permit = (...evaluated: CheckName[]): Want => ({
  decision: 'PERMIT',
  reason: null,
  constraints_evaluated: evaluated,
});

/** The check that blocked is the last one evaluated. */
export const block = (reason: DecisionReason, ...evaluated: CheckName[]): Want => ({
  decision: 'BLOCK',
  reason,
  constraints_evaluated: evaluated,
});
