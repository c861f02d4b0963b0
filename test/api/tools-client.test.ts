import {
  Client,
  ClientCredentialsProvider,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { Browser, startTools, type Tools } from '../support/service/tools.ts';

let tools: Tools;
let key: { readonly keyId: string; readonly key: string };
beforeAll(async () => {
  tools = await startTools();
  key = await tools.api.createKey({ scopes: ['admin:*'] });
});
afterAll(() => tools.close());

const revisions = [
  { revision: '2025-11-25', mode: 'legacy' },
  { revision: '2026-07-28', mode: { pin: '2026-07-28' } },
] as const;
const redirectUrl = 'http://localhost:33418/callback';

const transportOf = (authProvider: OAuthClientProvider) =>
  new StreamableHTTPClientTransport(new URL(tools.mcpUrl), {
    authProvider,
    fetch: (url, init) => tools.fetch(url, init),
  });

/** A native client that describes itself at an address of its own; what it would store lies in memory. */
function nativeClient() {
  const clientMetadata = {
    client_name: 'The official client',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  };
  const stored: {
    information?: Parameters<NonNullable<OAuthClientProvider['saveClientInformation']>>[0];
    tokens?: Parameters<OAuthClientProvider['saveTokens']>[0];
    discovery?: Parameters<NonNullable<OAuthClientProvider['saveDiscoveryState']>>[0];
    verifier: string;
    authorizeAt: URL | null;
  } = { verifier: '', authorizeAt: null };
  const provider: OAuthClientProvider = {
    redirectUrl,
    clientMetadataUrl: tools.publish(clientMetadata),
    clientMetadata,
    clientInformation: () => stored.information,
    saveClientInformation: (information) => {
      stored.information = information;
    },
    tokens: () => stored.tokens,
    saveTokens: (tokens) => {
      stored.tokens = tokens;
    },
    redirectToAuthorization: (url) => {
      stored.authorizeAt = url;
    },
    saveCodeVerifier: (verifier) => {
      stored.verifier = verifier;
    },
    codeVerifier: () => stored.verifier,
    saveDiscoveryState: (discovery) => {
      stored.discovery = discovery;
    },
    discoveryState: () => stored.discovery,
  };
  return { provider, stored };
}

/** Connects a client that has to be let in by a person first. */
async function connectNative(client: Client) {
  const native = nativeClient();
  const first = transportOf(native.provider);
  await expect(client.connect(first)).rejects.toThrow(UnauthorizedError);
  const at = native.stored.authorizeAt;
  if (at === null) throw new Error('the client did not ask for a person');
  const back = await new Browser(tools).consent(at, key.key);
  await first.finishAuth(back.searchParams);
  await client.close();
  await client.connect(transportOf(native.provider));
  return native;
}

const connectWithKey = (client: Client) =>
  client.connect(
    transportOf(
      new ClientCredentialsProvider({
        clientId: key.keyId,
        clientSecret: key.key,
        expectedIssuer: tools.origin,
      }),
    ),
  );

const flows = [
  { flow: 'client credentials', connect: connectWithKey, makesKeys: true },
  // It has not asked by name for a scope that makes keys.
  { flow: 'a code and the consent page', connect: connectNative, makesKeys: false },
];

describe.each(revisions)('the official client, revision $revision', ({ revision, mode }) => {
  describe.each(flows)('with $flow', ({ connect, makesKeys }) => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } });
    beforeAll(async () => {
      await connect(client);
    });
    afterAll(() => client.close());

    it('uses that protocol revision', () => {
      expect(client.getNegotiatedProtocolVersion()).toBe(revision);
      expect(client.getServerVersion()).toMatchObject({ name: 'agent-trust' });
      expect(client.getInstructions()).toMatch(/Ask a person/);
    });

    it('lists the tools, and calls every one of them', async () => {
      const { tools: listed } = await client.listTools();
      expect(listed).toHaveLength(11);
      const gate = await tools.api.createGate({ catalog: { permissions: [{ key: 'orders:create' }] } });
      const call = async (name: string, args: Record<string, unknown>) => {
        // The client itself holds what comes against the schema that was listed.
        const result = await client.callTool({ name, arguments: args });
        expect(result.isError ?? false, JSON.stringify(result.content)).toBe(false);
        return result.structuredContent as Record<string, string>;
      };
      const { passport_id, jwt } = await call('create_passport', {
        agent_id: `${revision} ${Math.random()}`,
        permissions: ['orders:create'],
      });
      expect(await call('verify_passport', { passport_id })).toMatchObject({ valid: true });
      expect(Number((await call('list_passports', {}))['total'])).toBeGreaterThan(0);
      expect(Number((await call('discover_gates', { capability: 'orders' }))['total'])).toBeGreaterThan(0);
      const tested = await call('test_gate', {
        gate_id: gate.gate_id,
        passport_token: jwt,
        requested_action: 'orders:create',
      });
      expect(tested).toMatchObject({ decision: 'allow' });
      const attestation = await call('get_attestation', { attestation_id: tested['attestation_id'] });
      expect(attestation).toMatchObject({ passport_id, decision: 'PERMIT' });
      const made = call('create_api_key', { name: 'n', scopes: ['gates:read'] });
      if (makesKeys) expect(await made).toMatchObject({ mode: 'live' });
      else await expect(made).rejects.toThrow(UnauthorizedError);
      expect(await call('revoke_passport', { passport_id })).toMatchObject({ status: 'revoked' });
    });

    it('gets a refusal as a result and a tool that does not exist as an error', async () => {
      const refused = await client.callTool({ name: 'verify_passport', arguments: { passport_id: 'x' } });
      expect(refused.isError).toBe(true);
      expect(JSON.stringify(refused.content)).toContain('passport_not_found');
      await expect(client.callTool({ name: 'nonsense', arguments: {} })).rejects.toThrow(
        /no tool of this name/,
      );
    });
  });
});

describe('the official client', () => {
  it('finds the revision by itself', async () => {
    const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'auto' } });
    await connectWithKey(client);
    expect(client.getNegotiatedProtocolVersion()).toBe('2026-07-28');
    await client.close();
  });

  it('goes on with its refresh token when its access token is over', async () => {
    const own = await startTools();
    const outer = { tools, key };
    tools = own;
    key = await own.api.createKey({ scopes: ['passports:read'] });
    const client = new Client({ name: 'test', version: '1' });
    const { stored } = await connectNative(client);
    const before = stored.tokens?.access_token;
    own.api.advance(oauthLimits.accessTokenMs);
    const result = await client.callTool({ name: 'list_passports', arguments: {} });
    expect(result.isError ?? false).toBe(false);
    expect(stored.tokens?.access_token).not.toBe(before);
    await client.close();
    await own.close();
    ({ tools, key } = outer);
  });
});
