import { Registry } from 'prom-client';
import { exampleIds, exampleLogin } from '../../../control-plane/http/example-ids.ts';
import { LogWriter } from '../../../control-plane/log/keep-log.ts';
import { totpCode } from '../../../control-plane/people/totp.ts';
import { must } from '../../../shared/errors/assert.ts';
import { dayMs, renderTime, type UnixMillis } from '../../../shared/model/time.ts';
import { authenticator } from '../data/authenticator.ts';
import { pastedProvider } from '../peers/foreign-issuer.ts';
import { logInAtProvider, type ProviderPerson } from '../peers/test-provider.ts';
import { type Api, type Call, cookiesOf, fromConsole, type LoggedIn } from './api.ts';
import { openAnApproval } from './approvals.ts';
import { testReceipt } from './receipts.ts';
import { askingRules, standingBody } from './standing-approvals.ts';
import { makeWallet } from './wallets.ts';

/**
 * Calls that succeed. Each is made anew: what it needs is created first, and no two share anything that they
 * change.
 */
export type GoodCalls = Readonly<Record<string, () => Promise<Call>>>;

/** For every operation of the document, by its operationId, a call that it answers with a success. */
export function goodCalls(api: Api): GoodCalls {
  let made = 0;
  const fresh = (what: string): string => {
    made += 1;
    return `good ${what} ${made}`;
  };
  const passport = (body: object = {}) => api.issuePassport({ agent_id: fresh('agent'), ...body });
  const passportId = async (): Promise<string> => (await passport()).passport_id;
  const gateId = async (): Promise<string> => (await api.createGate()).gate_id;
  const keyId = async (): Promise<string> => (await api.createKey({ scopes: ['gates:read'] })).keyId;
  const issuerId = async (): Promise<string> => (await api.createIssuer()).issuer_id;
  const foreignIssuer = async () => {
    const provider = await pastedProvider();
    const { issuer_id } = await api.createIssuer({ name: fresh('issuer'), federation: provider.federation });
    return { issuerId: issuer_id as string, event: provider.event };
  };
  const approvalUrl = async (): Promise<string> => `/v1/approvals/${(await openAnApproval(api)).approvalId}`;
  const answeredUrl = async (): Promise<string> => {
    const url = await approvalUrl();
    await api.call({ method: 'POST', url: `${url}/approve` });
    return url;
  };
  const pinReport = (gateId: string, description: string) => ({
    url: '/v1/mcp-pins',
    body: {
      gate_id: gateId,
      upstream: 'http://127.0.0.1:3000/mcp',
      tools: [{ definition: JSON.stringify({ description, name: 'search' }) }],
      is_whole: true,
    },
  });
  /** A pin that waits, with the hash of what waits. */
  const changedPin = async () => {
    const gate = await gateId();
    await api.call(pinReport(gate, 'Searches.'));
    const { body } = await api.call(pinReport(gate, 'Searches the web.'));
    const { pin_id, new_hash } = body.pins[0];
    return { url: `/v1/mcp-pins/${pin_id}`, body: { hash: new_hash } };
  };
  const standing = async (): Promise<object> =>
    standingBody(api, {
      gate_id: (await api.createGate({ constraints: askingRules })).gate_id,
      passport_id: (await api.issuePassport()).passport_id,
    });
  const walletUrl = async (): Promise<string> => `/v1/wallets/${(await makeWallet(api, {})).wallet_id}`;
  const standingUrl = async (): Promise<string> => {
    const { body } = await api.call({ url: '/v1/approvals/standing', body: await standing() });
    return `/v1/approvals/standing/${body.standing_approval_id}`;
  };
  const template = () => ({ url: '/v1/templates', body: { name: fresh('template') } });
  const catalog = { permissions: [{ key: 'orders:create' }] };
  const get = (url: string) => async () => ({ url });
  const hook = { url: 'https://hooks.example.com/', events: ['gate.created'] };
  /** In an account of its own, because there is a bound to how many an account has. */
  const webhookCall = async (method: string, path: string, body?: object) => {
    const { key } = await api.createAccount();
    const { webhook_id } = (await api.call({ url: '/v1/webhooks', body: hook, key })).body;
    return { method, url: `/v1/webhooks/${webhook_id}${path}`, key, ...(body === undefined ? {} : { body }) };
  };
  const pager = { name: 'pager', kind: 'webhook', target: 'https://hooks.invalid/' };
  /** In an account of its own, because there is a bound to how many an account has. */
  const channelCall = async (method: string, path: string, body?: object) => {
    const { key } = await api.createAccount();
    const { channel_id } = (await api.call({ url: '/v1/channels', body: pager, key })).body;
    return { method, url: `/v1/channels/${channel_id}${path}`, key, ...(body === undefined ? {} : { body }) };
  };
  const check = async () => ({
    passport: (await passport()).jwt,
    request: { permission_key: 'orders:create' },
  });
  const permitUrl = async (path: string, request: object = {}): Promise<string> => {
    const { passport: jwt, request: asked } = await check();
    const body = { passport: jwt, request: { ...asked, amount: 2, ...request } };
    const permit = await api.call({ url: `/v1/gates/${await gateId()}/check`, body });
    return `/v1/attestations/${permit.body.attestation_id}${path}`;
  };
  const stricter = { trust_level: 'L2' };
  /** In an account of its own, in which none runs. */
  const backtestCall = (method: string) => async () => {
    const { key } = await api.createAccount();
    const { gate_id } = await api.createGate({}, key);
    const begun = await api.call({ url: `/v1/gates/${gate_id}/backtest`, body: {}, key });
    return { method, url: `/v1/backtests/${begun.body.backtest_id}`, key };
  };
  const shadowUrl = async (): Promise<string> => {
    const url = `/v1/gates/${await gateId()}/shadow`;
    await api.call({ method: 'PUT', url, body: stricter });
    return url;
  };
  const published = async (): Promise<string> => {
    const { gate_id } = await api.createGate({ catalog });
    return `/v1/gates/${gate_id}/catalog`;
  };

  let visitor: Promise<LoggedIn> | null = null;
  /** Of a session that others use too. */
  const visit = (): Promise<LoggedIn> => {
    visitor ??= api.createUser();
    return visitor;
  };
  const withSession = async (call: Call): Promise<Call> => ({
    ...call,
    key: null,
    headers: (await visit()).headers,
  });
  const freshUser = async () => {
    const body = { email: `${fresh('user').replaceAll(' ', '-')}@example.com`, role: 'read_only' };
    return (await api.call({ url: '/v1/users', body })).body;
  };
  const userUrl = async (): Promise<string> => `/v1/users/${(await freshUser()).user.user_id}`;
  const personWithPasskey = async () => {
    const { call, made, person } = await newPasskey(api);
    const reply = await api.call(call);
    return { made, headers: person.headers, passkeyId: String(reply.body.passkey_id) };
  };
  let example: Promise<unknown> | null = null;

  return {
    logIn: async () => {
      // The user of the examples, who is invited once.
      example ??= inviteWith(api, exampleLogin);
      await example;
      return { url: '/v1/session', body: exampleLogin, key: null, headers: fromConsole };
    },
    getLoginMethods: get('/v1/login-methods'),
    beginOidcLogin: async () => ({ url: '/v1/session/oidc/begin', ...ofNobody, body: {} }),
    logInWithOidc: async () => {
      const { email } = await api.createUser({ role: 'read_only' });
      return oidcReturn(api, { sub: fresh('subject'), email, email_verified: true });
    },
    beginPasskeyLogin: async () => passkeyBegin,
    logInWithPasskey: async () => {
      const { made } = await personWithPasskey();
      const begun = await api.call(passkeyBegin);
      lastPasskeyAnswer = made.get(begun.body.options);
      return {
        url: '/v1/session/passkey',
        key: null,
        headers: { ...fromConsole, cookie: cookiesOf(begun) },
        body: { response: lastPasskeyAnswer },
      };
    },
    listPasskeys: async () => {
      const { headers } = await personWithPasskey();
      return { url: '/v1/users/me/passkeys', key: null, headers };
    },
    beginPasskey: async () => {
      const { headers } = await api.createUser({ password: exampleLogin.password });
      const { password } = exampleLogin;
      return { url: '/v1/users/me/passkeys/begin', key: null, headers, body: { password } };
    },
    addPasskey: async () => (await newPasskey(api)).call,
    renamePasskey: async () => {
      const { passkeyId, headers } = await personWithPasskey();
      const url = `/v1/users/me/passkeys/${passkeyId}`;
      return { method: 'PATCH', url, key: null, headers, body: { name: fresh('name') } };
    },
    removePasskey: async () => {
      const { passkeyId, headers } = await personWithPasskey();
      return { method: 'DELETE', url: `/v1/users/me/passkeys/${passkeyId}`, key: null, headers };
    },
    getSession: () => withSession({ url: '/v1/session' }),
    logOut: async () => {
      const { headers } = await logInAgain(api, await visit());
      return { method: 'DELETE', url: '/v1/session', key: null, headers };
    },
    listSessions: () => withSession({ url: '/v1/sessions' }),
    endSession: async () => {
      const { sessionId } = await logInAgain(api, await visit());
      return withSession({ method: 'DELETE', url: `/v1/sessions/${sessionId}` });
    },
    inviteUser: async () => ({
      url: '/v1/users',
      body: { email: `${fresh('user').replaceAll(' ', '-')}@example.com`, role: 'auditor' },
    }),
    listUsers: get('/v1/users'),
    getUser: async () => ({ url: await userUrl() }),
    renewInvitation: async () => ({ method: 'POST', url: `${await userUrl()}/invitation` }),
    confirmUser: async () => {
      const { headers } = await api.createUser();
      const invited = await freshUser();
      const userId = invited.user.user_id;
      const body = { token: tokenOf(invited), name: 'Ada', password: fresh('long password') };
      await api.call({ url: '/v1/invitations/accept', ...ofNobody, body });
      return { method: 'POST', url: `/v1/users/${userId}/confirm`, key: null, headers };
    },
    updateUser: async () => ({ method: 'PATCH', url: await userUrl(), body: { name: fresh('name') } }),
    deleteUser: async () => ({ method: 'DELETE', url: await userUrl() }),
    changePassword: async () => {
      const { headers } = await api.createUser({ password: exampleLogin.password });
      const body = { current_password: exampleLogin.password, new_password: fresh('password') };
      return { url: '/v1/users/me/password', key: null, headers, body };
    },
    beginTotp: async () => {
      const { headers } = await api.createUser({ role: 'read_only' });
      return { method: 'POST', url: '/v1/users/me/totp', key: null, headers };
    },
    confirmTotp: async () => {
      const person = await api.createUser({ role: 'read_only' });
      const code = codeOf(await beginTotp(api, person), api.deps.clock.now());
      return { url: '/v1/users/me/totp/confirm', key: null, headers: person.headers, body: { code } };
    },
    removeTotp: async () => {
      const { password } = exampleLogin;
      const { headers } = await api.createUser({ role: 'read_only', password });
      return { method: 'DELETE', url: '/v1/users/me/totp', key: null, headers, body: { password } };
    },
    readInvitation: async () => ({
      ...{ url: '/v1/invitations/read', ...ofNobody, body: { token: tokenOf(await freshUser()) } },
    }),
    acceptInvitation: async () => ({
      ...{ url: '/v1/invitations/accept', ...ofNobody },
      body: { token: tokenOf(await freshUser()), name: fresh('name'), password: fresh('long password') },
    }),
    issuePassport: async () => ({
      url: '/v1/passports',
      body: { agent_id: fresh('agent'), permissions: [] },
    }),
    issuePassportUnattended: async () => ({
      url: '/api/passports',
      body: { agent_type: fresh('custom'), permissions: [] },
    }),
    listPassports: get('/v1/passports'),
    getPassport: async () => ({ url: `/v1/passports/${await passportId()}` }),
    verifyPassport: async () => ({ url: `/v1/passports/${await passportId()}/verify` }),
    revokePassport: async () => ({ method: 'POST', url: `/v1/passports/${await passportId()}/revoke` }),
    suspendPassport: async () => ({ method: 'POST', url: `/v1/passports/${await passportId()}/suspend` }),
    reactivatePassport: async () => {
      const url = `/v1/passports/${await passportId()}`;
      await api.call({ method: 'POST', url: `${url}/suspend` });
      return { method: 'POST', url: `${url}/reactivate` };
    },
    createGate: async () => ({ url: '/v1/gates', body: { name: fresh('gate'), trust_level: 'L1' } }),
    listGates: get('/v1/gates'),
    getGate: async () => ({ url: `/v1/gates/${await gateId()}` }),
    updateGate: async () => ({
      method: 'PUT',
      url: `/v1/gates/${await gateId()}`,
      body: { name: fresh('gate') },
    }),
    startBacktest: async () => {
      const { key } = await api.createAccount();
      const { gate_id } = await api.createGate({}, key);
      return { url: `/v1/gates/${gate_id}/backtest`, body: {}, key };
    },
    getBacktest: backtestCall('GET'),
    cancelBacktest: backtestCall('DELETE'),
    putShadow: async () => ({ method: 'PUT', url: `/v1/gates/${await gateId()}/shadow`, body: stricter }),
    getShadow: async () => ({ url: await shadowUrl() }),
    getShadowReport: async () => ({ url: `${await shadowUrl()}/report` }),
    promoteShadow: async () => ({
      method: 'POST',
      url: `${await shadowUrl()}/promote`,
      headers: { 'if-match': '*' },
    }),
    deleteShadow: async () => ({ method: 'DELETE', url: await shadowUrl() }),
    checkCondition: async () => ({
      url: '/v1/conditions/check',
      body: { require: 'request.rows <= 100 && !has(claims.group)', gate_id: await gateId() },
    }),
    deleteGate: async () => ({ method: 'DELETE', url: `/v1/gates/${await gateId()}` }),
    testGate: async () => ({
      url: `/v1/gates/${await gateId()}/test`,
      body: { passport_token: (await passport()).jwt, requested_action: 'orders:create' },
    }),
    publishCatalog: async () => ({
      url: `/v1/gates/${await gateId()}/catalog`,
      body: { permissions: [{ key: 'orders:create', display_name: fresh('order') }] },
    }),
    getCatalog: async () => ({ url: await published(), key: null }),
    discoverGates: async () => {
      await published();
      return { url: '/v1/discover?capability=orders', key: null };
    },
    checkGate: async () => ({ url: `/v1/gates/${await gateId()}/check`, body: await check() }),
    checkGateBatch: async () => ({
      url: `/v1/gates/${await gateId()}/check/batch`,
      body: { checks: [await check()] },
    }),
    enforce: async () => ({ url: '/v1/enforce', body: await check() }),
    listAttestations: get('/v1/attestations'),
    exportAttestations: get('/v1/attestations/export'),
    reportOutcome: async () => ({ url: await permitUrl('/outcome'), body: { outcome: 'served' } }),
    getOutcome: async () => ({ url: await permitUrl('/outcome') }),
    extendHold: async () => ({
      url: await permitUrl('/hold/extend', { hold: true }),
      body: { expires_in_s: 7_200 },
    }),
    refundPermit: async () => ({ url: await permitUrl('/refund'), body: { amount: 1 } }),
    listHolds: get('/v1/holds'),
    listOutcomes: get('/v1/outcomes'),
    getAttestation: async () => {
      const { body } = await api.call({ url: '/v1/enforce', body: await check() });
      return { url: `/v1/attestations/${body.attestation_id}` };
    },
    getAttestationFacts: async () => {
      const { body } = await api.call({ url: '/v1/enforce', body: await check() });
      return { url: `/v1/attestations/${body.attestation_id}/facts` };
    },
    getAttestationProof: async () => {
      const { body } = await api.call({ url: '/v1/enforce', body: await check() });
      const deps = { ...api.deps, metrics: new Registry() };
      await new LogWriter(deps, async () => undefined).round(() => false);
      return { url: `/v1/attestations/${body.attestation_id}/proof` };
    },
    getDecisionStatistics: get('/v1/statistics/decisions'),
    listGatePolicies: async () => ({ url: `/v1/gates/${await gateId()}/policies` }),
    getPolicy: async () => {
      const { body } = await api.call({ url: `/v1/gates/${await gateId()}/policies` });
      return { url: `/v1/policies/${body.items[0].policy_hash}` };
    },
    getGateUsage: async () => ({ url: `/v1/gates/${await gateId()}/usage` }),
    streamEvents: get('/v1/events'),
    listSidecars: get('/v1/sidecars'),
    listAuditEntries: get('/v1/audit'),
    exportAudit: get('/v1/audit/export'),
    createIssuer: async () => ({ url: '/v1/issuers', body: { name: fresh('issuer') } }),
    listIssuers: get('/v1/issuers'),
    getIssuer: async () => ({ url: `/v1/issuers/${await issuerId()}` }),
    getAuthzenVocabulary: get('/v1/authzen/vocabulary'),
    setAuthzenVocabulary: async () => ({
      method: 'PUT',
      url: '/v1/authzen/vocabulary',
      body: { resources: [{ type: fresh('type'), gate_id: await gateId() }], actions: [] },
    }),
    getRetention: get('/v1/attestations/retention'),
    setRetention: async () => {
      made += 1;
      return { method: 'PUT', url: '/v1/attestations/retention', body: { days: 30 + (made % 300) } };
    },
    updateIssuer: async () => ({
      method: 'PUT',
      url: `/v1/issuers/${await issuerId()}`,
      body: { name: fresh('issuer') },
    }),
    suspendOwner: async () => ({ method: 'POST', url: `/v1/owners/${fresh('owner')}/suspend` }),
    reactivateOwner: async () => {
      const url = `/v1/owners/${fresh('owner')}`;
      await api.call({ method: 'POST', url: `${url}/suspend` });
      return { method: 'POST', url: `${url}/reactivate` };
    },
    revokeSubject: async () => ({
      url: `/v1/issuers/${(await foreignIssuer()).issuerId}/revoke-subject`,
      body: { subject: fresh('subject') },
    }),
    tryToken: async () => ({
      url: `/v1/issuers/${(await foreignIssuer()).issuerId}/try-token`,
      body: { token: 'a.b.c' },
    }),
    receiveSecurityEvent: async () => {
      const { issuerId, event } = await foreignIssuer();
      return {
        url: `/v1/issuers/${issuerId}/events`,
        key: null,
        headers: { 'content-type': 'application/secevent+jwt' },
        body: await event(),
      };
    },
    createTemplate: async () => template(),
    listTemplates: get('/v1/templates'),
    getTemplate: async () => ({ url: `/v1/templates/${(await api.call(template())).body.template_id}` }),
    createApiKey: async () => ({ url: '/v1/api-keys', body: { name: fresh('key'), scopes: ['gates:read'] } }),
    whoAmI: get('/v1/whoami'),
    listApiKeys: get('/v1/api-keys'),
    getApiKey: async () => ({ url: `/v1/api-keys/${await keyId()}` }),
    rollApiKey: async () => ({ method: 'POST', url: `/v1/api-keys/${await keyId()}/roll` }),
    deleteApiKey: async () => ({ method: 'DELETE', url: `/v1/api-keys/${await keyId()}` }),
    createAccount: async () => ({ url: '/v1/accounts', body: { name: fresh('account'), plan: 'free' } }),
    listAccounts: get('/v1/accounts'),
    getAccount: async () => ({ url: `/v1/accounts/${(await api.createAccount()).accountId}` }),
    updateAccount: async () => ({
      method: 'PUT',
      url: `/v1/accounts/${(await api.createAccount()).accountId}`,
      body: { name: fresh('account') },
    }),
    listApprovals: get('/v1/approvals'),
    getApproval: async () => ({ url: await approvalUrl() }),
    approveApproval: async () => ({ method: 'POST', url: `${await approvalUrl()}/approve` }),
    undoApproval: async () => ({ method: 'POST', url: `${await answeredUrl()}/undo` }),
    denyApproval: async () => ({ method: 'POST', url: `${await approvalUrl()}/deny` }),
    listMcpPins: get('/v1/mcp-pins'),
    getMcpPin: async () => ({ url: (await changedPin()).url }),
    reportMcpTools: async () => pinReport(await gateId(), 'Searches.'),
    acceptMcpPin: async () => {
      const { url, body } = await changedPin();
      return { url: `${url}/accept`, body };
    },
    rejectMcpPin: async () => {
      const { url, body } = await changedPin();
      return { url: `${url}/reject`, body };
    },
    createChannel: async () => ({
      url: '/v1/channels',
      body: { ...pager, name: fresh('channel'), gate_id: (await api.createGate()).gate_id },
    }),
    listChannels: get('/v1/channels'),
    getChannel: async () => channelCall('GET', ''),
    updateChannel: async () => channelCall('PATCH', '', { name: fresh('channel') }),
    deleteChannel: async () => channelCall('DELETE', ''),
    testChannel: async () => channelCall('POST', '/test', {}),
    setPassportWallet: async () => ({
      url: `/v1/passports/${(await api.issuePassport()).passport_id}/wallet`,
      body: { wallet_id: (await makeWallet(api, {})).wallet_id },
    }),
    createWallet: async () => ({
      url: '/v1/wallets',
      body: { name: fresh('wallet'), limits: { daily_usd: 1 } },
    }),
    listWallets: get('/v1/wallets'),
    getWallet: async () => ({ url: await walletUrl() }),
    getWalletStatement: async () => ({
      url: `${await walletUrl()}/statement?since=2026-11-01T00:00:00Z&until=2026-11-02T00:00:00Z`,
    }),
    updateWallet: async () => ({ method: 'PUT', url: await walletUrl(), body: { name: 'another name' } }),
    freezeWallet: async () => ({ url: `${await walletUrl()}/freeze`, body: {} }),
    unfreezeWallet: async () => {
      const url = await walletUrl();
      await api.call({ url: `${url}/freeze`, body: {} });
      return { url: `${url}/unfreeze`, body: {} };
    },
    deleteWallet: async () => ({ method: 'DELETE', url: await walletUrl() }),
    createStandingApproval: async () => ({ url: '/v1/approvals/standing', body: await standing() }),
    listStandingApprovals: get('/v1/approvals/standing'),
    getStandingApproval: async () => ({ url: await standingUrl() }),
    endStandingApproval: async () => ({ method: 'DELETE', url: await standingUrl() }),
    createWebhook: async () => ({ url: '/v1/webhooks', body: { ...hook, description: fresh('webhook') } }),
    listWebhooks: get('/v1/webhooks'),
    getWebhook: async () => webhookCall('GET', ''),
    updateWebhook: async () => webhookCall('PUT', '', { description: fresh('webhook') }),
    deleteWebhook: async () => webhookCall('DELETE', ''),
    rollWebhookSecret: async () => webhookCall('POST', '/roll-secret', { overlap_s: 60 }),
    testWebhook: async () => webhookCall('POST', '/test', {}),
    listDeliveries: async () => webhookCall('GET', '/deliveries'),
    resendDelivery: async () => {
      const test = await webhookCall('POST', '/test', {});
      const { body } = await api.call(test);
      return { ...test, url: test.url.replace('/test', `/deliveries/${body.delivery_id}/resend`), body: {} };
    },
    recoverWebhook: async () => webhookCall('POST', '/recover', { since: '2026-01-01T00:00:00Z' }),
    getJwks: async () => ({ url: '/.well-known/jwks.json', key: null }),
    getRevokedSidecarKeys: async () => ({ url: '/.well-known/sidecar-keys.json', key: null }),
    revokeSidecarKey: async () => ({
      url: '/v1/signing-keys/revoke-sidecar-key',
      body: { kid: Buffer.from(fresh('kid').padEnd(32)).subarray(-32).toString('base64url') },
    }),
    showReceipt: async () => ({ url: '/v1/receipts', body: { receipt: testReceipt(api) } }),
    rotateSigningKey: async () => {
      // Rotations within the time until a new key signs are one; the one before is over by then.
      api.advance(120_000);
      return { url: '/v1/signing-keys/rotate', body: { purpose: 'catalog' } };
    },
    getLiveness: async () => ({ url: '/livez', key: null }),
    getReadiness: async () => ({ url: '/readyz', key: null }),
    getMetrics: async () => ({ url: '/metrics', key: null }),
  };
}

