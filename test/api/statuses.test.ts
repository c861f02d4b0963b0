import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { smtpMailer } from '../../control-plane/channels/mailer.ts';
import { federationLimits } from '../../control-plane/federation/limits.ts';
import type { Document } from '../../control-plane/openapi/document.ts';
import { InvariantError, must } from '../../shared/errors/assert.ts';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { limits } from '../../shared/model/limits.ts';
import { hourMs } from '../../shared/model/time.ts';
import { answerOf, operationsOf } from '../support/data/document.ts';
import { answerRecording } from '../support/data/record-answers.ts';
import { codedError, faultySql } from '../support/database/faulty-sql.ts';
import { startTestProvider, type TestProvider } from '../support/peers/test-provider.ts';
import {
  type Api,
  type ApiOptions,
  type Call,
  documentOf,
  fromConsole,
  type LoggedIn,
  type Reply,
  startOwnApi,
} from '../support/service/api.ts';
import { askApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import {
  beginTotp,
  codeOf,
  type GoodCalls,
  goodCalls,
  liveExample,
  oidcReturn,
} from '../support/service/good-calls.ts';
import { askingRules } from '../support/service/standing-approvals.ts';

/**
 * Every success of every operation of the document, and every code that is its own, is produced here at least
 * once; `Api.call` holds each answer against the document. The codes that an operation has for how it is
 * called are answered before it begins, alike by all operations of its kind: the first of each kind produces
 * them, and whichever needs another request for them than the others.
 * Which scope opens an operation is held for all of them by test/api/scope-matrix.test.ts.
 */
const ofHowItIsCalled: ReadonlySet<ErrorCode> = new Set([
  'invalid_json',
  'invalid_request',
  'body_too_large',
  'unsupported_media_type',
  'unauthorized',
  'account_suspended',
  'insufficient_scope',
  'cross_site_request',
  'rate_limited',
  'internal_error',
  'overloaded',
  'service_unavailable',
]);
interface Documented {
  readonly key: string;
  readonly method: string;
  readonly path: string;
  readonly id: string;
}

const database = faultySql();
/** The one name without https at which there are passkeys. */
const origin = 'http://localhost:8080';
let provider: TestProvider;
let api: Api;
/** Writes what the document shows of answers; null: not this time. */
let recording: ReturnType<typeof answerRecording> | null = null;
let good: GoodCalls;
/**
 * Live `admin:*` keys of accounts that may do nothing, and nothing more today; and one without any scope that
 * guards something.
 */
let suspendedKey: string;
let exhaustedKey: string;
let uselessKey: string;
/** People of those accounts, and one of the operator. */
let suspendedPerson: LoggedIn;
let suspendedLink: string;
let exhaustedPerson: LoggedIn;
let reader: LoggedIn;
let approver: LoggedIn;

beforeAll(async () => {
  provider = await startTestProvider({ origin });
  const mailer = smtpMailer({
    server: { host: '127.0.0.1', port: 9, user: null, password: null, tls: 'none' },
    from: 'approvals@example.com',
  });
  api = await startOwnApi({
    ...{ wrapSql: database.wrap, origin, provider: provider.settings, mailer },
    // Nothing extends the session of the suspended person, and each rotation moves the clock by two minutes.
    sessionIdleMs: 12 * hourMs,
  });
  if (process.env['UPDATE_DOCS'] === '1') recording = answerRecording(documentOf(api.app));
  good = goodCalls(api);
  const suspended = await api.createAccount();
  suspendedKey = suspended.key;
  suspendedPerson = await api.createUser({}, suspendedKey);
  suspendedLink = await inviteFor(suspendedKey);
  const url = `/v1/accounts/${suspended.accountId}`;
  await api.call({ method: 'PUT', url, body: { status: 'suspended' } });
  const exhausted = await api.createAccount();
  exhaustedKey = exhausted.key;
  exhaustedPerson = await api.createUser({}, exhaustedKey);
  const limits = { requests_per_day: 1 };
  await api.call({ method: 'PUT', url: `/v1/accounts/${exhausted.accountId}`, body: { limits } });
  await api.call({ url: '/v1/gates', key: exhaustedKey });
  reader = await api.createUser({ role: 'read_only' });
  approver = await api.createUser({ role: 'approver' });
  await api.createUser({ role: 'approver' });
  uselessKey = (await api.createKey({ scopes: ['osgate:read'] })).key;
});
afterAll(async () => {
  recording?.write();
  await api?.close();
  await provider?.close();
});

/** A success, which the document may show. */
async function succeed(id: string, call: Call): Promise<Reply> {
  const reply = await api.call(call);
  if (reply.status < 300) recording?.note(id, { ...reply, nowMs: api.deps.clock.now() });
  return reply;
}

const goodCall = (id: string): Promise<Call> => must(good[id], `${id} has a good call`)();

/** Successes other than what the good call of an operation answers at once. */
const otherSuccesses: Readonly<Record<string, () => Promise<Reply>>> = {
  'getCatalog 304': async () => {
    const call = await goodCall('getCatalog');
    const { headers } = await api.call(call);
    return api.call({ ...call, headers: { 'if-none-match': String(headers['etag']) } });
  },
  'rotateSigningKey 200': async () => {
    const call = await goodCall('rotateSigningKey');
    await api.call(call);
    return api.call(call);
  },
  'getReadiness 503': () =>
    withFault(codedError('Error', 'ECONNREFUSED'), async () => api.call(await goodCall('getReadiness'))),
};

/** A call to this operation that is answered with this code. */
async function provoke(operation: Documented, code: ErrorCode): Promise<Reply> {
  const own = ownRefusals[`${operation.id} ${code}`] ?? ownRefusals[code];
  if (own !== undefined) return own(operation);
  if (code.endsWith('_not_found'))
    return api.call({ ...(await goodCall(operation.id)), url: nobodys(operation.path) });
  throw new Error(`nothing here makes ${operation.key} answer ${code}: add it to this table`);
}

/** The good call with an id in its body that nothing has. */
const withIdOf =
  (member: string, prefix: string): Refusal =>
  async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, body: { ...(call.body as object), [member]: `${prefix}_${'0'.repeat(26)}` } });
  };

