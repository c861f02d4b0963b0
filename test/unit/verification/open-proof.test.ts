import { createHash, generateKeyPairSync, type webcrypto } from 'node:crypto';
import { generateProof } from 'dpop';
import { createSignature, verifySignature } from 'http-message-sig';
import { type InnerList, parseDictionary } from 'structured-headers';
import { describe, expect, it } from 'vitest';
import { signatureHeaders } from 'web-bot-auth';
import { signerFromJWK } from 'web-bot-auth/crypto';
import { agentSigner, type UnsignedRequest } from '../../../clients/node/src/agent.ts';
import { agentKeyOfJwk } from '../../../shared/crypto/agent-key.ts';
import { nobleEd25519 } from '../../../shared/crypto/ed25519-noble.ts';
import { es256Verifier } from '../../../shared/crypto/es256.ts';
import { must } from '../../../shared/errors/assert.ts';
import { signatureBase } from '../../../shared/verification/open-http-signature.ts';
import { openProof } from '../../../shared/verification/open-proof.ts';
import { makeAgentKey, type TestAgentKey } from '../../support/data/proofs.ts';

const engine = nobleEd25519();
const method = 'POST';
const url = 'https://shop.example/orders/7?a=1';
const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Of a token only its claim `cnf` is read by its agent, and nothing of it by us. */
const passportFor = ({ publicJwk }: TestAgentKey): string => `h.${encode({ cnf: { jwk: publicJwk } })}.s`;
const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

interface Agent {
  readonly key: TestAgentKey;
  readonly jwt: string;
}
function newAgent(kind: 'ed25519' | 'p256' = 'ed25519'): Agent {
  const key = makeAgentKey(kind);
  return { key, jwt: passportFor(key) };
}

/** Whether the proof is one of this agent's passport; its times are not looked at. */
function isGood(proof: unknown, { key, jwt: token }: Agent): boolean {
  const agentKey = must(agentKeyOfJwk(key.publicJwk), 'an agent has a usable key');
  const opened = openProof(proof, { token, tokenHash: hashOf(token), agentKey });
  if (opened === null) return false;
  const { algorithm, bytes } = opened.key;
  const verify = algorithm === 'ES256' ? es256Verifier(bytes) : engine.verifier(bytes);
  return verify(Buffer.from(opened.signedText, 'latin1'), opened.signature);
}

const headersOf = ({ key, jwt }: Agent, request: Partial<UnsignedRequest> = {}, options = {}) =>
  agentSigner(jwt, key.privateKey, options)({ method, url, ...request });
const signed = (agent: Agent, request: Partial<UnsignedRequest> = {}) => ({
  ...{ method, url },
  headers: { ...headersOf(agent, request) },
});
const bound = (agent: Agent) => ({
  ...{ method, url },
  dpop: headersOf(agent, {}, { proof: 'dpop' })['dpop'],
});