const ofNobody = { key: null, headers: fromConsole } as const;
const passkeyBegin = { method: 'POST', url: '/v1/session/passkey/begin', ...ofNobody } as const;

const tokenOf = ({ invitation_url }: { readonly invitation_url: string }): string =>
  new URL(invitation_url).hash.slice('#token='.length);

/** Of the secret that was begun last, for the examples. */
let lastSecret: Uint8Array | null = null;

/** Begins a second factor; its secret. */
export async function beginTotp(api: Api, { headers }: Pick<LoggedIn, 'headers'>): Promise<Uint8Array> {
  const reply = await api.call({ method: 'POST', url: '/v1/users/me/totp', key: null, headers });
  if (reply.status !== 200) throw new Error(`totp: ${JSON.stringify(reply.body)}`);
  lastSecret = readBase32(reply.body.secret);
  return lastSecret;
}

/** The code that an authenticator app shows at that time. */
export const codeOf = (secret: Uint8Array, nowMs: number): string =>
  totpCode(secret, Math.floor(nowMs / 30_000));

/** A secret as an authenticator app is given it. */
export function readBase32(text: string): Uint8Array {
  const bits = [...text]
    .map((char) => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(char).toString(2).padStart(5, '0'))
    .join('');
  return Uint8Array.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}

