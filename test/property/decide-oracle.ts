import type { LimitMiss } from '../../shared/decision/facts.ts';
import type { CheckName, DecisionReason, Outcome } from '../../shared/model/decision.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import {
  type Claim,
  findingsOf,
  nowMs,
  type Rule,
  type Situation,
  termsOf,
  type Window,
} from './decide-situation.ts';

/** What a decision must be, as plain values. */
export interface Expected {
  readonly outcome: Outcome;
  readonly reason: DecisionReason | null;
  readonly evaluated: readonly CheckName[];
  readonly amountMicroUsd: number | null;
  readonly charge: { readonly moneyMicroUsd: number; readonly requests: number } | null;
  readonly standingApproval: StandingApprovalTerms | null;
  readonly limitMiss: LimitMiss | null;
  readonly unknown: 'proof' | 'leases' | 'approval' | null;
  readonly pii: readonly { readonly pointer: string; readonly type: string }[];
  readonly isRedacted: boolean;
  readonly approvalExpiresInMs: number | null;
  readonly hold: { readonly amountMicroUsd: number; readonly expiresAtMs: number } | null;
  readonly conditions: readonly string[] | null;
  readonly condition: string | null;
  readonly detail: string | null;
}

/** What one check says against a request. */
interface Objection {
  readonly reason: DecisionReason;
  readonly miss?: LimitMiss;
  readonly unknown?: 'proof' | 'leases' | 'approval';
  readonly named?: Named;
}
type Named = Pick<Expected, 'condition' | 'detail'>;
const says = (reason: DecisionReason): Objection => ({ reason });

type Check = readonly [
  name: CheckName | 'approval_id presented',
  isConfigured: boolean,
  objection: () => Objection | null,
];

/**
 * Contract §4 to §8 read off line by line, slow and obvious: every check is worked out in full from the words
 * of the page, then the first objection is looked for, and where there is none, whether somebody has to be
 * asked. Shares nothing with the code under test.
 */
export function oracle(situation: Situation): Expected {
  const { gate, request } = situation;
  const checks = [...checksOfTheAgent(situation), ...checksOfTheRequest(situation)];
  const configured = checks.filter(([, isConfigured]) => isConfigured);
  const objecting = configured.findIndex(([, , objection]) => objection() !== null);
  const reached = objecting === -1 ? configured : configured.slice(0, objecting + 1);
  const objection = configured[objecting]?.[2]() ?? null;
  const evaluated = reached.map(([name]) => name).filter((name) => name !== 'approval_id presented');
  const pii = evaluated.includes('pii_controls') ? reported(situation) : [];
  const amount = amountOf(situation);
  const failed = failedConditions(situation);
  const named = request.approval === 'approved' ? notNamed : nameOf(failed[0]);
  const common = {
    ...notNamed,
    conditions: !hasConditions(situation)
      ? null
      : evaluated.includes('conditions')
        ? failed.map(({ id }) => id)
        : [],
    ...{ evaluated, amountMicroUsd: amount, pii, limitMiss: null },
    ...{ unknown: null, isRedacted: false, standingApproval: null, hold: null },
  };
  const permitted = {
    ...common,
    outcome: 'PERMIT',
    reason: null,
    charge: { moneyMicroUsd: request.approval === 'approved' ? 0 : (amount ?? 0), requests: 1 },
    isRedacted: gate?.pii === 'redact' && pii.length > 0,
    approvalExpiresInMs: null,
    // Contract §19: as long as the request says, else the gate, else an hour.
    hold:
      request.hold === null
        ? null
        : {
            amountMicroUsd: amount ?? 0,
            expiresAtMs: nowMs + 1_000 * (request.hold.seconds ?? gate?.holdSeconds ?? 3_600),
          },
  } as const;

  if (objection !== null) {
    const { reason, miss: limitMiss = null, unknown = null, named: by = notNamed } = objection;
    const blocked = { ...common, ...by, reason, limitMiss, unknown };
    return { ...blocked, outcome: 'BLOCK', charge: null, approvalExpiresInMs: null };
  }
  const suspended = { ...common, ...named, outcome: 'SUSPEND', reason: 'approval_required' } as const;
  if (request.approval === 'pending') return { ...suspended, charge: null, approvalExpiresInMs: null };
  const waits = request.approval === 'approved' ? [] : waitsDemanded(situation);
  if (waits.length > 0) {
    // Contract §8: one that fits answers for the person, first one with enough at hand.
    const fitting = failed.length > 0 ? [] : aheadOf(situation);
    const atHand = fitting.find(({ left }) => left.available >= (amount ?? 0));
    if (atHand !== undefined) return { ...permitted, standingApproval: atHand.terms };
    const maybe = fitting.find(({ left }) => !left.isFinal);
    if (maybe !== undefined) {
      const unsure = { ...common, unknown: 'leases', standingApproval: maybe.terms, charge: null } as const;
      return { ...unsure, outcome: 'BLOCK', reason: 'quota_unavailable', approvalExpiresInMs: null };
    }
    const charge = { moneyMicroUsd: amount ?? 0, requests: 0 };
    return { ...suspended, charge, approvalExpiresInMs: Math.min(...waits) };
  }
  return permitted;
}