describe('a proof of possession', () => {
  it.each(['ed25519', 'p256'] as const)('is made with a key of %s by the client for agents', (kind) => {
    const agent = newAgent(kind);
    expect(isGood(signed(agent), agent)).toBe(true);
    expect(isGood(bound(agent), agent)).toBe(true);
  });

  it.each([
    ...["https://shop.example/it's?q=it's&{b}=`", 'https://shop.example/orders?', 'https://Shop.example:443'],
    ...['https://shop.example/ä b?ö', 'https://shop.example/a?b?#fragment'],
  ])('is made for the text of %s', (given) => {
    const agent = newAgent();
    const sent = given.replace(/#.*/, '').replaceAll(' ', '%20');
    expect(isGood({ ...signed(agent, { url: given }), url: sent }, agent)).toBe(true);
  });

  it('is the DPoP proof of RFC 9449 §7.1', () => {
    const dpop =
      'eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA';
    const { jwk } = JSON.parse(Buffer.from(dpop.split('.')[0] ?? '', 'base64url').toString());
    const agent = {
      key: { publicJwk: jwk } as unknown as TestAgentKey,
      jwt: 'Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU',
    };
    const target = 'https://resource.example.org/protectedresource';
    expect(isGood({ dpop, method: 'GET', url: target }, agent)).toBe(true);
    expect(isGood({ dpop, method: 'GET', url: `${target}/more` }, agent)).toBe(false);
  });

  it('has the signature base of RFC 9421 B.2.6', () => {
    const input =
      'sig-b26=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"';
    const seen = {
      ...{ method: 'POST', url: new URL('https://example.com/foo?param=Value&Pet=dog') },
      target: '/foo?param=Value&Pet=dog',
      ...{ nonce: null, contentDigest: null },
      headers: new Map([
        ['date', 'Tue, 20 Apr 2021 02:07:55 GMT'],
        ['content-type', 'application/json'],
        ['content-length', '18'],
      ]),
    };
    const base = signatureBase(parseDictionary(input).get('sig-b26') as InnerList, seen, { token: '' });
    const signature =
      'wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==';
    const verify = engine.verifier(Buffer.from('JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs', 'base64url'));
    expect(verify(Buffer.from(base ?? '', 'latin1'), Buffer.from(signature, 'base64'))).toBe(true);
  });
});

describe("strangers' programs", () => {
  it.each(['Ed25519', 'ES256'])('make DPoP proofs: dpop with %s', async (alg) => {
    const algorithm = alg === 'Ed25519' ? 'Ed25519' : { name: 'ECDSA', namedCurve: 'P-256' };
    const pair = (await crypto.subtle.generateKey(algorithm, true, [
      'sign',
      'verify',
    ])) as webcrypto.CryptoKeyPair;
    const publicJwk = (await crypto.subtle.exportKey('jwk', pair.publicKey)) as Record<string, string>;
    const key = { publicJwk } as unknown as TestAgentKey;
    const agent = { key, jwt: passportFor(key) };
    const dpop = await generateProof(pair, 'https://shop.example/orders/7', method, 'n-1', agent.jwt);
    expect(isGood({ dpop, method, url }, agent)).toBe(true);
    expect(isGood({ dpop, method, url, nonce: 'n-1' }, agent)).toBe(true);
    expect(isGood({ dpop, method, url, nonce: 'n-2' }, agent)).toBe(false);
  });

  it('sign as web-bot-auth does', async () => {
    const agent = newAgent();
    const jwk = agent.key.privateKey.export({ format: 'jwk' });
    const message = {
      ...{ method, url },
      headers: { authorization: `Passport ${agent.jwt}`, 'signature-agent': '"https://agent.example"' },
    };
    const components = ['@authority', '@method', '@target-uri', 'authorization', 'signature-agent'];
    const created = new Date();
    const made = await signatureHeaders(message, await signerFromJWK(jwk), {
      ...{ created, expires: new Date(created.getTime() + 300_000) },
      components: components as never,
    });
    const headers = { ...message.headers, ...made };
    expect(isGood({ method, url, headers }, agent)).toBe(true);
    expect(isGood({ method, url: 'https://shop.example/orders/8', headers }, agent)).toBe(false);
  });

  it('sign with http-message-sig, and verify what our client signs', async () => {
    const agent = newAgent();
    const { sign, verify } = await import('node:crypto');
    const { privateKey } = agent.key;
    const body = Buffer.from('{"sku":"a"}');
    const ours = headersOf(agent, { body });
    const request = new Request(url, { method, headers: { ...ours }, body });
    await verifySignature(request, {
      policy: {
        algorithms: ['ed25519'],
        requiredComponents: ['@method', '@authority', '@target-uri', 'authorization', 'content-digest'],
        requiredParameters: ['created', 'expires', 'nonce', 'keyid', 'tag'],
        ...{ maxAge: 300, clockSkew: 5 },
      },
      resolveVerifier: () => ({
        algorithm: 'ed25519',
        verify: (data: Uint8Array, signature: Uint8Array) => {
          const { publicJwk } = agent.key;
          return verify(null, data, { key: publicJwk as never, format: 'jwk' }, signature);
        },
      }),
    } as never);

    const { thumbprint } = must(keyOf(agent), 'a key');
    const nowS = Math.floor(Date.now() / 1_000);
    const fields = await createSignature(
      new Request(url, { method, headers: { 'x-agent-passport': agent.jwt } }),
      {
        label: 'theirs',
        components: ['@method', '@authority', '@path', '@query', 'x-agent-passport'],
        parameters: {
          ...{ created: nowS, expires: nowS + 60, nonce: 'n', keyid: thumbprint, tag: 'agent-trust' },
          alg: 'ed25519',
        },
        signer: { algorithm: 'ed25519', sign: (data: Uint8Array) => sign(null, data, privateKey) },
      } as never,
    );
    const text = JSON.parse(JSON.stringify(fields)) as Record<string, string>;
    const headers = Object.fromEntries(Object.entries(text).map(([name, value]) => [dashed(name), value]));
    expect(isGood({ method, url, headers }, agent)).toBe(true);
    expect(isGood({ method: 'PUT', url, headers }, agent)).toBe(false);
  });
});

describe('a hostile proof', () => {
  const agent = newAgent();
  const thief = newAgent();
  const stolen: Agent = { key: thief.key, jwt: agent.jwt };
  /** What a thief signs who has the passport and a key of its own. */
  const byThief = (request: Partial<UnsignedRequest> = {}, options = {}) => {
    const forged = `h.${encode({ cnf: { jwk: thief.key.publicJwk } })}.s`;
    return agentSigner(forged, stolen.key.privateKey, options)({ method, url, ...request });
  };
  const good = signed(agent);
  const input = good.headers['signature-input'] ?? '';
  const withInput = (text: string) => ({ ...good, headers: { ...good.headers, 'signature-input': text } });
  const dpop = (bound(agent).dpop ?? '') as string;
  const [head = '', claims = '', mark = ''] = dpop.split('.');
  const decode = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString());
  const withHead = (change: object) => ({
    ...{ method, url },
    dpop: `${encode({ ...decode(head), ...change })}.${claims}.${mark}`,
  });
  const hs256 = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' });

  it.each<[string, unknown]>([
    ['none at all', {}],
    ['two kinds at once', { ...good, dpop }],
    ['of another method', { ...good, method: 'PUT' }],
    ['of another path', { ...good, url: 'https://shop.example/orders/8?a=1' }],
    ['of another host', { ...good, url: 'https://other.example/orders/7?a=1' }],
    ['of another scheme', { ...good, url: 'http://shop.example/orders/7?a=1' }],
    ['of a URL with a fragment', { ...good, url: `${url}#a` }],
    ['of a URL with dot segments', { ...good, url: 'https://shop.example/x/../orders/7?a=1' }],
    ['of a URL with a backslash', { ...good, url: 'https://shop.example\\@evil.example/' }],
    ['of no URL', { ...good, url: '/orders/7?a=1' }],
    ['without a method', { ...good, method: undefined }],
    ['of a method with a line break', { ...good, method: 'POST\n"@path": /' }],
    ['by another key', { method, url, headers: { ...byThief() } }],
    [
      'by another key under the thumbprint of the right one',
      (() => {
        const headers = byThief();
        const own = /keyid="([^"]+)"/.exec(input)?.[1] ?? '';
        const swapped = (headers['signature-input'] ?? '').replace(/keyid="[^"]+"/, `keyid="${own}"`);
        return { method, url, headers: { ...headers, 'signature-input': swapped } };
      })(),
    ],
    ['with another token', { ...good, headers: { ...good.headers, authorization: `Passport ${thief.jwt}` } }],
    ['without its signature', { ...good, headers: { 'signature-input': input } }],
    ['with an input that is no dictionary', withInput('sig1=(')],
    ['with a component the message lacks', withInput(input.replace('("@method"', '("x-none" "@method"'))],
    ['with a component of the answer', withInput(input.replace('"@method"', '"@status"'))],
    ['with a parameter twice', withInput(`${input};created=1`)],
    ['with two signatures by the key', withInput(`${input}, ${input.replace('sig1', 'sig2')}`)],
    ['with a header twice', { ...good, headers: { ...good.headers, 'Signature-Input': input } }],
    ['with a line break in a header', { ...good, headers: { ...good.headers, 'x-a': 'a\nb' } }],
    ['DPoP by another key', { method, url, dpop: byThief({}, { proof: 'dpop' })['dpop'] }],
    ['DPoP without a signature', { method, url, dpop: `${head}.${claims}.` }],
    ['DPoP of alg none', withHead({ alg: 'none' })],
    ['DPoP of alg HS256 with the public key', withHead({ alg: 'HS256', jwk: hs256 })],
    ['DPoP twice in one header', { method, url, dpop: `${dpop}, ${dpop}` }],
    ['DPoP with a fourth part', { method, url, dpop: `${dpop}.x` }],
    ['DPoP that is no text', { method, url, dpop: [dpop] }],
  ])('is not good: %s', (_name, proof) => {
    expect(isGood(proof, agent)).toBe(false);
  });

  it('is a good one but for that', () => {
    expect(isGood(good, agent)).toBe(true);
    expect(isGood({ method, url, dpop }, agent)).toBe(true);
    expect(isGood(good, thief)).toBe(false);
  });

  it('covers the body where one was seen', () => {
    const body = '{"sku":"a"}';
    const proof = signed(agent, { body });
    const digestOf = (text: string) => `sha-256=:${createHash('sha256').update(text).digest('base64')}:`;
    expect(isGood({ ...proof, content_digest: digestOf(body) }, agent)).toBe(true);
    expect(isGood({ ...proof, content_digest: digestOf('{"sku":"b"}') }, agent)).toBe(false);
    expect(isGood({ ...proof, content_digest: 'md5=:AA==:' }, agent)).toBe(false);
    expect(isGood({ ...proof, content_digest: 'nonsense' }, agent)).toBe(false);
  });

  it.each([
    'HTTPS://SHOP.example:443/orders/7',
    'https://shop.example/orders/7?other#fragment',
    'https://shop.example/a/../orders/7',
  ])('is good for a htu that means the same: %s', (htu) => {
    const made = agentSigner(agent.jwt, agent.key.privateKey, { proof: 'dpop' });
    expect(
      isGood(
        { method, url: htu.replace('/a/../', '/').split('#')[0], dpop: made({ method, url })['dpop'] },
        agent,
      ),
    ).toBe(true);
  });
});