async function inviteWith(
  api: Api,
  { email, password }: { readonly email: string; readonly password: string },
): Promise<void> {
  const { body } = await api.call({ url: '/v1/users', body: { email, role: 'read_only' } });
  const accepted = { token: tokenOf(body), name: 'Ada', password };
  await api.call({ url: '/v1/invitations/accept', key: null, headers: fromConsole, body: accepted });
}

/** What browsers answered last, for the examples. */
let lastNewPasskey: object = {};
let lastPasskeyAnswer: object = {};

/** Somebody whose authenticator has made a passkey that is not registered yet. */
async function newPasskey(api: Api) {
  const person = await api.createUser({ role: 'read_only' });
  const { headers, password } = person;
  const url = '/v1/users/me/passkeys';
  const begun = await api.call({ url: `${url}/begin`, key: null, headers, body: { password } });
  const made = authenticator(new URL(api.deps.baseUrl).origin);
  lastNewPasskey = made.create(begun.body.options);
  const sent = { ...headers, cookie: `${headers['cookie']}; ${cookiesOf(begun)}` };
  const body = { name: 'Laptop', response: lastNewPasskey };
  return { person, made, call: { url, key: null, headers: sent, body } };
}

/** Of the login that came back last, for the examples. */
let lastReturn: Readonly<Record<string, string>> = {};

