import type { IncomingMessage } from 'node:http';
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import { ApiError, type ErrorBody } from '../../shared/errors/api-error.ts';
import type { GateId, RequestId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { secondMs } from '../../shared/model/time.ts';
import { ForeignIssuer } from '../../shared/verification/foreign-issuers.ts';
import {
  SubjectRevocation,
  TokenExplanation,
  TokenTrial,
} from '../../shared/wire/api/federation-operations.ts';
import { RevocationAnswer, RevocationQuery } from '../../shared/wire/api/passport.ts';
import { addressLimit } from '../http/address-limit.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { readBody } from '../http/json-body.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { accountFederations, findFederation, knownFederations } from '../issuers/federation-store.ts';
import type { KeyDeps } from '../issuers/follow-keys.ts';
import { renderRevocation } from '../passports/passport-use-cases.ts';
import { standingOfSubject } from '../passports/subject-standing-store.ts';
import { explainToken } from './explain-token.ts';
import { federationLimits } from './limits.ts';
import { revokeSubject } from './revoke-subject.ts';
import { takeEvent } from './take-event.ts';

const api = operationsOf('Issuers', {
  revokeSubject: {
    scope: 'passports:revoke',
    summary: 'Revoke a subject of another issuer',
    description:
      'Before or after it was first seen. Every token of it is blocked, future ones too, until its passport is reactivated.',
    errors: ['issuer_not_found'],
    examples: { subject: { value: { subject: 'shop-agent', reason: 'key leaked' } } },
  },
  tryToken: {
    scope: 'issuers:read',
    summary: 'Say what a token of another issuer would become',
    description:
      'Claim by claim, up to the first fault. With `gate_id`, for which the key needs `gates:read` too, also whether this gate ' +
      'trusts the issuer, the tier and the key of the token; `passport` is there where the gate refuses it. The token is ' +
      'neither stored nor recorded.',
    errors: ['issuer_not_found', 'gate_not_found'],
    examples: { token: { value: { token: 'eyJhbGciOiJSUzI1NiIsImtpZCI6…' } } },
  },
  receiveSecurityEvent: {
    scope: null,
    tag: 'Shared Signals',
    summary: 'Receive a security event of an issuer',
    description:
      'Shared Signals by push (RFC 8935): a security event token (RFC 8417) with `Content-Type: application/secevent+jwt`, signed ' +
      'with a key of that issuer, which is all that authenticates it. Taken once for each `jti`. A refusal has `err` and ' +
      '`description` (RFC 8935 §2.4) beside `error`.',
    errors: [
      'issuer_not_found',
      'invalid_request',
      'internal_error',
      'overloaded',
      'service_unavailable',
      'rate_limited',
      'body_too_large',
      'unsupported_media_type',
    ],
  },
});

const Nothing = Type.Unsafe<undefined>({});
const issuerIdOf = (text: string) => pathId('iss', text, 'issuer_not_found');

/** A gate of the owner, compiled. Null: it has none of this id. */
export type ReadGate = (owner: Owner, gateId: GateId) => Promise<CompiledGate | null>;

/** What is done about issuers of others, beside their settings (contract §4). */
export function federationRoutes(deps: KeyDeps, compiledGate: ReadGate): FastifyPluginAsyncTypebox {
  const gateFor = async (caller: Caller, text: string): Promise<CompiledGate> => {
    if (!holdsScope(caller.scopes, 'gates:read'))
      throw new ApiError('insufficient_scope', { param: 'gate_id' });
    const gate = await compiledGate(caller, pathId('gate', text, 'gate_not_found'));
    if (gate === null) throw new ApiError('gate_not_found', { param: 'gate_id' });
    return gate;
  };
  return async (app) => {
    app.register(eventRoutes(deps));

    app.post(
      '/issuers/:id/revoke-subject',
      {
        config: api.revokeSubject,
        schema: {
          params: IdParams,
          querystring: RevocationQuery,
          body: SubjectRevocation,
          response: { 200: RevocationAnswer },
        },
      },
      async (request) => {
        const caller = callerOf(request);
        const { subject, reason = 'unspecified' } = request.body;
        const issuerId = issuerIdOf(request.params.id);
        const revocation = await revokeSubject(deps, caller, { issuerId, subject, reason });
        return renderRevocation(deps, caller, revocation, request.query.wait_ms);
      },
    );

    app.post(
      '/issuers/:id/try-token',
      {
        config: api.tryToken,
        schema: { params: IdParams, body: TokenTrial, response: { 200: TokenExplanation } },
      },
      async (request) => {
        const caller = callerOf(request);
        const stored = await findFederation(deps.sql, issuerIdOf(request.params.id));
        const isOwn = stored?.accountId === caller.accountId && stored.mode === caller.mode;
        if (stored === null || !isOwn) throw new ApiError('issuer_not_found');
        const { token, gate_id: gateText } = request.body;
        const gate = gateText === undefined ? null : await gateFor(caller, gateText);
        const known =
          gate === null
            ? await accountFederations(deps.sql, caller.accountId)
            : await knownFederations(deps.sql, caller.accountId, gate.gateId);
        const active = known.filter(({ status }) => status === 'active');
        return explainToken(
          token,
          new ForeignIssuer(stored),
          {
            known: active.map((each) => new ForeignIssuer(each)),
            gate,
            standingOf: (subject) => standingOfSubject(deps.sql, subject),
            isOwnKey: (named) =>
              deps.signingKeys
                .all()
                .some(
                  ({ kid, purpose, compromised }) => purpose === 'passport' && kid === named && !compromised,
                ),
          },
          deps.clock.now(),
        );
      },
    );
  };
}

/** Tokens are ASCII; what is not becomes no token. */
const readToken = async (_request: FastifyRequest, payload: IncomingMessage): Promise<string> =>
  (await readBody(payload, limits.bodyBytesMax)).toString('latin1');

/** RFC 8935 §2.4, by the claim at fault, else by our code. */
const refusalCodes: Readonly<Record<string, string>> = {
  iss: 'invalid_issuer',
  aud: 'invalid_audience',
  kid: 'invalid_key',
  signature: 'authentication_failed',
  issuer: 'access_denied',
  issuer_not_found: 'invalid_issuer',
};

/** What transmitters read of a refusal, beside our own body. */
const asRefusal = ({ error }: ErrorBody) => ({
  err: refusalCodes[error.param ?? error.code] ?? 'invalid_request',
  description: error.message,
  error,
});

/** A plugin of its own, because its body is a token and no JSON. */
function eventRoutes(deps: KeyDeps): FastifyPluginAsyncTypebox {
  const attempts = addressLimit(deps.clock, {
    max: federationLimits.eventsPerMinuteMax,
    windowMs: federationLimits.eventWindowMs,
    addressesMax: federationLimits.eventAddressesMax,
  });
  return async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('application/secevent+jwt', readToken);
    app.addHook('preSerialization', async (_request, reply, payload) => {
      // What may be sent again is no refusal.
      if (reply.statusCode >= 500 || reply.hasHeader('retry-after')) return payload;
      reply.header('content-language', 'en');
      return asRefusal(payload as ErrorBody);
    });
    app.post(
      '/issuers/:id/events',
      { config: api.receiveSecurityEvent, schema: { params: IdParams, response: { 202: Nothing } } },
      async (request, reply) => {
        const waitMs = attempts.take(request.ip);
        if (waitMs !== null)
          throw new ApiError('rate_limited', { retryAfterS: Math.ceil(waitMs / secondMs) });
        const issuerId = issuerIdOf(request.params.id);
        const token = typeof request.body === 'string' ? request.body.trim() : '';
        await takeEvent(deps, { issuerId, token, requestId: request.id as RequestId });
        return reply.code(202).send();
      },
    );
  };
}