/** The path with an id that nothing has. */
function nobodys(path: string): string {
  const prefix = Object.entries(prefixes).find(([name]) => path.includes(`/${name}/`))?.[1];
  const nothing = '0'.repeat(26);
  return path.replace('{id}', `${prefix}_${nothing}`).replace('{delivery_id}', `dlv_${nothing}`);
}

const prefixes = {
  passports: 'pass',
  gates: 'gate',
  wallets: 'wal',
  'approvals/standing': 'sappr',
  approvals: 'appr',
  attestations: 'att',
  issuers: 'iss',
  templates: 'tmpl',
  'api-keys': 'key',
  accounts: 'acct',
  'mcp-pins': 'mpin',
  channels: 'chan',
  webhooks: 'wh',
  users: 'usr',
  sessions: 'sess',
  passkeys: 'pkey',
};

type Refusal = (operation: Documented) => Promise<Reply>;

/** With that key in place of a key, and that session in place of a session. */
const as =
  (key: () => string | null, person: () => Pick<LoggedIn, 'headers'>): Refusal =>
  async ({ id }) => {
    const call = await goodCall(id);
    if (call.key !== null) return api.call({ ...call, key: key() });
    return api.call({ ...call, headers: person().headers });
  };

const inviteFor = async (key: string): Promise<string> => {
  const body = { email: 'invited@example.com', role: 'read_only' };
  const reply = await api.call({ url: '/v1/users', key, body });
  return new URL(reply.body.invitation_url).hash.slice('#token='.length);
};

/** As a page of another site would send it, with the cookie that the browser adds by itself. */
const fromElsewhere: Refusal = async ({ id }) => {
  const { headers: _, ...call } = await goodCall(id);
  return api.call({ ...call, key: null, headers: { cookie: String(reader.headers['cookie']) } });
};

/** A change that would leave an account without an owner. */
const ofLastOwner =
  (method: string, body?: object): Refusal =>
  async () => {
    const { key } = await api.createAccount();
    const { userId } = await api.createUser({}, key);
    return api.call({ method, url: `/v1/users/${userId}`, key, body });
  };