/** The second half of a login of this person, who has logged in at the provider. */
export async function oidcReturn(api: Api, person: ProviderPerson, body: object = {}): Promise<Call> {
  const begun = await api.call({ url: '/v1/session/oidc/begin', key: null, headers: fromConsole, body });
  if (begun.status !== 200) throw new Error(`login: ${JSON.stringify(begun.body)}`);
  lastReturn = await logInAtProvider(begun.body.authorization_url, person);
  const headers = { ...fromConsole, cookie: cookiesOf(begun) };
  return { url: '/v1/session/oidc', key: null, headers, body: lastReturn };
}

/** The same user in another browser. */
export async function logInAgain(
  api: Api,
  { email, password }: Pick<LoggedIn, 'email' | 'password'>,
): Promise<Pick<LoggedIn, 'sessionId' | 'headers'>> {
  const reply = await api.call({ url: '/v1/session', ...ofNobody, body: { email, password } });
  if (reply.status !== 200) throw new Error(`login: ${JSON.stringify(reply.body)}`);
  return { sessionId: reply.body.session_id, headers: { ...fromConsole, cookie: cookiesOf(reply) } };
}

/** The `kid` of a passport key that is retired. */
async function retirePassportKey(api: Api): Promise<string> {
  await api.call({ url: '/v1/signing-keys/rotate', body: { purpose: 'passport' } });
  const { keys } = (await api.call({ url: '/.well-known/jwks.json' })).body;
  const retired = keys.filter(
    ({ purpose, retired_at }: { readonly purpose: string; readonly retired_at: string | null }) =>
      purpose === 'passport' && retired_at !== null,
  );
  return must(retired.at(-1), 'a rotation retires a key').kid;
}

