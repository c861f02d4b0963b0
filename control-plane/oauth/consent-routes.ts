import type { IncomingMessage } from 'node:http';
import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { hashApiKey, parseApiKey } from '../../shared/crypto/api-key.ts';
import { nonceBytes, SealError } from '../../shared/crypto/seal.ts';
import { holdsScope, type Scope } from '../../shared/model/scopes.ts';
import { findPresentedKey, type PresentedKey } from '../api-keys/api-key-store.ts';
import { textSeal } from '../http/answer-secrets.ts';
import { readBody } from '../http/json-body.ts';
import { readScopes } from './access-token.ts';
import { countAttempt } from './artifact-store.ts';
import type { AuthorizationServer } from './authorization-server.ts';
import { toolsUrl } from './challenge.ts';
import { hostOf, type Page, renderConsentPage, renderErrorPage } from './consent-page.ts';
import type { OAuthDeps } from './deps.ts';
import { endpoints } from './endpoints.ts';
import { oauthLimits } from './limits.ts';
import { keepRegisteredClient } from './registered-clients.ts';
import { isUsable } from './usable-key.ts';

const config = { scope: null } as const;
const url = `${endpoints.consent}/:uid`;

/** An authorization that waits for a person, in the browser that began it. */
interface Waiting {
  readonly uid: string;
  readonly clientId: string;
  readonly clientName: string;
  readonly redirectUri: string;
  readonly scopes: readonly Scope[];
}

/**
 * The consent page. The person proves their rights with an API key, which is compared and not stored; only
 * its id is.
 *
 * A form counts only from the browser in which the authorization was begun (its cookie is bound to this very
 * address and not sent along from other sites) and only with the token that the page carried. All text from
 * clients is escaped.
 */
export function consentRoutes(
  deps: OAuthDeps,
  server: () => Promise<AuthorizationServer>,
): FastifyPluginAsync {
  return async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('application/x-www-form-urlencoded', readForm);

    app.get<{ Params: { uid: string } }>(url, { config, exposeHeadRoute: false }, async (request, reply) => {
      const waiting = await findWaiting(await server(), request, reply);
      return waiting === null ? send(reply, 400, overPage) : send(reply, 200, pageOf(deps, waiting, null));
    });

    app.post<{ Params: { uid: string } }>(url, { config }, async (request, reply) => {
      const authorization = await server();
      const waiting = await findWaiting(authorization, request, reply);
      const form = request.body instanceof URLSearchParams ? request.body : new URLSearchParams();
      if (waiting === null || !isTokenOf(deps, waiting, form.get('form_token') ?? ''))
        return send(reply, 400, overPage);
      if (form.get('choice') !== 'allow') return deny(authorization, request, reply);

      const attempt = { model: 'Interaction', id: waiting.uid, attemptsMax: oauthLimits.consentAttemptsMax };
      if (!(await countAttempt(deps, attempt))) return send(reply, 400, tooManyPage);
      const key = await findKey(deps, form.get('api_key') ?? '');
      if (key === null)
        return send(reply, 400, pageOf(deps, waiting, 'This API key does not exist, or is no longer valid.'));
      const granted = waiting.scopes.filter((scope) => holdsScope(key.scopes, scope));
      if (granted.length === 0) {
        return send(
          reply,
          400,
          pageOf(deps, waiting, 'This API key holds none of these permissions itself.'),
        );
      }
      return allow(deps, authorization, request, reply, { waiting, key, granted, resource: toolsUrl(deps) });
    });
  };
}

async function readForm(_request: FastifyRequest, payload: IncomingMessage): Promise<URLSearchParams> {
  const bytes = await readBody(payload, oauthLimits.formBytesMax);
  return new URLSearchParams(bytes.toString('utf8'));
}

const overPage = renderErrorPage(
  'This request has ended, or was started in another browser. Go back to the application and connect again.',
);
const tooManyPage = renderErrorPage(
  'Too many keys were tried. Go back to the application and connect again.',
);

const send = (reply: FastifyReply, status: number, { html, headers }: Page): FastifyReply =>
  reply.code(status).headers(headers).send(html);

/** Null: not begun in this browser, or over. */
async function findWaiting(
  { provider, errors }: AuthorizationServer,
  request: FastifyRequest<{ Params: { uid: string } }>,
  reply: FastifyReply,
): Promise<Waiting | null> {
  try {
    const { uid, params } = await provider.interactionDetails(request.raw, reply.raw);
    if (uid !== request.params.uid) return null;
    const clientId = String(params['client_id']);
    const client = await provider.Client.find(clientId);
    if (client === undefined) return null;
    return {
      uid,
      clientId,
      clientName: client.clientName ?? hostOf(clientId) ?? 'An application without a name',
      redirectUri: String(params['redirect_uri']),
      scopes: readScopes(params['scope']),
    };
  } catch (error) {
    if (error instanceof errors.OIDCProviderError) return null;
    throw error;
  }
}

async function findKey(
  { sql, clock }: Pick<OAuthDeps, 'sql' | 'clock'>,
  text: string,
): Promise<PresentedKey | null> {
  const presented = text.trim();
  if (parseApiKey(presented) === null) return null;
  const key = await findPresentedKey(sql, hashApiKey(presented));
  return key !== null && isUsable(key, clock.now()) ? key : null;
}

async function allow(
  deps: OAuthDeps,
  { provider }: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
  consent: {
    readonly waiting: Waiting;
    readonly key: PresentedKey;
    readonly granted: readonly Scope[];
    readonly resource: string;
  },
): Promise<FastifyReply> {
  const { waiting, key, granted, resource } = consent;
  await keepRegisteredClient(deps, waiting.clientId);
  const grant = new provider.Grant({ accountId: key.keyId, clientId: waiting.clientId });
  grant.addResourceScope(resource, granted.join(' '));
  const result = {
    login: { accountId: key.keyId, remember: false },
    consent: { grantId: await grant.save() },
  };
  return reply.redirect(await provider.interactionResult(request.raw, reply.raw, result), 303);
}

async function deny(
  { provider }: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const result = { error: 'access_denied', error_description: 'access was denied on the consent page' };
  return reply.redirect(await provider.interactionResult(request.raw, reply.raw, result), 303);
}

const pageOf = (deps: OAuthDeps, waiting: Waiting, problem: string | null): Page =>
  renderConsentPage({
    ...waiting,
    action: `${endpoints.consent}/${waiting.uid}`,
    formToken: formSeal(deps, waiting).seal('read'),
    problem,
  });

function isTokenOf(deps: OAuthDeps, waiting: Waiting, token: string): boolean {
  try {
    return formSeal(deps, waiting).open(token) === 'read';
  } catch (error) {
    if (error instanceof SealError) return false;
    throw error;
  }
}

/** Valid for this authorization only, at any replica, and unforgeable. */
const formSeal = ({ sealer, random }: OAuthDeps, { uid }: Waiting) =>
  textSeal(sealer, `oauth/consent/${uid}`, () => random.bytes(nonceBytes));
