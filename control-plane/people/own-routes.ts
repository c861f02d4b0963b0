import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AuditedOperation } from '../../shared/model/audit.ts';
import { SessionAnswer } from '../../shared/wire/session.ts';
import {
  OwnPassword,
  PasswordChange,
  TotpBegunAnswer,
  TotpConfirmation,
  TotpConfirmedAnswer,
} from '../../shared/wire/user.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { sessionAnswerer } from './answer-session.ts';
import { changePassword } from './change-password.ts';
import { checkOwnPassword } from './check-own-password.ts';
import type { PeopleDeps } from './deps.ts';
import { administratorOfPeople } from './own-people.ts';
import { beginSecondFactor, confirmSecondFactor, removeSecondFactor } from './second-factor.ts';
import { lockUser, type UserWithSecrets } from './user-store.ts';

const config = { scope: null, credential: 'session' } as const;
const Nothing = Type.Unsafe<undefined>({});

/** A user's own password and second factor (docs/people.md). */
export function ownRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const answerBegun = sessionAnswerer(deps);
  return async (app) => {
    app.post(
      '/users/me/password',
      { config, schema: { body: PasswordChange, response: { 200: SessionAnswer } } },
      async (request, reply) => {
        const wanted = { caller: callerOf(request), body: request.body };
        return answerBegun(request, reply, await changePassword(deps, request, wanted));
      },
    );

    app.post('/users/me/totp', { config, schema: { response: { 200: TotpBegunAnswer } } }, (request) =>
      changeOwn(deps, callerOf(request), 'beginTotp', async (tx, user) => {
        if (user.totpEnabled) throw new ApiError('user_state_conflict', { message: 'There is one already.' });
        return beginSecondFactor(tx, deps, user);
      }),
    );

    app.post(
      '/users/me/totp/confirm',
      { config, schema: { body: TotpConfirmation, response: { 200: TotpConfirmedAnswer } } },
      (request) =>
        changeOwn(deps, callerOf(request), 'confirmTotp', async (tx, user) => {
          if (user.totpEnabled)
            throw new ApiError('user_state_conflict', { message: 'There is one already.' });
          const codes = await confirmSecondFactor(tx, deps, user.userId, request.body.code);
          if (codes === null)
            throw invalidRequest('code', 'code is not one of the app, or its time is over.');
          return { recovery_codes: [...codes] };
        }),
    );

    app.delete(
      '/users/me/totp',
      { config, schema: { body: OwnPassword, response: { 204: Nothing } } },
      async (request, reply) => {
        const caller = callerOf(request);
        // Needs the password, so that a person at an unlocked browser cannot weaken the login.
        const { password } = request.body;
        const { user } = await checkOwnPassword(deps, request, { caller, field: 'password', password });
        await changeOwn(deps, caller, 'removeTotp', async (tx, locked) => {
          if (locked.passwordHash !== user.passwordHash) throw new ApiError('unauthorized');
          await removeSecondFactor(tx, locked.userId);
        });
        return reply.code(204).send();
      },
    );
  };
}

/** A change of the caller's own row, which is locked meanwhile. */
const changeOwn = <T>(
  deps: PeopleDeps,
  caller: Caller,
  operation: AuditedOperation,
  work: (tx: Transaction, user: UserWithSecrets) => Promise<T>,
): Promise<T> =>
  administer(deps, administratorOfPeople(caller), async (tx) => {
    const { userId } = must(caller.person, 'the route asks for a session');
    const user = await lockUser(tx, caller.accountId, userId);
    if (user === null) throw new ApiError('unauthorized');
    const result = await work(tx, user);
    const after = { user_id: userId };
    return { result, audited: { operation, target: userId, before: null, after } };
  });
