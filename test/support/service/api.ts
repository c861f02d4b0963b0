import { text } from 'node:stream/consumers';
import type { FastifyInstance, FastifyReply } from 'fastify';
import { Registry } from 'prom-client';
import { ensureFirstAccount } from '../../../control-plane/accounts/ensure-first-account.ts';
import { decisionSlots } from '../../../control-plane/admission/decision-slots.ts';
import { build } from '../../../control-plane/app.ts';
import { connectionShares } from '../../../control-plane/base/connection-shares.ts';
import type { Database } from '../../../control-plane/base/database.ts';
import type { Mailer } from '../../../control-plane/channels/mailer.ts';
import type { ConsoleFiles } from '../../../control-plane/console/served-file.ts';
import { CheckQueue } from '../../../control-plane/decisions/check-queue.ts';
import { decisionsLimits } from '../../../control-plane/decisions/limits.ts';
import { voidQueue } from '../../../control-plane/decisions/void-queue.ts';
import type { Deps } from '../../../control-plane/deps.ts';
import { discoveryShare } from '../../../control-plane/discovery/deps.ts';
import { publishHintsOf } from '../../../control-plane/events/note-hints.ts';
import { hintPublisher } from '../../../control-plane/events/publish-hints.ts';
import {
  type IdentityProviderSettings,
  identityProvider,
} from '../../../control-plane/oidc/identity-provider.ts';
import type { Document } from '../../../control-plane/openapi/document.ts';
import { type GuardedFetchOptions, guardedFetch } from '../../../control-plane/outbox/guarded-fetch.ts';
import { loginAttempts } from '../../../control-plane/people/login-attempts.ts';
import { type PasswordCost, passwordHasher } from '../../../control-plane/people/passwords.ts';
import { recordProjections } from '../../../control-plane/record-projections.ts';
import { loadSigningKeys } from '../../../control-plane/signing/load-signing-keys.ts';
import { inProcessBus } from '../../../shared/bus/in-process.ts';
import { apiKeyRandomBytes, makeApiKey } from '../../../shared/crypto/api-key.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { sealer } from '../../../shared/crypto/seal.ts';
import type { WitnessPolicy } from '../../../shared/log/witness-policy.ts';
import type { RecordForm } from '../../../shared/model/attestation.ts';
import { limits } from '../../../shared/model/limits.ts';
import { hourMs, minuteMs, type UnixMillis } from '../../../shared/model/time.ts';
import type { Role } from '../../../shared/model/user.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { type Logger, silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import { RetryWaits } from '../../../shared/runtime/retry-waits.ts';
import { countCost } from '../base/costs.ts';
import { type Answered, answerHolderOf } from '../data/document.ts';
import { testDatabase } from '../database/postgres.ts';

