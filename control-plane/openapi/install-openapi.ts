import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type {
  FastifyContextConfig,
  FastifyInstance,
  FastifyPluginAsync,
  FastifySchema,
  RouteOptions,
} from 'fastify';
import { Type } from 'typebox';
import { assert, must } from '../../shared/errors/assert.ts';
import { scopes as everyScope } from '../../shared/model/scopes.ts';
import { packageVersion } from '../../shared/runtime/package-version.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { OperationText } from '../http/operation.ts';
import { tags } from '../http/tags.ts';
import { sessionCookie } from '../sessions/cookies.ts';
import { completeDocument, type DescribedOperation } from './complete-document.ts';
import type { Document } from './document.ts';

const pagesPath = '/docs';

/**
 * `/openapi.json` and the pages at `/docs`, both public (contract §12), generated from the schemas by which
 * requests are validated. Comes before the routes, because it listens to their registration, and before
 * whatever asks each route for its scope.
 */
export function installOpenApi(app: FastifyInstance, deps: Pick<BaseDeps, 'baseUrl' | 'gateHost'>): void {
  // The pages' routes are registered by their library, which knows nothing of scopes.
  app.addHook('onRoute', (route) => {
    if (isOfPages(route.url)) route.config = { ...route.config, scope: null };
    // An operation without parameters refuses them all: a misspelt one would be ignored (contract §12).
    // Probes, scrapers and caches put into an address what they like.
    if (textOf(route) !== null && !isForPrograms(route.url)) {
      route.schema = { querystring: Type.Object({}), ...route.schema };
    }
  });

  const described = new Map<string, DescribedOperation>();
  app.register(swagger, {
    openapi: skeleton(deps),
    stripBasePath: false,
    convertConstToEnum: false,
    transform: ({ schema, url, route }) => {
      const text = textOf(route);
      if (text === null) return { schema: { hide: true }, url };
      described.set(text.id, { text, route: factsOf(route, text) });
      return { schema: describedSchema(schema, route, text, deps), url };
    },
    transformObject: (generated) => {
      assert('openapiObject' in generated, 'the document was asked for as OpenAPI');
      // The library's type says what any document may be; this one began as `skeleton`.
      const document: object = generated.openapiObject;
      const complete: object = completeDocument(document as Document, described);
      return complete;
    },
  });
  app.register(pages(deps));
}

const isOfPages = (url: string): boolean => url === pagesPath || url.startsWith(`${pagesPath}/`);

/** Health, metrics and keys: they take no parameters, and are asked by programs of others. */
const isForPrograms = (url: string): boolean => /^\/(?:livez|readyz|metrics|\.well-known\/.*)$/.test(url);

/** Null: it is left out of the document, as are the HEAD routes that the framework adds to those of GET. */
const textOf = ({ method, config }: RouteOptions): OperationText | null =>
  method !== 'HEAD' && isDescribed(config) ? config : null;

const isDescribed = (config: FastifyContextConfig | undefined): config is OperationText =>
  config?.id !== undefined;

const factsOf = (route: RouteOptions, text: OperationText): DescribedOperation['route'] => ({
  method: must([route.method].flat()[0], 'a route has a method'),
  scope: route.config?.scope ?? null,
  takesOneOfScopes: route.config?.oneOfScopes !== undefined,
  takesAnyScope: route.config?.oneOfScopes === everyScope,
  needsSession: route.config?.credential === 'session',
  isIdempotent: route.config?.creates === true,
  ignoresQuery: isForPrograms(route.url),
  own: text.errors ?? [],
});

/**
 * The pages load nothing from elsewhere, run no inline script, and may be framed by nobody. They may call the
 * control plane from the reader's browser, with the key that the reader types in; sidecars answer no browser.
 */
