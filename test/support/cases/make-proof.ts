import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
} from 'node:crypto';
import { jwkThumbprint } from '../../../shared/crypto/agent-key.ts';

/** The key of every passport of the cases: its owner brings it. */
const agentKey = createPrivateKey({
  key: Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), Buffer.alloc(32, 7)]),
  format: 'der',
  type: 'pkcs8',
});
const anotherKey = generateKeyPairSync('ed25519').privateKey;

const publicJwkOf = (key: KeyObject) => {
  const { x = '' } = createPublicKey(key).export({ format: 'jwk' });
  return { kty: 'OKP', crv: 'Ed25519', x } as const;
};

/** `public_key` of the passports of the cases. */
export const agentJwk = publicJwkOf(agentKey);

const method = 'POST';
const url = 'https://shop.example/orders?id=7';

/** What is unusual about a proof. */
type Oddity =
  | 'again'
  | 'another method'
  | 'another URL'
  | 'another key'
  | 'another passport'
  | 'late'
  | 'early';

let made = 0;

/**
 * The request with a proof in place of the words for one: `$dpop` or `$httpsig`, and after a comma what is
 * unusual about it. `again`: the same one for all requests with that passport.
 */
export function withProof(
  request: Readonly<Record<string, unknown>>,
  token: string,
  nowMs: number,
): Readonly<Record<string, unknown>> {
  const words = request['proof'];
  if (typeof words !== 'string' || !words.startsWith('$')) return request;
  const [scheme, oddity] = words.slice(1).split(', ') as [string, Oddity | undefined];
  const key = oddity === 'another key' ? anotherKey : agentKey;
  const shown = oddity === 'another passport' ? `${token}x` : token;
  const times = { late: -31, early: 7 } as Readonly<Partial<Record<string, number>>>;
  const atS = Math.floor(nowMs / 1_000) + (times[oddity ?? ''] ?? 0);
  const nonce = oddity === 'again' ? hash(token).toString('hex') : `n${made++}`;
  const proof = scheme === 'dpop' ? dpop(key, shown, atS, nonce) : httpsig(key, shown, atS, nonce);
  const seen = {
    method: oddity === 'another method' ? 'DELETE' : method,
    url: oddity === 'another URL' ? 'https://shop.example/refunds?id=7' : url,
  };
  return { ...request, proof: { ...proof, ...seen } };
}

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
const json = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

function dpop(key: KeyObject, token: string, iat: number, jti: string) {
  const header = { typ: 'dpop+jwt', alg: 'EdDSA', jwk: publicJwkOf(key) };
  const claims = { jti, iat, htm: method, htu: url, ath: hash(token).toString('base64url') };
  const text = `${json(header)}.${json(claims)}`;
  return { dpop: `${text}.${sign(null, Buffer.from(text), key).toString('base64url')}` };
}

/** Of one second, so that it is over when its time is. */
function httpsig(key: KeyObject, token: string, created: number, nonce: string) {
  const { host } = new URL(url);
  const covered = { '@method': method, '@authority': host, '@target-uri': url, 'x-agent-passport': token };
  const names = Object.keys(covered).map((name) => `"${name}"`);
  const keyid = jwkThumbprint(publicJwkOf(key));
  const input = `(${names.join(' ')});created=${created - 1};expires=${created};nonce="${nonce}";keyid="${keyid}";tag="agent-trust"`;
  const lines = Object.entries(covered).map(([name, value]) => `"${name}": ${value}`);
  const text = [...lines, `"@signature-params": ${input}`].join('\n');
  const signature = `a=:${sign(null, Buffer.from(text), key).toString('base64')}:`;
  return { headers: { 'signature-input': `a=${input}`, signature } };
}