/** What was done cannot be done again. */
const twice: Refusal = async ({ id }) => {
  const call = await goodCall(id);
  expect((await api.call(call)).status).toBeLessThan(300);
  return api.call(call);
};

/** As many tries as there may be, and one more. */
async function triedTooOften(call: Call): Promise<Reply> {
  for (let tries = 0; tries < 10; tries++) expectError(await api.call(call), 'login_failed');
  return api.call(call);
}

/** At a program of its own. */
async function atAnother(options: ApiOptions, ask: (at: Api) => Promise<Reply>): Promise<Reply> {
  const at = await startOwnApi(options);
  try {
    return await ask(at);
  } finally {
    await at.close();
  }
}

const withBody =
  (body: unknown): Refusal =>
  async ({ id }) =>
    api.call({ ...(await goodCall(id)), body });

const withUrl =
  (url: string): Refusal =>
  async ({ id }) =>
    api.call({ ...(await goodCall(id)), url });

const failing =
  (fault: unknown): Refusal =>
  async ({ id }) => {
    const call = await goodCall(id);
    return withFault(fault, () => api.call(call));
  };

async function withFault(fault: unknown, work: () => Promise<Reply>): Promise<Reply> {
  database.fault = fault;
  try {
    return await work();
  } finally {
    database.fault = null;
  }
}

const inState =
  (state: 'suspend' | 'revoke'): Refusal =>
  async ({ path }) => {
    const url = `/v1/passports/${(await api.issuePassport()).passport_id}`;
    await api.call({ method: 'POST', url: `${url}/${state}` });
    return api.call({ method: 'POST', url: path.replace('/v1/passports/{id}', url) });
  };

/** Of whoever calls, who has as many as there may be. */
async function withTooManyPasskeys(call: Call): Promise<Reply> {
  const { body } = await api.call({ url: '/v1/session', key: null, headers: call.headers ?? {} });
  const { user_id: userId } = body.user;
  await api.deps.sql`
    INSERT INTO passkeys (passkey_id, user_id, credential_id, public_key, counter, transports, name, created_at_ms)
    SELECT ${userId} || n, ${userId}, ${userId} || n, '', 0, '{}', 'More', 0 FROM generate_series(1, 20) AS n`;
  return api.call(call);
}

const withOldTag: Refusal = async ({ id }) => {
  const call = await goodCall(id);
  if (id.startsWith('create')) {
    await api.call(call);
    return api.call({ ...call, headers: { 'if-none-match': '*' } });
  }
  const at = { url: call.url, ...(call.key === undefined ? {} : { key: call.key }) };
  const { headers } = await api.call(at);
  const change = {
    method: id.endsWith('Channel') ? 'PATCH' : 'PUT',
    body: id.endsWith('Gate') ? { description: 'changed meanwhile' } : { name: 'changed meanwhile' },
  };
  await api.call({ ...at, ...change });
  return api.call({ ...call, headers: { 'if-match': String(headers['etag']) } });
};

/** The key of a request at a gate, which stands in the request itself. */
const withKeyOfAnother: Refusal = async ({ id }) => {
  const call = await goodCall(id);
  const { passport, request } = call.body as { passport: string; request: object };
  const asking = (amount: number) =>
    api.call({
      ...call,
      body: { passport, request: { ...request, amount, idempotency_key: `conflict-${id}` } },
    });
  expect((await asking(1)).body.decision).toBe('PERMIT');
  return asking(2);
};

const asExhausted: Refusal = async (operation) => {
  // Where a new day has begun meanwhile, this is its one request.
  await api.call({ url: '/v1/gates', key: exhaustedKey });
  return as(
    () => exhaustedKey,
    () => exhaustedPerson,
  )(operation);
};

const inUnknownMode = (call: Call): Promise<Reply> =>
  api.call({ ...call, headers: { ...call.headers, 'x-agent-trust-mode': 'dead' } });

/** The address of an answer to an approval of a gate with this rule. */
async function answerUrl(id: string, approvals: object): Promise<string> {
  const { gate_id: gateId } = await api.createGate({ constraints: { approvals } });
  const { passport_id: passportId } = await api.issuePassport();
  const { approvalId } = await askApproval(api.deps, { gateId, passportId });
  return `/v1/approvals/${approvalId}/${id === 'denyApproval' ? 'deny' : 'approve'}`;
}
const answerAs = async (id: string, approvals: object, body: object) =>
  api.call({ url: await answerUrl(id, approvals), key: null, headers: approver.headers, body });