const notNamed: Named = { condition: null, detail: null };
const nameOf = (claim: Claim | undefined): Named =>
  claim === undefined ? notNamed : { condition: claim.id, detail: claim.message };

const hasConditions = ({ gate, passport, refusal }: Situation): boolean =>
  (gate?.conditions ?? []).length > 0 || (refusal === null && passport.conditions.length > 0);

const isAsked = ({ permissions }: Claim, requested: string | null): boolean =>
  permissions === null ||
  permissions.some((key) => requested !== null && (key === requested || key === areaOf(requested)));

/** Contract §5: those of the gate, then those of the passport, up to the first that blocks. */
function failedConditions({ gate, passport, request }: Situation): readonly Claim[] {
  const failed = [...(gate?.conditions ?? []), ...passport.conditions].filter(
    (claim) => isAsked(claim, request.permission) && claim.truth !== true,
  );
  const blocking = failed.findIndex(blocks);
  return blocking === -1 ? failed : failed.slice(0, blocking + 1);
}

const blocks = ({ truth, otherwise }: Claim): boolean => truth === 'error' || otherwise === 'block';

function conditionsObjection(situation: Situation): Objection | null {
  const claim = failedConditions(situation).find(blocks);
  if (claim === undefined) return null;
  if (claim.truth !== 'error') return { reason: 'condition_not_met', named: nameOf(claim) };
  const named = { condition: claim.id, detail: 'request.maybe is absent' };
  return { reason: 'condition_error', named };
}

/** The standing approvals that such a request fits, whatever is left of them. */
function aheadOf(situation: Situation) {
  const { ahead, passport, request } = situation;
  const amount = amountOf(situation) ?? 0;
  return termsOf(situation)
    .map((terms, place) => ({ terms, left: ahead[place] as Situation['ahead'][number] }))
    .filter(
      ({ left }) =>
        (left.for === 'passport' || (left.for === 'owner' && passport.account === 0)) &&
        left.permission === request.permission &&
        amount > 0 &&
        amount <= left.each &&
        left.endsInMs > 0,
    );
}

/** Contract §3 and §4: the passport, its tier and its issuer, and how old the knowledge of them is. */
function checksOfTheAgent(situation: Situation): readonly Check[] {
  const { gate, refusal, passport, standing, mode } = situation;
  const isOwn = passport.account === 0;
  const isNamed = gate !== null && Array.isArray(gate.trusted) && gate.trusted.includes(passport.issuer);
  const tierThatCounts = isOwn || isNamed ? passport.tier : 'L1';
  const trusted = gate?.trusted ?? (['own'] as const);
  const isTrusted =
    trusted === 'any' || isNamed || (isOwn && (trusted as readonly unknown[]).includes('own'));
  const isStale =
    (gate?.level === 'L2' && standing.stateAgeMs > 60_000) ||
    (gate?.level === 'L3' && standing.stateAgeMs > 5_000);
  const passportObjection = (): Objection | null => {
    if (refusal !== null) return says(refusal);
    if (standing.isKeyCompromised) return says('passport_unknown_key');
    if (passport.startsInS > 60) return says('passport_not_yet_valid');
    if (passport.endsInS !== null && passport.endsInS <= 0) return says('passport_expired');
    if (standing.status === 'revoked') return says('passport_revoked');
    if (standing.status === 'suspended' || standing.isAccountSuspended) return says('passport_suspended');
    return passport.mode === mode ? null : says('mode_mismatch');
  };
  const isHighEnough = tierThatCounts >= (gate?.level ?? '');
  return [
    ['passport', true, passportObjection],
    ['trust_level', gate !== null, () => (isHighEnough ? null : says('trust_level_insufficient'))],
    ['freshness', gate !== null && gate.level !== 'L1', () => (isStale ? says('state_stale') : null)],
    ['issuer', true, () => (isTrusted && !standing.isIssuerSuspended ? null : says('issuer_untrusted'))],
    [
      'proof_of_possession',
      gate?.proof === 'sidecar' || gate?.proof === 'exact' || passport.proof !== 'off',
      () => proofObjection(situation),
    ],
  ];
}