export interface Call {
  readonly method?: string;
  /** With `/v1`. */
  readonly url: string;
  /** Absent: the admin key of this account. Null: no key. */
  readonly key?: string | null;
  /**
   * An object is sent as JSON, a string or bytes as they are; both as `application/json` unless `headers` say
   * otherwise.
   */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Reply {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member in tests
  readonly body: any;
  readonly headers: Readonly<Record<string, unknown>>;
}

/** A user with a browser session. */
export interface LoggedIn {
  readonly userId: string;
  readonly email: string;
  readonly password: string;
  readonly sessionId: string;
  /** Of every request of their browser, as our own pages make it. */
  readonly headers: Readonly<Record<string, string>>;
}

/** What a browser adds to a change that one of our own pages makes. */
export const fromConsole = { 'x-agent-trust-console': '1', 'sec-fetch-site': 'same-origin' } as const;

/** The cookies that an answer sets, as the next request carries them. */
export const cookiesOf = ({ headers }: Pick<Reply, 'headers'>): string =>
  [headers['set-cookie']]
    .flat()
    .map((each) => String(each).split(';', 1)[0])
    .join('; ');

/** A control plane in this process, as one account uses it. */
export interface Api {
  readonly app: FastifyInstance;
  readonly deps: Deps;
  /** For a further pool on its database. */
  readonly databaseUrl: string;
  /** Live, `admin:*`, of this account: the operator's in a control plane of its own. */
  readonly adminKey: string;
  /** Live, `admin:*`, of the operator, who makes, suspends and changes accounts. */
  readonly operatorKey: string;
  call(call: Call): Promise<Reply>;
  /** Another account; `key` is live and `admin:*`. */
  createAccount(body?: object): Promise<{ readonly accountId: string; readonly key: string }>;
  /** A further key of the account whose admin key is given (default: this one's). */
  createKey(body: object, key?: string): Promise<{ readonly keyId: string; readonly key: string }>;
  /** The whole answer. `agent_id` is new each time unless given. */
  issuePassport(body?: object, key?: string): Promise<Reply['body']>;
  createGate(body?: object, key?: string): Promise<Reply['body']>;
  createIssuer(body?: object, key?: string): Promise<Reply['body']>;
  /** Somebody who has accepted an invitation, is confirmed and logged in, of the account of the admin key. */
  createUser(
    wanted?: { readonly email?: string; readonly role?: Role; readonly password?: string },
    key?: string,
  ): Promise<LoggedIn>;
  /** What has been told to the sidecars in this feed: `global`, or the id of an account. Oldest first. */
  changes(feedId: string): Promise<readonly { readonly kind: string; readonly body: Reply['body'] }[]>;
  /** Moves the control plane's clock forward. */
  advance(durationMs: number): void;
  /** From now on that clock stands still but for `advance`. */
  stopClock(): void;
  /** Ends what is this caller's: all of it, or its account's part of the shared control plane. */
  close(): Promise<void>;
}

/** What one control plane in this process is to all accounts in it. */
interface Service
  extends Pick<Api, 'app' | 'deps' | 'databaseUrl' | 'operatorKey' | 'advance' | 'stopClock' | 'close'> {
  send(call: Call & { readonly key: string | null }): Promise<Reply>;
  /**
   * Throws what the files before have left unsaid: answers that fit no document, locks out of order, windows
   * out of balance.
   */
  throwMisfit(): Promise<void>;
  /** Its clock was moved: what comes next would see another time. */
  readonly isMoved: boolean;
}

export interface ApiOptions {
  /** Of new records. Default: 2. */
  readonly recordForm?: RecordForm;
  readonly logger?: Logger;
  /** What the control plane is to use instead of the test's own pool, from its first request on. */
  readonly wrapSql?: (sql: Database) => Database;
  /** Whom it may call; default as in production. */
  readonly outbound?: GuardedFetchOptions;
  /** Default: no mail server is set. */
  readonly mailer?: Mailer;
  /** Default: the log has no witnesses. */
  readonly witnesses?: WitnessPolicy;
  /** Default as in production. */
  readonly opensToolsToKeys?: boolean;
  /** With which people can log in; reached on loopback. Default: none. */
  readonly provider?: IdentityProviderSettings;
  /** Where it is reached. Default: the address of no socket. */
  readonly origin?: string;
  /** Default: the console is not built. */
  readonly consoleFiles?: ConsoleFiles;
  /** Whether its database sorts text as in Danish. Default: by its bytes. */
  readonly isDanish?: boolean;
  /** See TestDatabaseOptions. */
  readonly isDamaged?: boolean;
  /** Default: a random one. */
  readonly masterKey?: Uint8Array;
  /** When a session without a request ends. Default as in production. */
  readonly sessionIdleMs?: number;
  /** Default: next to none. In production each hash takes a fifth of a second of a core. */
  readonly passwordCost?: PasswordCost;
}

const cheapPasswords: PasswordCost = { logN: 4, r: 8, p: 1 };

/** A control plane of its own, on a fresh database, as its operator uses it. */
export async function startOwnApi(options: ApiOptions = {}): Promise<Api> {
  const service = await startService(options);
  return asAccount(service, service.operatorKey, () => service.close());
}

/**
 * A new account in the control plane that all files of a worker share, which may call loopback. Whoever looks
 * at whole tables, changes what belongs to no account (signing keys, the log, the operator's settings) or
 * needs other options, starts its own. One whose clock was moved is closed after its user.
 */
export async function startApi(): Promise<Api> {
  shared ??= startService({ outbound: { allowPrivate: true } });
  const service = await shared;
  const account = { name: 'Account of a test', plan: 'enterprise' };
  const made = await service.send({
    method: 'POST',
    url: '/v1/accounts',
    key: service.operatorKey,
    body: account,
  });
  return asAccount(service, made.body.api_key.key, async () => {
    if (!service.isMoved) return service.throwMisfit();
    shared = null;
    await service.close();
  });
}
let shared: Promise<Service> | null = null;

async function startService(options: ApiOptions): Promise<Service> {
  countCost('services');
  const logger = options.logger ?? silentLogger;
  const database = await testDatabase(options);
  let aheadMs = 0;
  let stoppedAtMs: UnixMillis | null = null;
  const clock = {
    now: () => ((stoppedAtMs ?? systemClock.now()) + aheadMs) as UnixMillis,
    monotonic: systemClock.monotonic,
  };
  const random = systemRandom();
  const ed25519 = chooseEd25519();
  const { sql } = database;
  const masterSealer = sealer(options.masterKey ?? random.bytes(32));
  const signingKeys = await loadSigningKeys({ sql, clock, random, ed25519, sealer: masterSealer });
  const bus = inProcessBus(logger);
  publishHintsOf(sql, hintPublisher(bus));
  const recordForm = () => options.recordForm ?? 2;
  const appending = { isStopped: false, projections: recordProjections, recordForm };
  const baseUrl = `${options.origin ?? 'http://127.0.0.1:8080'}/v1`;
  const voids = voidQueue({ sql, clock, random, baseUrl, signingKeys, appending, logger });
  const providerCalls = guardedFetch({ allowPrivate: true });
  const shares = connectionShares(limits.databaseConnectionsMax);
  const slots = decisionSlots(shares.decisions);
  const deps: Deps = {
    sql,
    clock,
    random,
    bus,
    logger,
    metrics: new Registry(),
    tracer: null,
    ed25519,
    signingKeys,
    appending,
    draining: { isDraining: false },
    shares,
    slots,
    checks: new CheckQueue({ slots, clock }),
    retryWaits: new RetryWaits({ clock, random }, decisionsLimits.retries),
    discoveries: discoveryShare(shares.discoveries),
    voidQueue: voids,
    sealer: masterSealer,
    outbound: guardedFetch(options.outbound ?? { allowPrivate: false }),
    mailer: options.mailer ?? null,
    witnesses: options.witnesses ?? null,
    consoleFiles: options.consoleFiles ?? new Map(),
    passwords: passwordHasher(random, options.passwordCost ?? cheapPasswords),
    loginAttempts: loginAttempts({ sql, clock, logger }),
    identityProvider:
      options.provider === undefined
        ? null
        : identityProvider(options.provider, { outbound: providerCalls, clock }),
    sessionTimes: { idleMs: options.sessionIdleMs ?? 30 * minuteMs, totalMs: 12 * hourMs },
    baseUrl,
    opensToolsToKeys: options.opensToolsToKeys ?? false,
    gateHost: 'http://127.0.0.1:8090',
    replicaId: 'replica-of-a-test',
  };
  const adminKey = makeApiKey('live', random.bytes(apiKeyRandomBytes));
  // Nothing is read from or written to the folder where the key is given.
  await ensureFirstAccount(deps, { dataDir: '/nowhere', adminApiKey: adminKey });
  const app = build(options.wrapSql === undefined ? deps : { ...deps, sql: options.wrapSql(sql) });
  const held = holdAnswers(app, () => documentText(app, deps));
  await app.ready();

  const send: Service['send'] = async ({ method, url, key, body, headers = {} }) => {
    countCost('requests');
    const isRaw = typeof body === 'string' || body instanceof Uint8Array;
    const asked = method ?? (body === undefined ? 'GET' : 'POST');
    const isEndless = pathOf(url) === '/v1/events';
    const response = await app.inject({
      // The names that inject knows are a subset of the ones a test may want to send.
      method: asked as 'GET',
      url,
      headers: {
        ...(key === null ? {} : { authorization: `Bearer ${key}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { payload: isRaw ? Buffer.from(body) : JSON.stringify(body) }),
      payloadAsStream: isEndless,
    });
    const isJson = String(response.headers['content-type']).startsWith('application/json');
    // Of what never ends, its head is the answer.
    const payload = isEndless ? (isJson ? await text(response.stream()) : '') : response.payload;
    // As a client that hangs up: only then the service ends its stream.
    if (isEndless && !isJson) response.raw.res.destroy();
    const reply = {
      status: response.statusCode,
      body: isJson && payload !== '' ? JSON.parse(payload) : payload,
      headers: response.headers,
    };
    // Once more here, because what was streamed is whole only now.
    const seen = asked === 'HEAD' ? null : { json: reply.body };
    held.hold({
      ...reply,
      method: asked,
      path: pathOf(isEndless ? url : (response.raw.req.url ?? url)),
      body: seen,
    });
    held.throwMisfit();
    return reply;
  };

  return {
    app,
    deps,
    databaseUrl: database.url,
    operatorKey: adminKey,
    send,
    throwMisfit: async () => {
      held.throwMisfit();
      await database.throwFault();
    },
    get isMoved() {
      return aheadMs > 0 || stoppedAtMs !== null;
    },
    advance: (durationMs) => {
      aheadMs += durationMs;
    },
    stopClock: () => {
      stoppedAtMs = systemClock.now();
    },
    close: async () => {
      await app.close();
      await deps.outbound.close();
      await providerCalls.close();
      await bus.close();
      await database.drop();
      held.throwMisfit();
    },
  };
}

/** The service as the account of this admin key uses it. */
function asAccount(service: Service, adminKey: string, close: () => Promise<void>): Api {
  const call: Api['call'] = ({ key = adminKey, ...rest }) => service.send({ key, ...rest });

  const create = async (url: string, body: object, key: string): Promise<Reply['body']> => {
    const reply = await call({ method: 'POST', url, key, body });
    if (reply.status !== 201) throw new Error(`POST ${url}: ${reply.status} ${JSON.stringify(reply.body)}`);
    return reply.body;
  };

  const createUser: Api['createUser'] = async (
    { email, role = 'owner', password: chosen } = {},
    key = adminKey,
  ) => {
    users += 1;
    const address = email ?? `user-${users}@example.com`;
    const password = chosen ?? `the password of user ${users}`;
    const invited = await create('/v1/users', { email: address, role }, key);
    const token = new URL(invited.invitation_url).hash.slice('#token='.length);
    const reply = await call({
      url: '/v1/invitations/accept',
      key: null,
      headers: fromConsole,
      body: { token, name: 'Somebody', password },
    });
    if (reply.status !== 200) throw new Error(`accepting: ${JSON.stringify(reply.body)}`);
    // As another person would who knows them.
    await service.deps.sql`
      UPDATE users SET confirmed_at_ms = accepted_at_ms WHERE user_id = ${reply.body.user.user_id}`;
    return {
      userId: reply.body.user.user_id,
      email: address,
      password,
      sessionId: reply.body.session_id,
      headers: { ...fromConsole, cookie: cookiesOf(reply) },
    };
  };

  let agents = 0;
  return {
    app: service.app,
    deps: service.deps,
    databaseUrl: service.databaseUrl,
    adminKey,
    operatorKey: service.operatorKey,
    call,
    createAccount: async (body = {}) => {
      const wanted = { name: 'Other', plan: 'enterprise', ...body };
      const answer = await create('/v1/accounts', wanted, service.operatorKey);
      return { accountId: answer.account_id, key: answer.api_key.key };
    },
    createKey: async (body, key = adminKey) => {
      const answer = await create('/v1/api-keys', { name: 'key of a test', ...body }, key);
      return { keyId: answer.key_id, key: answer.key };
    },
    issuePassport: (body = {}, key = adminKey) => {
      agents += 1;
      const defaults = 'subject' in body ? {} : { agent_id: `agent-${agents}` };
      return create('/v1/passports', { ...defaults, permissions: ['orders:create'], ...body }, key);
    },
    createGate: (body = {}, key = adminKey) =>
      create('/v1/gates', { name: 'Orders', trust_level: 'L1', ...body }, key),
    createIssuer: (body = {}, key = adminKey) => create('/v1/issuers', { name: 'Acme', ...body }, key),
    createUser,
    changes: (feedId) =>
      service.deps.sql`SELECT kind, body FROM changes WHERE feed_id = ${feedId} ORDER BY revision`,
    advance: (durationMs) => service.advance(durationMs),
    stopClock: () => service.stopClock(),
    close,
  };
}

/** In addresses of people, which may be theirs in one account alone. */
let users = 0;

/**
 * Every answer of every test is held against the published document, whether it leaves by `call` or on a
 * socket: a status, content type, error code or field that the document does not have fails the test, at the
 * call or when the API is closed.
 */
function holdAnswers(
  app: FastifyInstance,
  text: () => string,
): { hold(answered: Answered): void; throwMisfit(): void } {
  const misfits: unknown[] = [];
  let holder: ((answered: Answered) => void) | null = null;
  const hold = (answered: Answered): void => {
    holder ??= answerHolderOf(text());
    try {
      holder(answered);
    } catch (misfit) {
      misfits.push(misfit);
    }
  };
  app.addHook('onSend', async (request, reply, payload) => {
    const body = readPayload(reply, payload);
    hold({
      method: request.method,
      path: pathOf(request.url),
      status: reply.statusCode,
      headers: reply.getHeaders(),
      body,
    });
    return payload;
  });
  return {
    hold,
    throwMisfit: () => {
      const [misfit] = misfits.splice(0);
      if (misfit !== undefined) throw misfit;
    },
  };
}

/**
 * The document of this API, generated once for all files of a worker and each set of what changes it: a
 * quarter of what an API of a test takes. Bounded by the sets that tests use.
 */
function documentText(app: FastifyInstance, { baseUrl, gateHost, opensToolsToKeys }: Deps): string {
  const key = JSON.stringify([baseUrl, gateHost, opensToolsToKeys]);
  const text = documentTexts.get(key) ?? JSON.stringify(app.swagger());
  documentTexts.set(key, text);
  return text;
}
const documentTexts = new Map<string, string>();

const pathOf = (url: string): string => url.split('?', 1)[0] ?? '';

/** As `/openapi.json` answers it. */
export const documentOf = (app: FastifyInstance): Document => JSON.parse(JSON.stringify(app.swagger()));

/** A stream is not looked into, and JSON that is none is as good as no field at all. */
function readPayload(reply: FastifyReply, payload: unknown): { readonly json: unknown } | null {
  if (typeof payload !== 'string') return null;
  const isJson = String(reply.getHeader('content-type')).startsWith('application/json');
  return { json: isJson ? JSON.parse(payload) : payload };
}