/** How each code is produced, for an operation of its own or for every one that has it. */
const ownRefusals: Readonly<Record<string, Refusal>> = {
  unauthorized: as(
    () => null,
    () => ({ headers: fromConsole }),
  ),
  insufficient_scope: as(
    () => uselessKey,
    () => reader,
  ),
  'getWalletStatement wallet_not_found': async ({ id, path }) => {
    const [, query] = (await goodCall(id)).url.split('?');
    return api.call({ url: `${nobodys(path)}?${query}` });
  },
  'issuePassport wallet_not_found': withIdOf('wallet_id', 'wal'),
  'issuePassportUnattended wallet_not_found': withIdOf('wallet_id', 'wal'),
  'createIssuer wallet_not_found': withIdOf('wallet_id', 'wal'),
  'updateIssuer wallet_not_found': withIdOf('wallet_id', 'wal'),
  'createWallet wallet_not_found': withIdOf('parent_wallet_id', 'wal'),
  'updateWallet wallet_not_found': withIdOf('parent_wallet_id', 'wal'),
  'setPassportWallet wallet_not_found': withIdOf('wallet_id', 'wal'),
  'issuePassport issuer_not_found': withIdOf('issuer_id', 'iss'),
  'reactivatePassport issuer_not_found': withIdOf('issuer_id', 'iss'),
  'reactivateOwner issuer_not_found': withIdOf('issuer_id', 'iss'),
  'issuePassportUnattended issuer_not_found': withBody({
    subject: {},
    permissions: [],
    issuer_id: nobodys('/issuers/{id}').split('/').at(-1),
  }),
  'createStandingApproval gate_not_found': withIdOf('gate_id', 'gate'),
  'checkCondition gate_not_found': withIdOf('gate_id', 'gate'),
  'tryToken gate_not_found': withIdOf('gate_id', 'gate'),
  'reportMcpTools gate_not_found': withIdOf('gate_id', 'gate'),
  'createStandingApproval passport_not_found': withIdOf('passport_id', 'pass'),
  'listSessions insufficient_scope': async () =>
    api.call({ url: `/v1/sessions?user_id=${suspendedPerson.userId}`, key: null, headers: reader.headers }),
  'endSession insufficient_scope': async ({ id }) => {
    const { headers } = await api.createUser({ role: 'admin' });
    return api.call({ ...(await goodCall(id)), headers });
  },
  account_suspended: as(
    () => suspendedKey,
    () => suspendedPerson,
  ),
  'logIn account_suspended': async ({ id }) => {
    const { email, password } = suspendedPerson;
    const accountId = (
      await api.deps.sql`SELECT account_id FROM users WHERE user_id = ${suspendedPerson.userId}`
    )[0];
    return api.call({
      ...(await goodCall(id)),
      body: { email, password, account_id: accountId?.['account_id'] },
    });
  },
  'logInWithOidc account_suspended': async () => {
    const [row] = await api.deps.sql`SELECT account_id FROM users WHERE user_id = ${suspendedPerson.userId}`;
    const { email } = suspendedPerson;
    const person = { sub: 'suspended', email, email_verified: true };
    return api.call(await oidcReturn(api, person, { account_id: row?.['account_id'] }));
  },
  'logInWithOidc login_failed': async () =>
    api.call(await oidcReturn(api, { sub: 'nobody', email: 'nobody@example.com', email_verified: true })),
  'logInWithPasskey account_suspended': async ({ id }) => {
    const call = await goodCall(id);
    const [passkey] = await api.deps.sql`SELECT account_id, user_id FROM users WHERE user_id IN (
      SELECT user_id FROM passkeys ORDER BY passkey_id DESC LIMIT 1)`;
    const setStatus = (status: string) =>
      api.deps.sql`UPDATE accounts SET status = ${status} WHERE account_id = ${passkey?.['account_id']}`;
    await setStatus('suspended');
    const reply = await api.call(call);
    await setStatus('active');
    return reply;
  },
  'logInWithPasskey login_failed': async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, headers: fromConsole });
  },
  'logInWithPasskey rate_limited': async () => {
    const { headers } = await api.createUser();
    const call = { url: '/v1/session/passkey', key: null, headers, body: { response: {} } };
    return triedTooOften(call);
  },
  'beginPasskey user_state_conflict': async ({ id }) => withTooManyPasskeys(await goodCall(id)),
  'addPasskey user_state_conflict': async ({ id }) => withTooManyPasskeys(await goodCall(id)),
  'removePasskey user_state_conflict': async ({ id }) => {
    const call = await goodCall(id);
    await api.deps.sql`UPDATE users SET password_hash = NULL WHERE user_id IN (
      SELECT user_id FROM passkeys WHERE passkey_id = ${call.url.split('/').at(-1) ?? ''})`;
    return api.call(call);
  },
  'acceptInvitation account_suspended': async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, body: { ...(call.body as object), token: suspendedLink } });
  },
  rate_limited: asExhausted,
  'logIn rate_limited': async ({ id }) => {
    const call = {
      ...(await goodCall(id)),
      body: { email: 'somebody@example.com', password: 'not the password' },
    };
    return triedTooOften(call);
  },
  // Elsewhere, because the limit is that of the address.
  'receiveSecurityEvent rate_limited': async ({ id }) => {
    const call = { ...(await goodCall(id)), body: 'no token' };
    return atAnother({}, async (at) => {
      for (let tries = 0; tries < federationLimits.eventsPerMinuteMax; tries++) await at.call(call);
      return at.call(call);
    });
  },
  // In a browser that was there before, so that only its own tries are used up.
  'logInWithOidc rate_limited': async () => {
    const { headers } = await api.createUser();
    const body = { code: 'guessed', state: 'guessed' };
    const call = { url: '/v1/session/oidc', key: null, headers, body };
    return triedTooOften(call);
  },
  'beginOidcLogin service_unavailable': async ({ id }) => {
    const away = await startTestProvider();
    away.state = 'away';
    const call = await goodCall(id);
    const reply = await atAnother({ provider: away.settings }, (at) => at.call(call));
    await away.close();
    return reply;
  },
  'createChannel gate_not_found': withIdOf('gate_id', 'gate'),
  cross_site_request: fromElsewhere,
  login_failed: async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, body: { ...(call.body as object), password: 'not the password' } });
  },
  totp_required: async ({ id }) => {
    const person = await api.createUser();
    const { email, password } = person;
    const code = codeOf(await beginTotp(api, person), api.deps.clock.now());
    const { headers } = person;
    await api.call({ url: '/v1/users/me/totp/confirm', key: null, headers, body: { code } });
    return api.call({ ...(await goodCall(id)), body: { email, password } });
  },
  'beginTotp user_state_conflict': async () => {
    const { headers = {}, ...confirm } = await goodCall('confirmTotp');
    await api.call({ ...confirm, headers });
    return api.call({ method: 'POST', url: '/v1/users/me/totp', key: null, headers });
  },
  'confirmTotp user_state_conflict': twice,
  invitation_not_found: async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, body: { ...(call.body as object), token: 'nothing' } });
  },
  'listSessions user_not_found': withUrl(`/v1/sessions?user_id=usr_${'0'.repeat(26)}`),
  email_conflict: twice,
  'createChannel channel_name_conflict': twice,
  'updateChannel channel_name_conflict': async ({ id }) => {
    const call = await goodCall(id);
    const other = { name: 'other', kind: 'webhook', target: 'https://hooks.example.com/' };
    expect((await api.call({ ...call, method: 'POST', url: '/v1/channels', body: other })).status).toBe(201);
    return api.call({ ...call, body: { name: 'other' } });
  },
  'updateUser last_owner': ofLastOwner('PATCH', { status: 'disabled' }),
  'deleteUser last_owner': ofLastOwner('DELETE'),
  // Of a record that no pass over the chains has seen yet.
  proof_not_ready: async () => {
    const { url } = await goodCall('getAttestation');
    return api.call({ url: `${url}/proof` });
  },
  user_state_conflict: async () => api.call({ method: 'POST', url: `/v1/users/${reader.userId}/invitation` }),
  internal_error: failing(new InvariantError('what a test breaks')),
  overloaded: failing(codedError('PostgresError', '53300')),
  service_unavailable: failing(codedError('Error', 'ECONNREFUSED')),
  invalid_json: withBody('{'),
  body_too_large: withBody(' '.repeat(limits.bodyBytesMax + 1)),
  unsupported_media_type: async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, headers: { ...call.headers, 'content-encoding': 'gzip' } });
  },
  // A good call of this operation logs in once more, and a user has so many sessions and no more.
  'endSession unsupported_media_type': async () => {
    const call = await goodCall('getSession');
    return api.call({
      ...call,
      method: 'DELETE',
      url: `/v1/sessions/sess_${'0'.repeat(26)}`,
      headers: { ...call.headers, 'content-encoding': 'gzip' },
    });
  },
  'checkGateBatch body_too_large': withBody(' '.repeat(limits.batchBodyBytesMax + 1)),
  'reportMcpTools body_too_large': withBody(' '.repeat(2 * limits.mcpReportBytesMax + 1)),
  invalid_request: async ({ id, path, method }) => {
    const call = await goodCall(id);
    if (path.includes('{id}')) return api.call({ ...call, url: path.replace('{id}', '%00') });
    if (method === 'GET') return api.call({ ...call, url: `${path}?limit=none` });
    return api.call({ ...call, body: { nonsense: true } });
  },
  'getSession invalid_request': async ({ id }) => inUnknownMode(await goodCall(id)),
  'streamEvents invalid_request': async ({ id }) => {
    const { headers } = await api.createUser({ role: 'read_only' });
    return inUnknownMode({ ...(await goodCall(id)), key: null, headers });
  },
  'getGateUsage passport_not_found': async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, url: `${call.url}?passport_id=pass_0` });
  },
  'getDecisionStatistics gate_not_found': withUrl('/v1/statistics/decisions?gate_id=gate_0'),
  // Where its name has no https, there are no passkeys.
  'beginPasskeyLogin invalid_request': () =>
    atAnother({}, (at) =>
      at.call({ method: 'POST', url: '/v1/session/passkey/begin', key: null, headers: fromConsole }),
    ),
  'logOut invalid_request': async ({ id }) => inUnknownMode(await goodCall(id)),
  idempotency_conflict: async ({ id }) => {
    const first = await goodCall(id);
    // Another body to the same address.
    const second = { ...(await goodCall(id)), url: first.url };
    const headers = { 'idempotency-key': `conflict-${id}` };
    expect((await api.call({ ...first, headers })).status).toBe(201);
    return api.call({ ...second, headers });
  },
  'refundPermit idempotency_conflict': async ({ id }) => {
    const call = await goodCall(id);
    const headers = { 'idempotency-key': `conflict-${id}` };
    expect((await api.call({ ...call, headers })).status).toBe(201);
    return api.call({ ...call, body: { amount: 2 }, headers });
  },
  'extendHold hold_not_found': async () => {
    const { url } = await goodCall('refundPermit');
    return api.call({ url: url.replace('/refund', '/hold/extend'), body: { expires_in_s: 7_200 } });
  },
  'extendHold outcome_conflict': async () => {
    const call = await goodCall('extendHold');
    await api.call({ url: call.url.replace('/hold/extend', '/outcome'), body: { outcome: 'served' } });
    return api.call(call);
  },
  'reportOutcome outcome_conflict': async () => {
    const call = await goodCall('reportOutcome');
    expect((await api.call(call)).status).toBe(200);
    return api.call({ ...call, body: { outcome: 'failed' } });
  },
  'reportOutcome amount_exceeds_hold': async () => {
    const { url } = await goodCall('extendHold');
    const body = { outcome: 'served', amount: 1_000 };
    return api.call({ url: url.replace('/hold/extend', '/outcome'), body });
  },
  'reportOutcome spend_limit_exceeded': async () => {
    const constraints = { spend_limits: { daily_usd: 3 }, holds: { overrun: 'charge' } };
    const { gate_id } = await api.createGate({ constraints });
    const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
    const request = { permission_key: 'orders:create', amount: 2, hold: true };
    const held = await api.call({ url: `/v1/gates/${gate_id}/check`, body: { passport: jwt, request } });
    const body = { outcome: 'served', amount: 4 };
    return api.call({ url: `/v1/attestations/${held.body.attestation_id}/outcome`, body });
  },
  'refundPermit outcome_conflict': async () => {
    // What is held is settled first.
    const { url } = await goodCall('extendHold');
    return api.call({ url: url.replace('/hold/extend', '/refund'), body: { amount: 1 } });
  },
  'refundPermit amount_exceeds_hold': async () =>
    api.call({ ...(await goodCall('refundPermit')), body: { amount: 1_000 } }),
  'checkGate idempotency_conflict': withKeyOfAnother,
  'enforce idempotency_conflict': withKeyOfAnother,
  agent_id_conflict: async ({ id }) => {
    const { agent_id } = await api.issuePassport();
    const call = await goodCall(id);
    return api.call({ ...call, body: { ...(call.body as object), agent_id } });
  },
  'reactivatePassport agent_id_conflict': async () => {
    const { body: revoked } = await api.call(await goodCall('revokeSubject'));
    const { agent_id } = (await api.call({ url: `/v1/passports/${revoked.passport_id}` })).body;
    await api.issuePassport({ agent_id });
    return api.call({ url: `/v1/passports/${revoked.passport_id}/reactivate`, body: {} });
  },
  'suspendPassport passport_state_conflict': inState('revoke'),
  'reactivatePassport passport_state_conflict': inState('revoke'),
  'setPassportWallet passport_state_conflict': async ({ id }) => {
    const call = await goodCall(id);
    await api.call({ url: call.url.replace('/wallet', '/revoke'), body: {} });
    return api.call(call);
  },
  approval_already_resolved: twice,
  not_an_approver: async ({ id }) =>
    api.call({ method: 'POST', url: await answerUrl(id, { approvers: {} }) }),
  passkey_required: async ({ id }) => answerAs(id, { passkey: true }, {}),
  passkey_refused: async ({ id }) => answerAs(id, { passkey: true }, { assertion: { id: 'none' } }),
  approval_already_answered: async ({ id }) => {
    const url = await answerUrl(id, { approvers: { count: 2 } });
    const headers = approver.headers;
    const first = url.replace(/deny$/, 'approve');
    expect((await api.call({ method: 'POST', url: first, key: null, headers })).status).toBe(200);
    return api.call({ method: 'POST', url, key: null, headers });
  },
  'createStandingApproval not_an_approver': async () => {
    const call = await goodCall('createStandingApproval');
    const gate = await api.createGate({ constraints: { approvals: { above_usd: 1, approvers: {} } } });
    return api.call({ ...call, body: { ...(call.body as object), gate_id: gate.gate_id } });
  },
  mcp_pin_state_conflict: async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, body: { hash: `sha256:${'0'.repeat(64)}` } });
  },
  mcp_pins_full: async ({ id }) => {
    const call = await goodCall(id);
    const body = call.body as object;
    const replies: Reply[] = [];
    for (let n = 0; n < 17; n += 1) {
      replies.push(await api.call({ ...call, body: { ...body, upstream: `stdio:server-${n}` } }));
    }
    return must(replies.at(-1), 'there are calls');
  },
  precondition_failed: withOldTag,
  'resendDelivery delivery_not_found': async ({ id }) => {
    const call = await goodCall(id);
    return api.call({ ...call, url: call.url.replace(/dlv_\w+/, `dlv_${'0'.repeat(26)}`) });
  },
  'createGate template_not_found': withBody({ name: 'a', template_id: 'no-such-template' }),
  'enforce gate_not_found': withBody({
    passport: '',
    request: { gate_id: nobodys('/gates/{id}').split('/').at(-1) },
  }),
  'getPolicy policy_not_found': async () => api.call({ url: `/v1/policies/sha256:${'0'.repeat(64)}` }),
  'startBacktest backtest_running': async () => {
    const { key } = await api.createAccount();
    const { gate_id } = await api.createGate({}, key);
    const call = { url: `/v1/gates/${gate_id}/backtest`, body: {}, key };
    await api.call(call);
    return api.call(call);
  },
  'getShadow shadow_not_found': async () =>
    api.call({ url: `/v1/gates/${(await api.createGate()).gate_id}/shadow` }),
  'getShadowReport shadow_not_found': async () =>
    api.call({ url: `/v1/gates/${(await api.createGate()).gate_id}/shadow/report` }),
  'promoteShadow precondition_failed': async ({ id }) =>
    api.call({ ...(await goodCall(id)), headers: { 'if-match': '"0"' } }),
  'promoteShadow shadow_not_found': async () =>
    api.call({
      method: 'POST',
      url: `/v1/gates/${(await api.createGate()).gate_id}/shadow/promote`,
      headers: { 'if-match': '*' },
    }),
  'deleteShadow shadow_not_found': async () =>
    api.call({ method: 'DELETE', url: `/v1/gates/${(await api.createGate()).gate_id}/shadow` }),
  'getCatalog catalog_not_found': async () => {
    const { gate_id } = await api.createGate();
    return api.call({ url: `/v1/gates/${gate_id}/catalog`, key: null });
  },
};

