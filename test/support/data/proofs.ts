import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import {
  type AgentSignerOptions,
  agentSigner,
  type UnsignedRequest,
} from '../../../clients/node/src/agent.ts';

/** An agent's key pair, as its owner brings it. */
export interface TestAgentKey {
  readonly privateKey: KeyObject;
  /** What a passport is issued with. */
  readonly publicJwk: Readonly<Record<string, string>>;
}

export function makeAgentKey(kind: 'ed25519' | 'p256' = 'ed25519'): TestAgentKey {
  const { privateKey, publicKey } =
    kind === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return { privateKey, publicJwk: publicKey.export({ format: 'jwk' }) as Record<string, string> };
}

/** `request.proof` of a request as the resource server saw it, signed by the client for agents. */
export function proofFor(
  { jwt, key }: { readonly jwt: string; readonly key: TestAgentKey },
  request: UnsignedRequest = { method: 'POST', url: 'https://shop.example/orders?id=1' },
  options: AgentSignerOptions = {},
): Record<string, unknown> {
  const headers = agentSigner(jwt, key.privateKey, options)(request);
  const { method, url } = request;
  const { dpop, authorization: _shown, ...others } = headers;
  return dpop !== undefined ? { dpop, method, url } : { method, url, headers: others };
}
