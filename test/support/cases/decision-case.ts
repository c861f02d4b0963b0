import type { CheckName, DecisionReason, Outcome } from '../../../shared/model/decision.ts';
import type { Mode } from '../../../shared/model/mode.ts';
import type { TrustTier } from '../../../shared/model/trust-tier.ts';
import type { WindowName } from '../../../shared/quota/window.ts';
import type { Forgery } from './forge-token.ts';

/** What has happened right before the decision, after all requests that came earlier. */
type Circumstance =
  | 'passport revoked'
  | 'passport suspended'
  | 'issuer suspended'
  | 'account suspended'
  /** What a sidecar does not know, it cannot find out. */
  | 'control plane away';

/** Stand in `trusted_issuers` for ids that only the runner knows. */
export const ownIssuer = '$own_issuer';
export const foreignIssuer = '$foreign_issuer';

/** Whose passport: that of the case, or another one just like it. */
export type Presenter = 'the passport' | 'another passport';
/**
 * Where a request came: at the gate of the case, at one without constraints, or at none (`/enforce` without a
 * gate).
 */
export type Place = 'the gate' | 'another gate' | 'no gate';

/** A request that came before that of the case, all else being well. What it takes stays taken. */
export interface EarlierRequest {
  readonly by: Presenter;
  readonly at: Place;
  readonly request: Readonly<Record<string, unknown>>;
  readonly decision: Outcome;
}

/** An approval that was opened before: a request was suspended, and something became of it. */
export interface EarlierApproval {
  readonly by: Presenter;
  readonly request: Readonly<Record<string, unknown>>;
  /**
   * `used`: approved, and the request came again. `gate changed`: approved, and the gate has another policy
   * since; `gate renamed`: approved, and the gate has another name since.
   */
  readonly became: 'pending' | 'approved' | 'denied' | 'expired' | 'used' | 'gate changed' | 'gate renamed';
  /** Whether the request of the case presents it. */
  readonly isPresented: boolean;
}

/**
 * One decision as data: what is set up, what is asked, what has to come out. The same cases run against
 * the control plane and the sidecar, so everything here can be done over HTTP: `gate` and
 * `passport` are bodies of the creating calls, `request` is that of the check.
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
  /**
   * `POST /passports`, by account A (`own`) or by account B (`foreign`); valid for one hour from the issue.
   * Or a token of an issuer of others that account A has registered with these terms (`others`).
   */
  readonly passport: {
    readonly issued_by: 'own' | 'foreign' | 'others';
    readonly mode: Mode;
    readonly permissions: readonly string[];
    readonly trust_tier: TrustTier;
    readonly constraints: Readonly<Record<string, unknown>>;
  };
  /** What is done to the token on its way; null: nothing. */
  readonly forgery: Forgery | null;
  /** In this order, before the approval. */
  readonly earlier: readonly EarlierRequest[];
  readonly approval: EarlierApproval | null;
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
  /** The condition that decided, and what is answered of it: of a BLOCK by default the reason's sentence. */
  readonly condition?: string;
  readonly detail?: string;
  /** Of a limit that was missed, in USD or requests. */
  readonly limit?: number;
  /** Default 0. */
  readonly used?: number;
  readonly requested?: number;
  /** The window at whose end the request may come again; left out: waiting does not help. */
  readonly resets?: WindowName;
  readonly pii?: readonly Finding[];
  /** What `redact` makes of the request. */
  readonly request_redacted?: Readonly<Record<string, unknown>>;
}

interface Finding {
  readonly pointer: string;
  readonly type: string;
}

/** How long the passports of the cases are valid. */
export const passportLifeMs = 3_600_000;

/** A case as it is in a file, with what is usual left out: test/cases/README.md, `case.schema.json`. */
export interface CaseData {
  readonly name: string;
  readonly gate?: Partial<NonNullable<DecisionCase['gate']>> | null;
  readonly passport?: Partial<DecisionCase['passport']>;
  readonly forgery?: Forgery;
  /** Of each there is a case, with its name after that of the case. */
  readonly forgeries?: readonly Forgery[];
  readonly earlier?: readonly Partial<EarlierRequest>[];
  readonly approval?: Partial<Omit<EarlierApproval, 'isPresented'>> &
    Pick<EarlierApproval, 'became'> & { readonly is_presented?: boolean };
  readonly circumstances?: readonly Circumstance[];
  readonly state_age_ms?: number;
  readonly since_issue_ms?: number;
  readonly mode?: Mode;
  readonly request?: Readonly<Record<string, unknown>>;
  readonly want: Pick<Want, 'decision'> &
    Partial<Omit<Want, 'constraints_evaluated'>> & {
      readonly constraints_evaluated?: readonly (CheckName | '$first')[];
    };
}

/** Those of a gate at L1 without constraints. */
const firstChecks: Want['constraints_evaluated'] = ['passport', 'trust_level', 'issuer', 'permission'];
const order = { permission_key: 'orders:create' };

export const completed = (data: CaseData): readonly DecisionCase[] =>
  data.forgeries === undefined
    ? [complete(data)]
    : data.forgeries.map((forgery) => complete({ ...data, name: `${data.name}: ${forgery}`, forgery }));

function complete(data: CaseData): DecisionCase {
  const request = data.request ?? order;
  return {
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
    earlier: (data.earlier ?? []).map((each) => ({
      by: 'the passport',
      at: data.gate === null ? 'no gate' : 'the gate',
      request,
      decision: 'PERMIT',
      ...each,
    })),
    approval: data.approval === undefined ? null : completeApproval(data.approval, request),
    circumstances: data.circumstances ?? [],
    stateAgeMs: data.state_age_ms ?? 0,
    sinceIssueMs: data.since_issue_ms ?? null,
    mode: data.mode ?? 'live',
    request,
    want: {
      reason: null,
      ...data.want,
      constraints_evaluated: (data.want.constraints_evaluated ?? ['$first']).flatMap((name) =>
        name === '$first' ? firstChecks : [name],
      ),
    },
  };
}

const completeApproval = (
  { is_presented: isPresented = true, ...given }: NonNullable<CaseData['approval']>,
  request: EarlierApproval['request'],
): EarlierApproval => ({ by: 'the passport', request, isPresented, ...given });