/** Contract §5, `proof_of_possession`. */
function proofObjection({ gate, passport, request: { proof } }: Situation): Objection | null {
  const notKnown = { reason: 'quota_unavailable', unknown: 'proof' } as const;
  if (proof.kind !== 'verified') {
    const words = { none: 'proof_missing', invalid: 'proof_invalid', replayed: 'proof_replayed' } as const;
    if (proof.kind === 'unread') return notKnown;
    return says(proof.kind === 'unavailable' ? 'quota_unavailable' : words[proof.kind]);
  }
  if (proof.fromMs > nowMs || proof.untilMs < nowMs) return says('proof_invalid');
  const mustBeExact = [gate?.proof, passport.proof].includes('exact');
  return proof.firstUse === 'exact' || !mustBeExact ? null : notKnown;
}

/** Contract §5 to §8, in the order of §5. */
function checksOfTheRequest(situation: Situation): readonly Check[] {
  const { gate, passport, request } = situation;
  const lists = [gate?.domains, passport.domains].filter((list) => list !== null && list !== undefined);
  const money = [gate?.perTransaction, passport.perTransaction, ...spendWindows(situation)];
  const hasMoneyLimit = money.some((limit) => limit !== null && limit !== undefined);
  const isOffered = gate?.catalog?.find(({ key }) => key === request.permission) ?? null;
  const hasRule = gate?.approvals || passport.approvals || isOffered?.requiresApproval;
  const presented = request.approval !== 'none';
  const windows = rateWindows(situation);
  return [
    ['permission', gate !== null || request.permission !== null, () => permissionObjection(situation)],
    ['approval_id presented', presented, () => presentedObjection(situation)],
    ['conditions', hasConditions(situation), () => conditionsObjection(situation)],
    ['domain_allowlist', lists.length > 0, () => domainObjection(lists, request.domain)],
    ['pii_controls', gate !== null && gate.pii !== null, () => piiObjection(situation)],
    [
      'spend_limit',
      hasMoneyLimit || !isInDollars(situation) || isHoldOfNothing(situation),
      () => spendObjection(situation) ?? (isHoldOfNothing(situation) ? says('amount_missing') : null),
    ],
    ['rate_limit', windows.length > 0, () => windowObjection(windows, 1, 'requests')],
    [
      'approval',
      Boolean(hasRule) || presented || failedConditions(situation).length > 0,
      () => approvalObjection(situation),
    ],
  ];
}

/** Contract §8: an approval is bound to a gate. */
function approvalObjection(situation: Situation): Objection | null {
  const { gate, passport } = situation;
  const isUnjudged = [gate, passport].some(
    (each) => each && typeof each.approvals?.above === 'number' && !each.isUnpricedPermitted,
  );
  if (isUnjudged && amountOf(situation) === null) return says('amount_missing');
  if (gate !== null || waitsDemanded(situation).length === 0) return null;
  return { reason: 'approval_required', named: nameOf(failedConditions(situation)[0]) };
}

const present = <T>(values: readonly (T | null | undefined)[]): readonly T[] =>
  values.filter((value) => value !== null && value !== undefined);
const spendWindows = ({ gate, passport }: Situation) =>
  present([gate?.day, gate?.month, passport.day, passport.month]);
const rateWindows = ({ gate, passport }: Situation) =>
  present([gate?.minuteRate, gate?.hourRate, passport.minuteRate, passport.hourRate]);

const isInDollars = ({ request }: Situation) => request.currency === null || request.currency === 'USD';

function amountOf(situation: Situation): number | null {
  const { gate, request } = situation;
  if (!isInDollars(situation)) return null;
  if (request.amount !== null) return request.amount;
  return gate?.catalog?.find(({ key }) => key === request.permission)?.price ?? null;
}

const areaOf = (permission: string) => `${permission.split(':')[0]}:*`;

function permissionObjection({ gate, passport, request }: Situation): Objection | null {
  const { permission } = request;
  if (permission === null) return says('permission_missing');
  const isGranted = passport.permissions.some((key) => key === permission || key === areaOf(permission));
  if (!isGranted) return says('permission_not_granted');
  const isListed = gate?.catalog?.some(({ key }) => key === permission) ?? true;
  return isListed ? null : says('permission_not_in_catalog');
}

function presentedObjection({ gate, request }: Situation): Objection | null {
  if (gate === null) return says('approval_mismatch');
  if (request.approval === 'unasked') return { reason: 'quota_unavailable', unknown: 'approval' };
  if (request.approval === 'mismatch') return says('approval_mismatch');
  if (request.approval === 'denied') return says('approval_denied');
  if (request.approval === 'expired') return says('approval_expired');
  if (request.approval === 'used') return says('approval_used');
  return null;
}

