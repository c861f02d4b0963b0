import { ApiError } from '../../shared/errors/api-error.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { type Role, scopesOfRole } from '../../shared/model/user.ts';
import type { Caller } from '../http/caller.ts';

/**
 * The caller as an administrator of people. People belong to an account, not to a mode: their rights in test
 * mode hold in live mode too, so a test key must not create them. A person may do so in either mode of the
 * console; the entry is in the live audit chain. Throws `insufficient_scope`.
 */
export function administratorOfPeople(caller: Caller): Caller {
  if (caller.mode === 'live') return caller;
  if (caller.person !== null) return { ...caller, mode: 'live' };
  throw new ApiError('insufficient_scope', {
    message: 'People act in both modes, so only a live key may look at them and change them.',
  });
}

/**
 * Refuses to give, remove or act on a role with more rights than the caller's. Throws `insufficient_scope`.
 */
export function refuseHigherRole(caller: Caller, role: Role): void {
  if (scopesOfRole[role].every((scope) => holdsScope(caller.scopes, scope))) return;
  throw new ApiError('insufficient_scope', {
    param: 'role',
    message: `The role ${role} may do more than you may: you cannot give it, take it away or act on its people.`,
  });
}