const kinds = new Set<string>();
const document: Document = JSON.parse(
  readFileSync(new URL('../../docs/openapi.json', import.meta.url), 'utf8'),
);
const documented = operationsOf(document).map(({ key, method, path, operation }) => {
  const statuses = Object.keys(operation.responses);
  const codesOf = (status: string) =>
    (answerOf(document, operation, status)?.['x-error-codes'] ?? []) as ErrorCode[];
  const codes = statuses.flatMap(codesOf);
  const shared = codes.filter((code) => ofHowItIsCalled.has(code));
  const kind = JSON.stringify([method === 'GET', operation.security.map(Object.keys), shared]);
  const isFirst = !kinds.has(kind);
  kinds.add(kind);
  return {
    key,
    method,
    path,
    id: operation.operationId,
    examples: Object.entries(operation.requestBody?.content['application/json']?.examples ?? {}),
    successes: statuses.filter((status) => codesOf(status).length === 0).map(Number),
    codes: codes.filter(
      (code) =>
        isFirst ||
        !ofHowItIsCalled.has(code) ||
        ownRefusals[`${operation.operationId} ${code}`] !== undefined,
    ),
  };
});

describe.each(documented)('$key', (operation) => {
  it.each(operation.successes)('answers %i', async (status) => {
    const other = otherSuccesses[`${operation.id} ${status}`];
    const reply =
      other === undefined ? await succeed(operation.id, await goodCall(operation.id)) : await other();
    expect(reply.status, JSON.stringify(reply.body)).toBe(status);
  });

  it.each(operation.codes)('answers %s', async (code) => {
    const reply = await provoke(operation, code);
    expectError(reply, code, reply.body.error?.param);
  });
});

