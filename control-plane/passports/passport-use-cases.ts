import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { renderTime } from '../../shared/model/time.ts';
import { canonicalName } from '../../shared/wire/api/email.ts';
import { partsAsked, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import {
  type PassportListQuery,
  type RevocationAnswer,
  renderIssuedPassport,
  renderPassport,
  renderPassportListItem,
  renderVerification,
} from '../../shared/wire/api/passport.ts';
import type { WantedPassport } from '../../shared/wire/api/passport-issue.ts';
import { renderOptionalActor } from '../../shared/wire/evidence/audit.ts';
import type { Creation } from '../creation/idempotency.ts';
import type { Caller } from '../http/caller.ts';
import { pathId } from '../http/path-id.ts';
import type { UseCase } from '../http/use-case.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { readStalePage } from '../storage/replica-reads.ts';
import { propagationOf } from '../sync/propagation.ts';
import { type IssuedPassport, issuePassport } from './issue-passport.ts';
import { findPassport, listPassports, type StoredPassport } from './passport-store.ts';
import { type Revocation, revokePassport } from './revoke-passport.ts';

export const passportIdOf = (text: string) => pathId('pass', text, 'passport_not_found');

/** `POST /passports`, in each of its variants, and `POST /api/passports`. */
export const issuePassportUseCase = {
  scope: 'passports:issue',
  creation: (
    deps: SigningDeps,
    caller: Caller,
    wanted: WantedPassport,
    operation: 'issuePassport' | 'issuePassportUnattended' = 'issuePassport',
  ): Creation<IssuedPassport> => ({
    create: (tx, change) => issuePassport(tx, change, deps, { owner: caller, wanted }),
    readsFirst: wanted.owner === null,
    render: (issued) => renderIssuedPassport(issued.passport, issued),
    audit: ({ passport }) => ({
      operation,
      target: passport.passportId,
      before: null,
      after: renderPassport(passport),
    }),
  }),
} as const;

/** `GET /passports` */
export const listPassportsUseCase = {
  scope: 'passports:read',
  run: async (deps, caller, query) => {
    const filter = parseFilter(query);
    return readStalePage(deps.sql, { owner: caller.accountId, query }, async (sql, asked) => {
      const page = placePage(asked, caller, 'passports', [
        filter.issuerId,
        filter.owner,
        filter.user,
        filter.status,
        filter.trustTier,
        ...partsAsked(asked),
      ]);
      const found = await listPassports(sql, caller, {
        filter,
        page,
        nowMs: deps.clock.now(),
        toItem: renderPassportListItem,
        logger: deps.logger,
      });
      return renderPage(found, page, (item) => item);
    });
  },
} as const satisfies UseCase<SigningDeps, Static<typeof PassportListQuery>, object>;

/** `GET /passports/:id/verify` */
export const verifyPassportUseCase = {
  scope: 'passports:read',
  run: async (deps, caller, id) => {
    const passport = await getPassport(deps, caller, id);
    return renderVerification(passport, { ...passport, nowMs: deps.clock.now() });
  },
} as const satisfies UseCase<SigningDeps, string, object>;

/** `POST /passports/:id/revoke` */
export const revokePassportUseCase = {
  scope: 'passports:revoke',
  run: async (
    deps,
    caller,
    { id, reason = 'unspecified', waitMs },
  ): Promise<Static<typeof RevocationAnswer>> => {
    const passportId = passportIdOf(id);
    const revocation = await revokePassport(deps, caller, { passportId, reason });
    return renderRevocation(deps, caller, revocation, waitMs);
  },
} as const satisfies UseCase<
  SigningDeps,
  { readonly id: string; readonly reason?: string | undefined; readonly waitMs: number },
  object
>;

/** Answers once sidecars had `waitMs` to acknowledge (contract §3). */
export async function renderRevocation(
  deps: SigningDeps,
  caller: Caller,
  revocation: Revocation,
  waitMs: number,
): Promise<Static<typeof RevocationAnswer>> {
  const { passportId } = revocation;
  const propagation = await propagationOf(deps, caller, revocation.globalRevision, { waitMs });
  return {
    passport_id: passportId,
    id: passportId,
    status: 'revoked',
    revoked_at: renderTime(revocation.revokedAtMs),
    revoked_by: renderOptionalActor(revocation.revokedBy),
    reason: revocation.reason,
    propagation: { ...propagation, silent: [...propagation.silent] },
  };
}

/** Throws `passport_not_found`, also for an invalid id. */
export async function getPassport(deps: SigningDeps, owner: Owner, text: string): Promise<StoredPassport> {
  const passport = await findPassport(deps.sql, owner, {
    passportId: passportIdOf(text),
    nowMs: deps.clock.now(),
  });
  if (passport === null) throw new ApiError('passport_not_found');
  return passport;
}

function parseFilter(query: Static<typeof PassportListQuery>) {
  if (query.issuer_id !== undefined && !isId('iss', query.issuer_id)) {
    throw invalidRequest('issuer_id', 'issuer_id must be the id of an issuer.');
  }
  return {
    agentIdPart: query.agent_id ?? null,
    agentNamePart: query.agent_name ?? null,
    issuerId: query.issuer_id ?? null,
    owner: canonicalName(query.owner ?? null),
    user: canonicalName(query.user ?? null),
    status: query.status ?? null,
    trustTier: query.trust_tier ?? null,
  };
}
