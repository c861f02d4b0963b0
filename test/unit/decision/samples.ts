import { digestWordsOf } from '../../../shared/crypto/id-digest.ts';
import { compileGate } from '../../../shared/decision/compile-gate.ts';
import { compilePassport } from '../../../shared/decision/compile-passport.ts';
import { decide } from '../../../shared/decision/decide.ts';
import {
  type Decision,
  noWindows,
  type PassportStanding,
  type QuotaView,
  type RequestFacts,
  type VerifiedPassport,
  type WindowView,
} from '../../../shared/decision/facts.ts';
import { must } from '../../../shared/errors/assert.ts';
import { makeId } from '../../../shared/model/ids.ts';
import { type MicroUsd, parseUsd } from '../../../shared/model/money.ts';
import { isGrantablePermission, type PermissionKey } from '../../../shared/model/permission.ts';
import { toSeconds, type UnixMillis } from '../../../shared/model/time.ts';
import { parseRequestFacts } from '../../../shared/wire/api/check.ts';
import { parseConstraints } from '../../../shared/wire/api/constraints.ts';

export const nowMs = Date.UTC(2026, 10, 2, 9, 0, 0) as UnixMillis;
const bytes = new Uint8Array(10);

/** A live L1 gate. */
export const aGate = (constraints: object = {}) => ({
  ...{ gateId: makeId('gate', nowMs, bytes), accountId: makeId('acct', nowMs, bytes), mode: 'live' as const },
  ...{ version: 1, policyVersion: 1, policyHash: null, trustLevel: 'L1' as const },
  constraints: parseConstraints(constraints, { param: 'constraints', of: 'gate' }),
});

const permissionKey = (text: string): PermissionKey =>
  must(isGrantablePermission(text) ? text : null, `${text} is a permission`);

/** A live L1 passport of the gate's account, for `orders:create`, without end. */
export const aPassport = (
  given: { readonly permissions?: readonly string[]; readonly constraints?: object } = {},
): VerifiedPassport =>
  compilePassport(
    {
      ...{ passportId: makeId('pass', nowMs, bytes), issuerId: makeId('iss', nowMs, bytes) },
      ...{ issuerDomain: null, accountId: makeId('acct', nowMs, bytes), mode: 'live', agentId: 'agent-1' },
      agentName: 'Agent 1',
      permissions: (given.permissions ?? ['orders:create']).map(permissionKey),
      trustTier: 'L1',
      constraints: parseConstraints(given.constraints ?? {}, { param: 'constraints', of: 'passport' }),
      hasWallet: false,
      issuedAtS: toSeconds(nowMs),
      notBeforeS: toSeconds(nowMs),
      expiresAtS: null,
      publicKey: '',
      owner: null,
      user: null,
    },
    { keyId: 'key-1', tokenHash: 'hash-1', digests: digestWordsOf() },
  );

/** Everything is well and was heard this moment. */
export const aStanding = (given: Partial<PassportStanding> = {}): PassportStanding => ({
  status: 'active',
  isIssuerSuspended: false,
  isAccountSuspended: false,
  isKeyCompromised: false,
  isInWallet: false,
  stateAgeMs: 0,
  ...given,
});

/** `orders:create`, and what else is given. */
export const aRequest = (given: Partial<RequestFacts> = {}): RequestFacts => ({
  ...parseRequestFacts({ permission_key: 'orders:create' }),
  ...given,
});

/** A window of 100 units of which nothing is used, and all is to be had; it ends in a minute. */
export const aWindow = (given: Partial<WindowView> = {}): WindowView => ({
  limit: 100,
  available: 100,
  used: 0,
  isFinal: false,
  endsAtMs: (nowMs + 60_000) as UnixMillis,
  ...given,
});

/** What a gate with these constraints decides of a request for which everything else is well. */
export const decideAt = (given: {
  readonly constraints?: object;
  readonly request?: Partial<RequestFacts>;
  readonly quota?: Partial<QuotaView>;
}): Decision =>
  decide(
    compileGate(aGate(given.constraints), null),
    { kind: 'verified', passport: aPassport(), standing: aStanding() },
    aRequest(given.request),
    { ...noWindows, ...given.quota },
    nowMs,
  );

export const usd = (amount: number): MicroUsd => must(parseUsd(amount), `${amount} is an amount`);
