import { createHash, randomUUID, sign } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { agentKeyOfJwk } from '../../../shared/crypto/agent-key.ts';
import { nobleEd25519 } from '../../../shared/crypto/ed25519-noble.ts';
import { es256Verifier } from '../../../shared/crypto/es256.ts';
import { must } from '../../../shared/errors/assert.ts';
import { type OpenedProof, openProof } from '../../../shared/verification/open-proof.ts';
import { makeAgentKey, type TestAgentKey } from '../../support/data/proofs.ts';

// Every proof here has a good signature by the right key: what is odd is all that can refuse it.

const engine = nobleEd25519();
const method = 'POST';
const url = 'https://shop.example/orders/7?a=1';
const agent = makeAgentKey();
const thief = makeAgentKey();
const token = 'passport.of.agent';
/** Of the same key. */
const otherToken = 'another.passport.of-agent';
const sha256 = (text: string) => createHash('sha256').update(text);
const thumbprintOf = ({ publicJwk: { crv, kty, x, y } }: TestAgentKey): string =>
  sha256(JSON.stringify({ crv, kty, x, ...(y !== undefined && { y }) })).digest('base64url');

const signedBy = ({ privateKey }: TestAgentKey, text: string): Buffer =>
  privateKey.asymmetricKeyType === 'ed25519'
    ? sign(null, Buffer.from(text), privateKey)
    : sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' });

/** The proof as it was opened, if its signature is good. */
function accepted(proof: unknown, key = agent): OpenedProof | null {
  const agentKey = must(agentKeyOfJwk(key.publicJwk), 'a usable key');
  const opened = openProof(proof, { token, tokenHash: sha256(token).digest('hex'), agentKey });
  if (opened === null) return null;
  const { algorithm, bytes } = opened.key;
  const verify = algorithm === 'ES256' ? es256Verifier(bytes) : engine.verifier(bytes);
  expect(verify(Buffer.from(opened.signedText, 'latin1'), opened.signature)).toBe(true);
  return opened;
}

type Components = Readonly<Record<string, string>>;
const values: Components = {
  '"@method"': method,
  '"@authority"': 'shop.example',
  '"@scheme"': 'https',
  '"@target-uri"': url,
  '"@path"': '/orders/7',
  '"@query"': '?a=1',
  '"@request-target"': '/orders/7?a=1',
  '"authorization"': `Passport ${token}`,
  '"x-agent-passport"': token,
  '"x-other"': 'one',
};
const usual = ['"@method"', '"@authority"', '"@target-uri"', '"authorization"'];
const terms = {
  ...{ created: '1700000000', expires: '1700000060', nonce: '"n-1"' },
  ...{ keyid: `"${thumbprintOf(agent)}"`, tag: '"web-bot-auth"' },
};

interface Odd {
  readonly names?: readonly string[];
  readonly components?: Components;
  readonly parameters?: Readonly<Record<string, string | undefined>>;
  readonly label?: string;
  readonly key?: TestAgentKey;
}

/** RFC 9421 by hand. */
function httpSignature({
  names = usual,
  components = {},
  parameters = {},
  label = 'sig1',
  key = agent,
}: Odd) {
  const all = { ...values, ...components };
  const shown = Object.entries({ ...terms, ...parameters }).filter(([, value]) => value !== undefined);
  const input = `(${names.join(' ')})${shown.map(([name, value]) => `;${name}=${value}`).join('')}`;
  const lines = names.map((name) => `${name}: ${all[name]}`);
  const signature = signedBy(key, [...lines, `"@signature-params": ${input}`].join('\n'));
  return { 'signature-input': `${label}=${input}`, signature: `${label}=:${signature.toString('base64')}:` };
}
const proofBy = (odd: Odd, more: object = {}, headers: object = {}) => ({
  ...{ method, url, headers: { 'x-other': 'one', ...httpSignature(odd), ...headers } },
  ...more,
});