/** The body of an example with ids and tokens of this API in it. */
export async function liveExample(api: Api, example: unknown): Promise<unknown> {
  let text = JSON.stringify(example);
  const put = async (placeholder: string, live: () => Promise<string>): Promise<void> => {
    if (text.includes(placeholder)) text = text.replaceAll(placeholder, must(await live(), 'there is one'));
  };
  await put(exampleIds.issuerId, async () => (await api.createIssuer()).issuer_id);
  await put(
    exampleIds.askingGateId,
    async () => (await api.createGate({ constraints: askingRules })).gate_id,
  );
  await put(exampleIds.passportId, async () => (await api.issuePassport()).passport_id);
  await put(exampleIds.endsAt, async () => renderTime((api.deps.clock.now() + dayMs) as UnixMillis));
  await put(exampleIds.gateId, async () => (await api.createGate()).gate_id);
  await put(exampleIds.invitationToken, async () => {
    const body = { email: `example-${Date.now()}@example.com`, role: 'read_only' };
    return tokenOf((await api.call({ url: '/v1/users', body })).body);
  });
  await put(exampleIds.totpCode, async () =>
    lastSecret === null ? exampleIds.totpCode : codeOf(lastSecret, api.deps.clock.now()),
  );
  await put(JSON.stringify(exampleIds.newPasskey), async () => JSON.stringify(lastNewPasskey));
  await put(JSON.stringify(exampleIds.passkeyAnswer), async () => JSON.stringify(lastPasskeyAnswer));
  await put(exampleIds.oidcCode, async () => lastReturn['code'] ?? exampleIds.oidcCode);
  await put(exampleIds.oidcIssuer, async () => lastReturn['iss'] ?? exampleIds.oidcIssuer);
  await put(exampleIds.oidcState, async () => lastReturn['state'] ?? exampleIds.oidcState);
  await put(exampleIds.retiredKid, () => retirePassportKey(api));
  await put(exampleIds.token, async () => (await api.issuePassport()).jwt);
  // Last: it has other ids in it.
  await put(JSON.stringify(exampleIds.receipt), async () => JSON.stringify(testReceipt(api)));
  return JSON.parse(text);
}