describe('the times of a proof', () => {
  const agent = newAgent();
  const openedOf = (proof: unknown) => {
    const agentKey = must(agentKeyOfJwk(agent.key.publicJwk), 'a usable key');
    return must(openProof(proof, { token: agent.jwt, tokenHash: hashOf(agent.jwt), agentKey }), 'it is good');
  };

  it('leave 5 s ahead and 30 s back', () => {
    const proof = signed(agent);
    const [, created, expires] =
      /created=(\d+);expires=(\d+)/.exec(proof.headers['signature-input'] ?? '') ?? [];
    expect(openedOf(proof)).toMatchObject({
      fromMs: Number(created) * 1_000 - 5_000,
      untilMs: Number(expires) * 1_000 + 30_000,
    });
    const { iat } = JSON.parse(
      Buffer.from(String(bound(agent).dpop).split('.')[1] ?? '', 'base64url').toString(),
    );
    const { fromMs, untilMs } = openedOf(bound(agent));
    expect(untilMs - fromMs).toBe(35_000);
    expect(Math.abs(fromMs + 5_000 - iat * 1_000)).toBeLessThanOrEqual(1_000);
  });
});

const dashed = (name: string): string =>
  name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`).replace(/^-/, '');

function keyOf({ key, jwt: token }: Agent) {
  const agentKey = must(agentKeyOfJwk(key.publicJwk), 'a usable key');
  return openProof(signed({ key, jwt: token }), { token, tokenHash: hashOf(token), agentKey })?.key ?? null;
}