describe('a signature of the message that the agent itself has made', () => {
  it.each<[string, Odd, object?, object?]>([
    ['with the usual components', {}],
    ['with the path, not the target', { names: ['"@method"', '"@authority"', '"@path"', '"authorization"'] }],
    ['with the other header of the passport', { names: [...usual.slice(0, 3), '"x-agent-passport"'] }],
    ['with every component there is', { names: Object.keys(values) }],
    ['for 300 s', { parameters: { expires: '1700000300' } }],
    ['with the longest nonce', { parameters: { nonce: `"${'n'.repeat(256)}"` } }],
    [
      'with a member of a dictionary',
      { names: [...usual, '"signature-agent";key="a"'], components: { '"signature-agent";key="a"': '"x"' } },
      {},
      { 'signature-agent': 'a="x"' },
    ],
  ])('counts: %s', (_name, odd, more, headers) => {
    expect(accepted(proofBy(odd, more, headers))).not.toBeNull();
  });

  it.each([
    ["/it's", "?q=it's"],
    ['/{id}/`x`|^', '?f={"a":[1]}&b=`'],
    ['/orders', '?'],
    ['/', '?'],
    ['/a%2fb/%7Euser', '?%c3%a4'],
    ['//twice//', '??b?'],
    ['/orders', '?next=/../x/./y'],
  ])(
    'counts for the path and query that were sent, as Go, Rust and Python sign them: %s%s',
    (path, query) => {
      const target = path + query;
      const sent = `https://shop.example${target}`;
      const components = {
        '"@target-uri"': sent,
        '"@path"': path,
        '"@query"': query,
        '"@request-target"': target,
      };
      const odd = { names: Object.keys(values), components };
      expect(accepted(proofBy(odd, { url: sent }))).not.toBeNull();
      expect(accepted(proofBy(odd, { url: `HTTPS://Shop.Example:443${target}` }))).not.toBeNull();
      const normal = { ...odd, components: { ...components, '"@target-uri"': `${sent}%20` } };
      expect(() => accepted(proofBy(normal, { url: sent }))).toThrow();
    },
  );

  it.each([
    ['https://shop.example', '/'],
    ['https://shop.example?a=1', '/?a=1'],
    ['https://shop.example/ä?ö', '/%C3%A4?%C3%B6'],
  ])('counts for %s as it can be sent alone', (sent, target) => {
    const components = { '"@target-uri"': `https://shop.example${target}` };
    expect(accepted(proofBy({ components }, { url: sent }))).not.toBeNull();
  });

  it.each([
    ...['https://shop.example/a/../b', 'https://shop.example/a/%2e%2E/b', 'https://shop.example/.?a'],
    ...['https://shop.example/a#', 'https://shop.example/a#b', 'https://shop.example/a?b#c'],
  ])('does not for %s, whatever was signed', (sent) => {
    const components = { '"@target-uri"': sent };
    expect(accepted(proofBy({ components }, { url: sent }))).toBeNull();
  });

  it.each<[string, Odd, object?, object?]>([
    ['without the method', { names: usual.slice(1) }],
    ['without the authority', { names: ['"@method"', '"@target-uri"', '"authorization"'] }],
    ['without path and target', { names: ['"@method"', '"@authority"', '"authorization"'] }],
    ['without the passport', { names: usual.slice(0, 3) }],
    [
      'with another passport of the same key',
      { components: { '"authorization"': `Passport ${otherToken}` } },
      {},
      { authorization: `Passport ${otherToken}` },
    ],
    ['without the body that was seen', {}, { content_digest: 'sha-256=:AAAA:' }],
    [
      'with another body than was seen',
      { names: [...usual, '"content-digest"'], components: { '"content-digest"': 'sha-256=:AAAA:' } },
      { content_digest: 'sha-256=:BBBB:' },
      { 'content-digest': 'sha-256=:AAAA:' },
    ],
    ['under the tag of others', { parameters: { tag: '"other"' } }],
    ['under a tag that is a token', { parameters: { tag: 'web-bot-auth' } }],
    ['without a tag', { parameters: { tag: undefined } }],
    ['under the thumbprint of another key', { parameters: { keyid: `"${thumbprintOf(thief)}"` } }],
    ['without a nonce', { parameters: { nonce: undefined } }],
    ['with an empty nonce', { parameters: { nonce: '""' } }],
    ['with a nonce that is too long', { parameters: { nonce: `"${'n'.repeat(257)}"` } }],
    ['without a beginning', { parameters: { created: undefined } }],
    ['that ends as it begins', { parameters: { expires: '1700000000' } }],
    ['for 301 s', { parameters: { expires: '1700000301' } }],
    ['with the algorithm of another key', { parameters: { alg: '"ecdsa-p256-sha256"' } }],
    [
      'with a component of the request that led to it',
      { names: [...usual, '"x-other";req'], components: { '"x-other";req': 'one' } },
    ],
    [
      'with a parameter of the query',
      { names: [...usual, '"@query-param";name="a"'], components: { '"@query-param";name="a"': '1' } },
    ],
    ['with a component twice', { names: [...usual, '"@method"'] }],
    [
      'with more components than a message has',
      { names: [...usual, ...Array.from({ length: 29 }, (_, i) => `"x-${i}"`)] },
    ],
  ])('does not: %s', (_name, odd, more, headers) => {
    const { names = [] } = odd;
    const extra = Object.fromEntries(
      names.flatMap((name) => (/^"x-\d/.test(name) ? [[name, 'undefined']] : [])),
    );
    const sent = Object.fromEntries(Object.entries(extra).map(([name, value]) => [JSON.parse(name), value]));
    expect(accepted(proofBy(odd, more, { ...sent, ...headers }))).toBeNull();
  });

  it('counts beside those of proxies, and not beside another of its own', () => {
    const own = httpSignature({});
    const beside = (other: Record<string, string>) => ({
      ...{ method, url },
      headers: {
        'signature-input': [other['signature-input'] ?? '', own['signature-input']],
        signature: `${other['signature']}, ${own.signature}`,
      },
    });
    const proxys = { keyid: '"proxy"', tag: '"proxy"' };
    expect(
      accepted(beside(httpSignature({ label: 'proxy', parameters: proxys, key: thief }))),
    ).not.toBeNull();
    expect(accepted(beside(httpSignature({ label: 'again', parameters: { nonce: '"n-2"' } })))).toBeNull();
  });
});

interface OddDpop {
  readonly head?: object;
  readonly claims?: object;
  readonly key?: TestAgentKey;
}
function dpopBy({ head = {}, claims = {}, key = agent }: OddDpop): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const alg = key.privateKey.asymmetricKeyType === 'ed25519' ? 'EdDSA' : 'ES256';
  const usualHead = { typ: 'dpop+jwt', alg, jwk: key.publicJwk };
  const usualClaims = {
    ...{ jti: 'j-1', htm: method, htu: 'https://shop.example/orders/7', iat: 1_700_000_000 },
    ath: sha256(token).digest('base64url'),
  };
  const text = `${part({ ...usualHead, ...head })}.${part({ ...usualClaims, ...claims })}`;
  return `${text}.${signedBy(key, text).toString('base64url')}`;
}

describe('a DPoP proof that the agent itself has made', () => {
  it.each<[string, OddDpop, object?]>([
    ['with the usual claims', {}],
    ['with the name of its algorithm since RFC 9864', { head: { alg: 'Ed25519' } }],
    ['with a fraction of a second', { claims: { iat: 1_700_000_000.5 } }],
    ['with the nonce that was demanded', { claims: { nonce: 'n' } }, { nonce: 'n' }],
  ])('counts: %s', (_name, odd, more) => {
    expect(accepted({ method, url, dpop: dpopBy(odd), ...more })).not.toBeNull();
  });

  it.each<[string, OddDpop, object?]>([
    ['of another type', { head: { typ: 'JWT' } }],
    ['with crit', { head: { crit: ['exp'] } }],
    ['of the other algorithm', { head: { alg: 'ES256' } }],
    ['with the private key', { head: { jwk: agent.privateKey.export({ format: 'jwk' }) } }],
    ['with another key', { head: { jwk: thief.publicJwk } }],
    ['for another passport of the same key', { claims: { ath: sha256(otherToken).digest('base64url') } }],
    ['for no passport', { claims: { ath: undefined } }],
    ['of another method', { claims: { htm: 'GET' } }],
    ['of another path', { claims: { htu: 'https://shop.example/orders/8' } }],
    ['of another host', { claims: { htu: 'https://other.example/orders/7' } }],
    ['of a path with an encoded slash', { claims: { htu: 'https://shop.example/orders%2F7' } }],
    ['without an id', { claims: { jti: undefined } }],
    ['with an id that is too long', { claims: { jti: 'j'.repeat(257) } }],
    ['with a time that is a text', { claims: { iat: '1700000000' } }],
    ['without the nonce that was demanded', {}, { nonce: 'n' }],
  ])('does not: %s', (_name, odd, more) => {
    expect(accepted({ method, url, dpop: dpopBy(odd), ...more })).toBeNull();
  });
});

/** Another signature of P-256 that is as good: (r, n - s) for (r, s). */
function twinOf(signature: Buffer): Buffer {
  const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
  const s = BigInt(`0x${signature.subarray(32).toString('hex')}`);
  const turned = (order - s).toString(16).padStart(64, '0');
  return Buffer.concat([signature.subarray(0, 32), Buffer.from(turned, 'hex')]);
}

describe('the name of a proof, by which it is known again,', () => {
  it('is that of its twin, for keys of P-256', () => {
    const key = makeAgentKey('p256');
    const dpop = dpopBy({ key });
    const [head, claims, mark = ''] = dpop.split('.');
    const twin = `${head}.${claims}.${twinOf(Buffer.from(mark, 'base64url')).toString('base64url')}`;
    expect(twin).not.toBe(dpop);
    const [one, other] = [dpop, twin].map((each) => accepted({ method, url, dpop: each }, key));
    expect(must(other, 'it is as good').replayName).toBe(must(one, 'it is good').replayName);
  });

  it('is that of its copies under another label, in another order, or beside other signatures', () => {
    const { replayName } = must(accepted(proofBy({})), 'it is good');
    const { 'signature-input': input, signature } = httpSignature({});
    const proxy = httpSignature({ label: 'p', parameters: { tag: '"proxy"' }, key: thief });
    for (const headers of [
      { 'signature-input': input.replace('sig1', 'x'), signature: signature.replace('sig1', 'x') },
      { 'signature-input': input.replaceAll(';', ';  '), signature },
      { 'signature-input': [input, proxy['signature-input']], signature: [proxy.signature, signature] },
    ])
      expect(accepted({ method, url, headers })?.replayName).toBe(replayName);
  });

  it('is another one for another nonce, key or kind', () => {
    const key = makeAgentKey();
    const nonce = randomUUID();
    const names = [
      accepted(proofBy({})),
      accepted(proofBy({ parameters: { nonce: `"${nonce}"` } })),
      accepted(proofBy({ key, parameters: { keyid: `"${thumbprintOf(key)}"` } }), key),
      accepted({ method, url, dpop: dpopBy({ claims: { jti: 'n-1' } }) }),
    ].map((opened) => must(opened, 'it is good').replayName);
    expect(new Set(names).size).toBe(names.length);
  });
});
