import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import type { Passport } from '../../shared/model/passport.ts';
import { renderPassport } from '../../shared/wire/api/passport.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findCause } from './find-cause.ts';
import { hasLiveAgent, lockPassport, type StoredPassport } from './passport-store.ts';
import { moveSuspensions, type SuspensionMove } from './suspension-store.ts';

/**
 * Blocks a passport until it is reactivated, whoever else suspends it. Where the account does already, and of
 * one that has ended: `passport_state_conflict` (contract §3).
 */
export const suspendPassport = (
  deps: SigningDeps,
  caller: Caller,
  passportId: PassportId,
): Promise<Passport> => movePassport(deps, caller, { passportId, to: 'suspended' });

/**
 * Ends the account's own suspension, or that of the issuer that is named; what others have against the
 * passport stands. Without an issuer it lifts a revocation of another issuer's passport too: its subject has
 * no other passport (contract §4). In any other state: `passport_state_conflict`.
 */
export const reactivatePassport = (
  deps: SigningDeps,
  caller: Caller,
  asked: { readonly passportId: PassportId; readonly issuerId: string | undefined },
): Promise<Passport> => movePassport(deps, caller, { ...asked, to: 'active' });

async function movePassport(
  deps: SigningDeps,
  caller: Caller,
  asked: {
    readonly passportId: PassportId;
    readonly to: SuspensionMove['to'];
    readonly issuerId?: string | undefined;
  },
): Promise<Passport> {
  const { passportId, to, issuerId } = asked;
  return administer(deps, caller, async (tx, change) => {
    const cause = await findCause(tx, caller, issuerId);
    const nowMs = deps.clock.now();
    const passport = await lockPassport(tx, caller, { passportId, nowMs });
    if (passport === null) throw new ApiError('passport_not_found');
    const isLifted = to === 'active' && passport.isFederated && passport.status === 'revoked';
    if (!isLifted) refuseState(passport, to);
    if (isLifted && (await hasLiveAgent(tx, passport)))
      throw new ApiError('agent_id_conflict', { param: 'agent_id' });
    const moves = [{ of: { passportId }, to, cause, event: null }];
    const lifted = isLifted && issuerId === undefined ? passportId : null;
    await moveSuspensions(tx, change, caller, { moves, nowMs, lifted });
    const moved = must(await lockPassport(tx, caller, { passportId, nowMs }), 'a locked passport stays');
    const [before, after] = [renderPassport(passport), renderPassport(moved)];
    const isSame = before.status === after.status && before.suspended_by.length === after.suspended_by.length;
    const operation = to === 'suspended' ? ('suspendPassport' as const) : ('reactivatePassport' as const);
    const audited = { operation, target: passportId, before, after: { ...after, cause } };
    return { result: moved, audited: isSame ? null : audited };
  });
}

function refuseState({ status, suspendedBy }: StoredPassport, to: SuspensionMove['to']): void {
  const isOwnStanding = suspendedBy.some(({ cause, owner }) => cause === 'account' && owner === null);
  const isGood =
    to === 'active'
      ? status === 'suspended'
      : status === 'active' || (status === 'suspended' && !isOwnStanding);
  if (!isGood)
    throw new ApiError('passport_state_conflict', {
      message: `The passport is ${status} already, or has ended.`,
    });
}
