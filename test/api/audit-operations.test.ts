import { beforeAll, describe, expect, it } from 'vitest';
import { tools as toolList } from '../../control-plane/tools/tool-list.ts';
import { auditedOperations } from '../../shared/model/audit.ts';
import { operationsOf, undocumented } from '../support/data/document.ts';
import { startTestProvider } from '../support/peers/test-provider.ts';
import { documentOf } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import { type GoodCalls, goodCalls } from '../support/service/good-calls.ts';
import { startTools } from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';

/** What is no change of administration: decisions, tests of gates, and logins that have only begun. */
const noChanges = [
  'checkGate',
  'checkGateBatch',
  'enforce',
  'reportOutcome',
  'extendHold',
  'testGate',
  'startBacktest',
  'cancelBacktest',
  'reportMcpTools',
  'showReceipt',
  'tryToken',
  'checkCondition',
  'beginOidcLogin',
  'beginPasskeyLogin',
  'beginPasskey',
  'readInvitation',
];

/** Reads that are in the audit all the same. */
const auditedReads = ['getAttestationFacts'];

/** The one name without https at which there are passkeys. */
const origin = 'http://localhost:8080';
const provider = useStarted(() => startTestProvider({ origin }));
const tools = useStarted(() => startTools({ origin, provider: provider.settings }));
let calls: GoodCalls;
const secrets: string[] = [];
beforeAll(() => {
  calls = goodCalls(tools.api);
});

/** Takes note of the secrets that an answer gives away, this once. */
function noteSecrets(answer: unknown): void {
  const found = JSON.stringify(answer).matchAll(
    /"(?:private_key|key|secret|jwt|invitation_url)":"(?:[^"#]*#token=)?([^"]{20,})"/g,
  );
  for (const [, secret = ''] of found) secrets.push(secret);
}

interface Written {
  readonly operation: string;
  readonly actor_type: string;
  readonly actor_id: string;
  readonly actor_client_id: string | null;
  readonly target: string;
}

const entriesOf = (requestId: unknown) =>
  tools.api.deps.sql<Written[]>`
    SELECT operation, actor_type, actor_id, actor_client_id, target FROM audit_entries WHERE request_id = ${String(requestId)}`;

/** Without a key it is a person who acts, or an identity provider that signs what it says. */
function actorOf(operation: string, key: string | null | undefined): readonly [string, RegExp] {
  if (operation === 'receiveSecurityEvent') return ['issuer', /^iss_/];
  return key === null ? ['user', /^usr_/] : ['api_key', /^key_/];
}

const operationIds = () =>
  operationsOf(documentOf(tools.api.app)).map(({ method, operation }) => ({
    method,
    id: operation.operationId,
  }));

describe('every operation of the document that changes something', () => {
  it('is audited, or changes nothing of administration', () => {
    const writing = operationIds()
      .filter(({ id, method }) => method !== 'GET' || auditedReads.includes(id ?? ''))
      .map(({ id }) => id);
    expect(writing.toSorted()).toEqual([...auditedOperations, ...noChanges].toSorted());
  });

  it('is every route that is not read-only, except those of sidecars, tools and OAuth', () => {
    const routes = tools.api.app.routeScopes.filter(
      ({ method }) => !['GET', 'HEAD', 'OPTIONS'].includes(method),
    );
    const documented = routes.filter(({ url }) => !undocumented.test(url));
    expect(documented).toHaveLength(auditedOperations.length + noChanges.length - auditedReads.length);
  });

  it.each(auditedOperations)(
    '%s writes one entry that names it, its caller and its target',
    async (operation) => {
      const call = await calls[operation]?.();
      if (call === undefined) throw new Error(`there is no call for ${operation}`);
      const reply = await tools.api.call(call);
      expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300);
      noteSecrets(reply.body);
      const entries = await entriesOf(reply.headers['x-request-id']);
      expect(entries).toHaveLength(1);
      const [actorType, actorId] = actorOf(operation, call.key);
      expect(entries[0]).toMatchObject({ operation, actor_type: actorType, actor_client_id: null });
      expect(entries[0]?.actor_id).toMatch(actorId);
      // What they speak of is the session, or the person, of the request.
      if (/^(?:logOut|changePassword|setRetention|setAuthzenVocabulary|\w+Totp)$/.test(operation))
        expect(entries[0]?.target).toMatch(/^(?:sess|usr|acct)_/);
      else expect(`${call.url} ${JSON.stringify(reply.body)}`).toContain(entries[0]?.target);
    },
  );

  it('writes none where it only reads, or decides', async () => {
    const audited: readonly string[] = auditedOperations;
    for (const { id } of operationIds().filter((each) => !audited.includes(each.id))) {
      const call = await calls[id]?.();
      if (call === undefined) throw new Error(`there is no call for ${id}`);
      const reply = await tools.api.call(call);
      expect(reply.status, id).toBeLessThan(300);
      expect(await entriesOf(reply.headers['x-request-id']), id).toEqual([]);
    }
  });

  it('leaves no secret in any entry, nor what might be one', async () => {
    const [row] = await tools.api.deps.sql<{ text: string }[]>`
      SELECT string_agg(row_to_json(audit_entries)::text, ' ') AS text FROM audit_entries`;
    const text = row?.text ?? '';
    expect(text.length).toBeGreaterThan(10_000);
    // All kinds of them were given away by then.
    for (const kind of [/^at_live_/, /^ed25519_private:/, /^whsec_/, /^eyJ/])
      expect(secrets.filter((secret) => kind.test(secret)).length, String(kind)).toBeGreaterThan(0);
    for (const secret of secrets) expect(text).not.toContain(secret);
    expect(text).not.toMatch(/at_live_\w{10}|ed25519_private|whsec_|"eyJ/);
  });
});

describe('every tool that changes something', () => {
  const argumentsOf: Readonly<Record<string, () => Promise<object>>> = {
    create_passport: async () => ({ agent_id: 'by a tool', permissions: [] }),
    revoke_passport: async () => ({ passport_id: (await tools.api.issuePassport()).passport_id }),
    create_api_key: async () => ({ name: 'by a tool', scopes: ['gates:read'] }),
    resolve_approval: async () => ({
      approval_id: (await openAnApproval(tools.api)).approvalId,
      resolution: 'approved',
    }),
  };
  const changing = toolList
    .filter(({ name, hints }) => !hints.readOnlyHint && name !== 'test_gate')
    .map(({ name }) => name);

  it('is known here', () => {
    expect(Object.keys(argumentsOf)).toEqual(expect.arrayContaining(changing));
  });

  it.each(changing)('%s writes one entry that names the key and the client of the token', async (name) => {
    const key = await tools.api.createKey({ scopes: ['admin:*'] });
    const token = await tools.accessTokenOf(key);
    const response = await tools.call(token, name, await argumentsOf[name]?.());
    const body = (await response.json()) as { result: { isError?: boolean } };
    expect(body.result.isError ?? false, JSON.stringify(body)).toBe(false);
    const entries = await entriesOf(response.headers.get('x-request-id'));
    expect(entries).toHaveLength(1);
    // With client credentials the key is its own client.
    expect(entries[0]).toMatchObject({
      ...{ actor_type: 'access_token', actor_id: key.keyId, actor_client_id: key.keyId },
    });
  });
});