function domainObjection(lists: readonly (readonly string[])[], host: string | null): Objection | null {
  if (host === null) return says('domain_missing');
  const allows = (list: readonly string[]) =>
    list.some((pattern) => pattern === host || (pattern.startsWith('*') && host.endsWith(pattern.slice(1))));
  return lists.every(allows) ? null : says('domain_not_allowed');
}

function piiObjection({ gate, request }: Situation): Objection | null {
  const isTooLong = !request.isScannedToItsEnd && gate?.pii !== 'log_only';
  const isFound = request.findings > 0 && gate?.pii === 'block';
  return isTooLong || isFound ? says('pii_detected') : null;
}

function reported({ gate, request }: Situation): Expected['pii'] {
  const found = findingsOf(request.findings);
  if (gate?.pii !== 'log_only' || request.isScannedToItsEnd) return found;
  return [...found.slice(0, 31), { pointer: '', type: 'unscanned' }];
}

const hasStrictLimit = (of: NonNullable<Situation['gate']> | Situation['passport']) =>
  !of.isUnpricedPermitted && [of.perTransaction, of.day, of.month].some((limit) => limit !== null);

function spendObjection(situation: Situation): Objection | null {
  const { gate, passport, request } = situation;
  if (!isInDollars(situation)) return says('currency_unsupported');
  if (amountOf(situation) === null && [gate, passport].some((each) => each && hasStrictLimit(each))) {
    return says('amount_missing');
  }
  const amount = amountOf(situation) ?? 0;
  const lowest = Math.min(...present([gate?.perTransaction, passport.perTransaction]));
  if (amount > lowest) {
    const miss = { unit: 'micro_usd', limit: lowest, used: 0, requested: amount, resetAtMs: null } as const;
    return { reason: 'spend_limit_exceeded', miss };
  }
  const holdsItself = request.approval === 'none';
  return amount > 0 && holdsItself ? windowObjection(spendWindows(situation), amount, 'micro_usd') : null;
}

/** Contract §19: what is held has an amount. */
const isHoldOfNothing = (situation: Situation): boolean =>
  situation.request.hold !== null && amountOf(situation) === null;

/**
 * Contract §6: never more than a limit; for what is not here and not asked for, the ledger has to be asked.
 * The longest wait is told.
 */
function windowObjection(
  windows: readonly Window[],
  units: number,
  unit: 'micro_usd' | 'requests',
): Objection | null {
  const reason = unit === 'requests' ? 'rate_limit_exceeded' : 'spend_limit_exceeded';
  const missOf = ({ limit, used }: Window, waitMs: number | null): LimitMiss => {
    const resetAtMs = waitMs === null ? null : ((nowMs + waitMs) as LimitMiss['resetAtMs']);
    return { unit, limit, used, requested: units, resetAtMs };
  };
  const [hopeless] = windows.filter(({ limit }) => units > limit);
  if (hopeless !== undefined) return { reason, miss: missOf(hopeless, null) };
  const lacking = windows.filter(({ available }) => units > available);
  // What is only lent comes back before any window ends.
  const waitOf = ({ limit, used, endsInMs }: Window) => (used + units <= limit ? endsInMs / 1_000 : endsInMs);
  const [last] = lacking.filter((each) => each.isFinal).toSorted((a, b) => waitOf(b) - waitOf(a));
  if (last !== undefined) return { reason, miss: missOf(last, last.endsInMs) };
  return lacking.length > 0 ? { reason: 'quota_unavailable', unknown: 'leases' } : null;
}

/** Contract §4 and §8: for how long each of those who demand an approval would wait. */
function waitsDemanded(situation: Situation): readonly number[] {
  const { gate, passport, request } = situation;
  const amount = amountOf(situation);
  const isDemandedBy = ({ above, permissions }: Rule) =>
    (above !== null && amount !== null && amount > above) ||
    permissions.some((key) => key === request.permission || key === areaOf(request.permission ?? ''));
  const ofCatalog =
    gate?.catalog?.some(({ key, requiresApproval }) => key === request.permission && requiresApproval) ??
    false;
  const ofGate = gate?.approvals ?? null;
  const waits: number[] = [];
  if (ofCatalog || (ofGate !== null && isDemandedBy(ofGate))) waits.push(ofGate?.expiresInMs ?? 3_600_000);
  if (passport.approvals !== null && isDemandedBy(passport.approvals))
    waits.push(passport.approvals.expiresInMs);
  const failed = failedConditions(situation);
  for (const of of [gate, passport])
    if (of?.conditions.some((claim) => failed.includes(claim)))
      waits.push(of.approvals?.expiresInMs ?? 3_600_000);
  return waits;
}
