import { ApiError } from '../../shared/errors/api-error.ts';
import type { AuditedOperation } from '../../shared/model/audit.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { renderPassport } from '../../shared/wire/passport.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { hasLiveAgent, lockPassport, setPassportStatus } from './passport-store.ts';
import { publishStanding } from './publish-standing.ts';

/**
 * Blocks an active passport until it is reactivated. In any other state: `passport_state_conflict` (contract
 * §3).
 */
export const suspendPassport = (
  deps: SigningDeps,
  caller: Caller,
  passportId: PassportId,
): Promise<Passport> =>
  movePassport(deps, caller, { operation: 'suspendPassport', passportId, from: 'active', to: 'suspended' });

/**
 * Lifts a suspension, and of a passport of another issuer a revocation too: its subject has no other passport
 * (contract §4). In any other state: `passport_state_conflict`.
 */
export const reactivatePassport = (
  deps: SigningDeps,
  caller: Caller,
  passportId: PassportId,
): Promise<Passport> =>
  movePassport(deps, caller, {
    operation: 'reactivatePassport',
    passportId,
    from: 'suspended',
    to: 'active',
  });

type Suspendable = 'active' | 'suspended';

async function movePassport(
  deps: SigningDeps,
  caller: Caller,
  {
    operation,
    passportId,
    from,
    to,
  }: {
    readonly operation: AuditedOperation;
    readonly passportId: PassportId;
    readonly from: Suspendable;
    readonly to: Suspendable;
  },
): Promise<Passport> {
  return administer(deps, caller, async (tx, change) => {
    const passport = await lockPassport(tx, caller, { passportId, nowMs: deps.clock.now() });
    if (passport === null) throw new ApiError('passport_not_found');
    const isLifted = passport.isFederated && to === 'active' && passport.status === 'revoked';
    if (passport.status !== from && !isLifted) {
      throw new ApiError('passport_state_conflict', {
        message: `The passport is ${passport.status}; only one that is ${from} can become ${to}.`,
      });
    }
    if (isLifted && (await hasLiveAgent(tx, passport)))
      throw new ApiError('agent_id_conflict', { param: 'agent_id' });
    await setPassportStatus(tx, passportId, to);
    await publishStanding(tx, change, passport, to);
    const moved: Passport = {
      ...passport,
      status: to,
      revokedAtMs: null,
      revocationReason: null,
      revokedBy: null,
    };
    const before = renderPassport(passport);
    return {
      result: moved,
      audited: { operation, target: passportId, before, after: renderPassport(moved) },
    };
  });
}
