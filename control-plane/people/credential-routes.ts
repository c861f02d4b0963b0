import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AuditedOperation } from '../../shared/model/audit.ts';
import { SessionAnswer } from '../../shared/wire/api/session.ts';
import {
  OwnPassword,
  PasswordChange,
  TotpBegunAnswer,
  TotpConfirmation,
  TotpConfirmedAnswer,
} from '../../shared/wire/api/user.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { exampleIds, exampleLogin } from '../http/example-ids.ts';
import { operationsOf } from '../http/operation.ts';
import { sessionAnswerer } from './answer-session.ts';
import { changePassword } from './change-password.ts';
import { checkOwnPassword } from './check-own-password.ts';
import type { PeopleDeps } from './deps.ts';
import { administratorOfPeople } from './people-rights.ts';
import { beginSecondFactor, confirmSecondFactor, removeSecondFactor } from './second-factor.ts';
import { lockUser, type UserWithSecrets } from './user-store.ts';

const api = operationsOf('People', {
  changePassword: {
    scope: null,
    credential: 'session',
    summary: 'Change your own password',
    description: 'Ends all of your sessions, and begins another one here.',
    headers: ['Set-Cookie'],
    examples: {
      change: {
        value: {
          current_password: exampleLogin.password,
          new_password: 'a long sentence that I can remember',
        },
      },
    },
  },
  beginTotp: {
    scope: null,
    credential: 'session',
    summary: 'Get a secret for your authenticator app',
    description: 'No code is asked for until one was confirmed. `secret` is shown this once.',
    errors: ['user_state_conflict'],
  },
  confirmTotp: {
    scope: null,
    credential: 'session',
    summary: 'Put your second factor in force, and get recovery codes',
    description:
      'From then on a login needs a code. Each recovery code works once; they are shown this once.',
    errors: ['user_state_conflict'],
    examples: { code: { value: { code: exampleIds.totpCode } } },
  },
  removeTotp: {
    scope: null,
    credential: 'session',
    summary: 'Remove your second factor',
    description: 'Asks for your password once more.',
    examples: { password: { value: { password: exampleLogin.password } } },
  },
});
const Nothing = Type.Unsafe<undefined>({});

/** A user's own password and second factor (docs/people.md). */
export function credentialRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const answerBegun = sessionAnswerer(deps);
  return async (app) => {
    app.post(
      '/users/me/password',
      { config: api.changePassword, schema: { body: PasswordChange, response: { 200: SessionAnswer } } },
      async (request, reply) => {
        const wanted = { caller: callerOf(request), body: request.body };
        return answerBegun(request, reply, await changePassword(deps, request, wanted));
      },
    );

    app.post(
      '/users/me/totp',
      { config: api.beginTotp, schema: { response: { 200: TotpBegunAnswer } } },
      (request) =>
        changeOwn(deps, callerOf(request), 'beginTotp', async (tx, user) => {
          if (user.totpEnabled)
            throw new ApiError('user_state_conflict', { message: 'There is one already.' });
          return beginSecondFactor(tx, deps, user);
        }),
    );

    app.post(
      '/users/me/totp/confirm',
      { config: api.confirmTotp, schema: { body: TotpConfirmation, response: { 200: TotpConfirmedAnswer } } },
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
      { config: api.removeTotp, schema: { body: OwnPassword, response: { 204: Nothing } } },
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
