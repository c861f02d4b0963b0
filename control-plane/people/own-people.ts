import { ApiError } from '../../shared/errors/api-error.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { type Role, scopesOfRole } from '../../shared/model/user.ts';
import type { Caller } from '../http/caller.ts';

/**
 * Who administers people. They belong to an account and to no mode: what they do in the test world they may
 * do in the live one, so a test key must not make them. A person does so in whichever mode their console
 * shows, and the live chain of the audit has it. Throws `insufficient_scope`.
 */
export function administratorOfPeople(caller: Caller): Caller {
  if (caller.mode === 'live') return caller;
  if (caller.person !== null) return { ...caller, mode: 'live' };
  throw new ApiError('insufficient_scope', {
    message: 'People act in both modes, so only a live key may look at them and change them.',
  });
}

/**
 * Nobody gives, takes away or acts on a role that may do more than they may themselves. Throws
 * `insufficient_scope`.
 */
export function refuseHigherRole(caller: Caller, role: Role): void {
  if (scopesOfRole[role].every((scope) => holdsScope(caller.scopes, scope))) return;
  throw new ApiError('insufficient_scope', {
    param: 'role',
    message: `The role ${role} may do more than you may: you cannot give it, take it away or act on its people.`,
  });
}