it('takes every example of the document', async () => {
  for (const { id, examples } of documented) {
    for (const [name, { value }] of examples) {
      const call = { ...(await goodCall(id)), body: await liveExample(api, value) };
      const reply = await succeed(id, call);
      expect(reply.status, `${id} ${name}: ${JSON.stringify(reply.body)}`).toBeLessThan(300);
      if (id === 'rotateSigningKey') api.advance(120_000);
    }
  }
});

it.each([
  ['BLOCK', { spend_limits: { per_transaction_usd: 1 } }],
  ['SUSPEND', askingRules],
])('answers a check with %s', async (decision, constraints) => {
  const { body } = await goodCall('checkGate');
  const request = { permission_key: 'orders:create', amount: 250 };
  const url = `/v1/gates/${(await api.createGate({ constraints })).gate_id}/check`;
  const reply = await succeed('checkGate', { url, body: { ...(body as object), request } });
  expect(reply.body.decision).toBe(decision);
});

it('has nothing that the document lacks', () => {
  const successes = documented.flatMap(({ id, successes }) => successes.map((status) => `${id} ${status}`));
  const refusals = documented.flatMap(({ id, codes }) => codes.flatMap((code) => [code, `${id} ${code}`]));
  expect(Object.keys(otherSuccesses).filter((name) => !successes.includes(name))).toEqual([]);
  expect(Object.keys(ownRefusals).filter((name) => !refusals.includes(name))).toEqual([]);
  expect(Object.keys(good).toSorted()).toEqual(documented.map(({ id }) => id).toSorted());
});