const pagesPolicy = (server: string): string =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    `connect-src 'self' ${server}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');

function pages({ baseUrl }: Pick<BaseDeps, 'baseUrl'>): FastifyPluginAsync {
  return async (app) => {
    let text: string | null = null;
    app.get('/openapi.json', { config: { scope: null }, schema: { hide: true } }, async (_request, reply) => {
      text ??= JSON.stringify(app.swagger());
      return reply.type('application/json; charset=utf-8').send(text);
    });

    await app.register(async (ui) => {
      ui.addHook('onSend', async (_request, reply) => {
        reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
      });
      await ui.register(swaggerUi, {
        routePrefix: pagesPath,
        staticCSP: pagesPolicy(new URL(baseUrl).origin),
        theme: { title: 'agent-trust API' },
        uiConfig: {
          layout: 'BaseLayout',
          docExpansion: 'list',
          defaultModelsExpandDepth: 0,
          tryItOutEnabled: false,
        },
      });
    });
  };
}

/** What the generator is told of an operation. Refusals are added afterwards, each with its codes. */
function describedSchema(
  schema: FastifySchema | undefined,
  { config }: RouteOptions,
  { id, tag, summary, description, body, contents }: OperationText,
  { gateHost, baseUrl }: Pick<BaseDeps, 'baseUrl' | 'gateHost'>,
): FastifySchema {
  const { response, ...rest } = schema ?? {};
  const answers = typeof response === 'object' && response !== null ? Object.entries(response) : [];
  return {
    ...rest,
    ...(body === undefined ? {} : { body }),
    response: Object.fromEntries(
      contents === undefined ? answers.filter(([status]) => /^\d+$/.test(status)) : [[200, {}]],
    ),
    operationId: id,
    tags: [tag],
    summary,
    description: [description, demandOf(config)].filter((part) => part !== undefined).join('\n\n'),
    security: securityOf(config),
    // The pages call the first of them.
    ...(tag === 'Enforcement' ? { servers: [controlPlaneServer(baseUrl), sidecarServer(gateHost)] } : {}),
  };
}

/** A session opens whatever a key opens, as far as its role goes; some operations take nothing else. */
function securityOf(config: RouteOptions['config']): Record<string, string[]>[] {
  if (config?.credential === 'session') return [{ session: [] }];
  if (config?.oneOfScopes === everyScope) return [{ apiKey: [] }, { session: [] }];
  const scopes = config?.oneOfScopes ?? [config?.scope].filter((scope) => typeof scope === 'string');
  return scopes.length === 0 ? [] : [...scopes.map((scope) => ({ apiKey: [scope] })), { session: [] }];
}

function demandOf(config: RouteOptions['config']): string {
  if (config?.credential === 'session') return 'Needs a browser session.';
  if (config?.oneOfScopes === everyScope) return 'Needs a key, of any scope.';
  if (config?.oneOfScopes !== undefined) {
    const names = config.oneOfScopes.map((scope) => `\`${scope}\``);
    return `Needs a key with one of the scopes ${names.join(', ')}.`;
  }
  if (typeof config?.scope !== 'string') return 'Public: needs no key.';
  const whose = config.operatorOnly === true ? 'a live key of the operator' : 'a key';
  return `Needs ${whose} with the scope \`${config.scope}\`.`;
}

const controlPlaneServer = (baseUrl: string) => ({
  url: baseUrl.replace(/\/v1$/, ''),
  description: 'The control plane.',
});

const sidecarServer = (gateHost: string) => ({
  url: gateHost,
  description: 'A sidecar: the same decisions, close to the caller. It answers no browser.',
});

const skeleton = ({ baseUrl }: Pick<BaseDeps, 'baseUrl'>) => ({
  openapi: '3.1.0',
  info: {
    title: 'agent-trust',
    /** Of the description of the API (contract §12). */
    version: '1.0',
    'x-service-version': packageVersion,
    summary: 'The trust layer for autonomous software agents.',
    description:
      'Agents get passports. Gates decide which agents may do what, for how much. Every decision becomes a signed record.\n\n' +
      'Bodies are JSON of at most 64 KiB; unknown fields are refused, naming the field. Times are ISO 8601 UTC with milliseconds. Ids are a ' +
      'prefix and 26 characters, and sort by time; an id of another account, or of the other mode, is answered like one that does not exist. ' +
      'Every error has the same body, with a code of a closed list.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  servers: [controlPlaneServer(baseUrl)],
  tags: [...tags],
  components: {
    securitySchemes: {
      apiKey: {
        type: 'http' as const,
        scheme: 'bearer',
        bearerFormat: 'at_live_… or at_test_…',
        description: 'An API key. Its scopes say what it may do; live and test keys see separate data.',
      },
      session: {
        type: 'apiKey' as const,
        in: 'cookie',
        name: sessionCookie,
        description:
          'A browser session. The role of its user says what it may do, `X-Agent-Trust-Mode` (`live`, `test`; default `live`) in which world. Every ' +
          'change needs `X-Agent-Trust-Console: 1` and comes from a page of this service. Beside an API key it counts for nothing.',
      },
    },
  },
});
