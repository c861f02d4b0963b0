import { Type } from 'typebox';
import { limits } from '../../shared/model/limits.ts';
import { plainTextPattern } from '../../shared/model/plain-text.ts';
import { closed } from '../../shared/wire/api/fields.ts';
import { PageAnswer } from '../../shared/wire/api/paging.ts';
import {
  IssuedPassportAnswer,
  PassportListItem,
  PassportListQuery,
  RevocationAnswer,
  VerificationAnswer,
} from '../../shared/wire/api/passport.ts';
import { parsePassportIssue, ReferenceIssue } from '../../shared/wire/api/passport-issue.ts';
import {
  issuePassportUseCase,
  listPassportsUseCase,
  revokePassportUseCase,
  verifyPassportUseCase,
} from '../passports/passport-use-cases.ts';
import { createNow } from './create-now.ts';
import { defineTool } from './tool.ts';

export const createPassport = defineTool({
  name: 'create_passport',
  title: 'Issue a passport',
  description:
    'Issues a signed passport to an agent: who it is, and which permissions (<area>:<action>) it has until when. The answer holds the ' +
    'token (jwt) and, unless public_key was given, the private_key of the agent. Both are shown this once and cannot be read again.',
  scope: issuePassportUseCase.scope,
  hints: { readOnlyHint: false, destructiveHint: false, idempotentHint: false },
  input: ReferenceIssue,
  output: IssuedPassportAnswer,
  run: (deps, caller, args) => {
    const wanted = parsePassportIssue(args, { path: 'v1', nowMs: deps.clock.now() });
    return createNow(deps, caller, issuePassportUseCase.creation(deps, caller, wanted));
  },
});

export const revokePassport = defineTool({
  name: 'revoke_passport',
  title: 'Revoke a passport',
  description:
    'Revokes a passport for good: every gate blocks it from now on, and nothing brings it back. Ask a person first. A second revocation ' +
    'answers the first one unchanged.',
  scope: revokePassportUseCase.scope,
  hints: { readOnlyHint: false, destructiveHint: true, idempotentHint: true },
  input: closed({
    passport_id: Type.String(),
    reason: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: limits.reasonCharsMax,
        pattern: plainTextPattern.source,
        description: 'Why it is revoked. Default: `unspecified`.',
      }),
    ),
  }),
  output: RevocationAnswer,
  run: (deps, caller, { passport_id: id, reason }) =>
    revokePassportUseCase.run(deps, caller, { id, reason, waitMs: 0 }),
});

const { limit, offset, ...filter } = PassportListQuery.properties;

export const listPassports = defineTool({
  name: 'list_passports',
  title: 'List passports',
  description: 'Lists the passports of the account, the newest first, page by page.',
  scope: listPassportsUseCase.scope,
  hints: { readOnlyHint: true },
  input: closed({ ...filter, limit: Type.Optional(limit), offset: Type.Optional(offset) }),
  output: PageAnswer(PassportListItem),
  run: (deps, caller, args) =>
    listPassportsUseCase.run(deps, caller, { limit: limits.pageItemsDefault, offset: 0, ...args }),
});

export const verifyPassport = defineTool({
  name: 'verify_passport',
  title: 'Verify a passport',
  description:
    'Says whether a passport of the account is valid now, and if not, why: revoked, expired, suspended. Takes its id, not its token.',
  scope: verifyPassportUseCase.scope,
  hints: { readOnlyHint: true },
  input: closed({ passport_id: Type.String() }),
  output: VerificationAnswer,
  run: (deps, caller, { passport_id: id }) => verifyPassportUseCase.run(deps, caller, id),
});
