import { compilePassport } from '../../../shared/decision/compile-passport.ts';
import type { PassportStanding, VerifiedPassport } from '../../../shared/decision/facts.ts';
import { must } from '../../../shared/errors/assert.ts';
import { makeId } from '../../../shared/model/ids.ts';
import { isGrantablePermission, type PermissionKey } from '../../../shared/model/permission.ts';
import { toSeconds, type UnixMillis } from '../../../shared/model/time.ts';
import { parseConstraints } from '../../../shared/wire/constraints.ts';

export const nowMs = Date.UTC(2026, 10, 2, 9, 0, 0) as UnixMillis;
const bytes = new Uint8Array(10);

/** A live L1 gate. */
export const aGate = (constraints: object = {}) => ({
  gateId: makeId('gate', nowMs, bytes),
  accountId: makeId('acct', nowMs, bytes),
  mode: 'live' as const,
  version: 1,
  trustLevel: 'L1' as const,
  constraints: parseConstraints(constraints, { param: 'constraints', of: 'gate' }),
});

export const permissionKey = (text: string): PermissionKey =>
  must(isGrantablePermission(text) ? text : null, `${text} is a permission`);

/** A live L1 passport of the gate's account, for `orders:create`, without end. */
export const aPassport = (given: { readonly permissions?: readonly string[] } = {}): VerifiedPassport =>
  compilePassport(
    {
      passportId: makeId('pass', nowMs, bytes),
      issuerId: makeId('iss', nowMs, bytes),
      issuerDomain: null,
      accountId: makeId('acct', nowMs, bytes),
      mode: 'live',
      agentId: 'agent-1',
      agentName: 'Agent 1',
      permissions: (given.permissions ?? ['orders:create']).map(permissionKey),
      trustTier: 'L1',
      constraints: parseConstraints({}, { param: 'constraints', of: 'passport' }),
      issuedAtS: toSeconds(nowMs),
      notBeforeS: toSeconds(nowMs),
      expiresAtS: null,
      publicKey: '',
    },
    'key-1',
    'hash-1',
  );

/** Everything is well and was heard this moment. */
export const aStanding = (given: Partial<PassportStanding> = {}): PassportStanding => ({
  status: 'active',
  isIssuerSuspended: false,
  isAccountSuspended: false,
  isKeyCompromised: false,
  stateAgeMs: 0,
  ...given,
});
