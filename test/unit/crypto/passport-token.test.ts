import { createPrivateKey, createPublicKey } from 'node:crypto';
import fc from 'fast-check';
import { CompactSign, compactVerify } from 'jose';
import { describe, expect, it } from 'vitest';
import { encodeBase64url } from '../../../shared/crypto/base64url.ts';
import { chooseEd25519 } from '../../../shared/crypto/choose-ed25519.ts';
import { openPassportToken, signPassportToken } from '../../../shared/crypto/passport-token.ts';
import { limits } from '../../../shared/model/limits.ts';
import { codePoint } from '../../support/base/arbitrary-text.ts';

const ed25519 = chooseEd25519();
const seed = new Uint8Array(32).fill(42);
const signer = ed25519.signer(seed);
const verify = ed25519.verifier(signer.publicKey);
const x = encodeBase64url(signer.publicKey);
const publicKey = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
const privateKey = createPrivateKey({
  key: { kty: 'OKP', crv: 'Ed25519', x, d: encodeBase64url(seed) },
  format: 'jwk',
});

const claims = { sub: 'agent-1', permissions: ['orders:create'], name: 'Zoë 😀' };
const token = signPassportToken(claims, { kid: 'key-1', signer });
const [headerPart = '', payloadPart = '', signaturePart = ''] = token.split('.');

const part = (value: unknown): string =>
  encodeBase64url(Buffer.from(typeof value === 'string' ? value : JSON.stringify(value), 'utf8'));
const signParts = (header: string, payload: string): string =>
  `${header}.${payload}.${encodeBase64url(signer.sign(Buffer.from(`${header}.${payload}`)))}`;
const withHeader = (header: unknown): string => signParts(part(header), payloadPart);
const good = { alg: 'EdDSA', typ: 'passport+jwt', kid: 'key-1' };

describe('signPassportToken', () => {
  it('writes what jose verifies', async () => {
    const { payload, protectedHeader } = await compactVerify(token, publicKey);
    expect(JSON.parse(new TextDecoder().decode(payload))).toEqual(claims);
    expect(protectedHeader).toEqual(good);
  });
});

describe('openPassportToken', () => {
  it.each(['EdDSA', 'Ed25519'])('opens what jose signs with alg %s', async (alg) => {
    const foreign = await new CompactSign(Buffer.from(JSON.stringify(claims)))
      .setProtectedHeader({ ...good, alg })
      .sign(privateKey);
    const open = openPassportToken(foreign);
    expect(open?.payload).toEqual(claims);
    expect(open !== null && verify(open.signingInput, open.signature)).toBe(true);
  });

  it('opens any JSON object of claims again', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (payload) => {
        const text = signPassportToken(payload, { kid: 'k', signer });
        expect(openPassportToken(text)?.payload).toEqual(JSON.parse(JSON.stringify(payload)));
      }),
    );
  });

  it('never looks at a key that the token brings along', () => {
    const own = {
      jwk: { kty: 'OKP', crv: 'Ed25519', x },
      jku: 'https://evil.example/jwks',
      x5u: 'https://evil.example',
    };
    expect(openPassportToken(withHeader({ ...good, ...own }))?.kid).toBe('key-1');
  });

  it.each([
    ['alg none', { ...good, alg: 'none' }],
    ['alg HS256', { ...good, alg: 'HS256' }],
    ['no alg', { typ: good.typ, kid: good.kid }],
    ['typ JWT', { ...good, typ: 'JWT' }],
    ['no kid', { alg: good.alg, typ: good.typ }],
    ['a number as kid', { ...good, kid: 1 }],
    ['crit', { ...good, crit: ['exp'] }],
    ['members under __proto__ only', '{"__proto__":{"alg":"EdDSA","typ":"passport+jwt","kid":"key-1"}}'],
    ['an array', [good]],
    ['a byte order mark', `\ufeff${JSON.stringify(good)}`],
  ])('refuses a header with %s', (_, header) => {
    expect(openPassportToken(withHeader(header))).toBeNull();
  });

  it('reads each header on its own, whatever the one before', () => {
    const headers = [
      good,
      { ...good, kid: 'key-2' },
      { ...good, alg: 'none' },
      { ...good, crit: ['exp'] },
      { kid: 'key-1', typ: good.typ, alg: good.alg },
    ].map((header) => part(header));
    const spelled = fc.oneof(
      fc.constantFrom(...headers, ''),
      fc.tuple(fc.constantFrom(...headers), fc.nat(40)).map(([header, cut]) => header.slice(0, -cut)),
    );
    const kids = ['key-1', 'key-2', undefined, undefined, 'key-1'];
    fc.assert(
      fc.property(fc.array(spelled, { maxLength: 10 }), (sequence) => {
        for (const header of sequence)
          expect(openPassportToken(signParts(header, payloadPart))?.kid).toBe(kids[headers.indexOf(header)]);
      }),
    );
  });

  it('refuses HS256 with the public key as secret', async () => {
    for (const secret of [
      signer.publicKey,
      Buffer.from(x),
      Buffer.from(publicKey.export({ format: 'pem', type: 'spki' })),
    ]) {
      const forged = await new CompactSign(Buffer.from(JSON.stringify(claims)))
        .setProtectedHeader({ ...good, alg: 'HS256' })
        .sign(Uint8Array.from(secret));
      expect(openPassportToken(forged)).toBeNull();
    }
  });

  it.each([
    ['an array', part([1])],
    ['null', part('null')],
    ['nothing', ''],
    ['no JSON', part('{"a":1')],
    ['bytes that are not UTF-8', encodeBase64url(Buffer.from('{"a":"\xff"}', 'latin1'))],
  ])('refuses a payload that is %s', (_, payload) => {
    expect(openPassportToken(signParts(headerPart, payload))).toBeNull();
  });

  it('refuses what other readers may read differently', () => {
    for (const payload of ['{"sub":"a","sub":"b"}', '{"a":{"sub":1,"\\u0073ub":1}}', '{"exp":1e400}']) {
      expect(openPassportToken(signParts(headerPart, part(payload))), payload).toBeNull();
    }
  });

  it('takes __proto__ as a member', () => {
    const open = openPassportToken(signParts(headerPart, part('{"sub":"b","__proto__":{"mode":"live"}}')));
    expect(open?.payload['sub']).toBe('b');
    expect(open?.payload['mode']).toBeUndefined();
    expect(Object.getPrototypeOf(open?.payload)).toBe(Object.prototype);
  });

  it('refuses every truncation and every appended byte', () => {
    for (let length = 0; length < token.length; length++) {
      const open = openPassportToken(token.slice(0, length));
      expect(open, `${length}`).toBeNull();
    }
    for (const tail of ['A', '=', '.', ' ', '\n', '\0', '.A', '%20'])
      expect(openPassportToken(token + tail)).toBeNull();
    expect(openPassportToken(` ${token}`)).toBeNull();
  });

  it('refuses a second spelling of any part', () => {
    // 64 bytes leave four unused bits in the last of 86 characters.
    const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
    const last = alphabet.indexOf(signaturePart.slice(-1));
    for (let extra = 1; extra < 16; extra++) {
      const other = signaturePart.slice(0, -1) + alphabet.charAt(last + extra);
      expect(openPassportToken(`${headerPart}.${payloadPart}.${other}`)).toBeNull();
    }
    expect(openPassportToken(`${headerPart}=.${payloadPart}.${signaturePart}`)).toBeNull();
    expect(openPassportToken(`${headerPart}.${payloadPart}==.${signaturePart}`)).toBeNull();
    expect(openPassportToken(`${headerPart}.${payloadPart}.${signaturePart}==`)).toBeNull();
    const plain = token.replaceAll('_', '/').replaceAll('-', '+');
    if (plain !== token) expect(openPassportToken(plain)).toBeNull();
  });

  it('refuses a signature that is not 64 bytes', () => {
    for (const length of [0, 63, 65, 128]) {
      expect(
        openPassportToken(`${headerPart}.${payloadPart}.${encodeBase64url(new Uint8Array(length))}`),
      ).toBeNull();
    }
  });

  it('takes a token of exactly 8 KiB and refuses a longer one', () => {
    expect(openPassportToken(tokenOfLength(limits.tokenBytesMax))).not.toBeNull();
    expect(openPassportToken(tokenOfLength(limits.tokenBytesMax + 1))).toBeNull();
    expect(openPassportToken(tokenOfLength(9 * 1024))).toBeNull();
  });

  it('answers null for any other text', () => {
    for (const text of [
      ...['', '.', '..', '...', 'a.b.c'],
      token.replace('.', ''),
      token.replaceAll('.', ':'),
      `${token}.${token}`,
    ]) {
      expect(openPassportToken(text), text).toBeNull();
    }
    fc.assert(fc.property(fc.string({ unit: codePoint }), (text) => openPassportToken(text) === null));
    fc.assert(
      fc.property(
        fc.nat(token.length - 1),
        fc.string({ unit: codePoint, minLength: 1, maxLength: 1 }),
        (at, char) => {
          fc.pre(char !== token[at]);
          const open = openPassportToken(token.slice(0, at) + char + token.slice(at + 1));
          if (open !== null) expect(verify(open.signingInput, open.signature)).toBe(false);
        },
      ),
    );
  });
});

/** base64url skips every fourth length, so header and payload are both varied until their sum fits. */
function tokenOfLength(length: number): string {
  for (const kid of ['k', 'kk', 'kkk', 'kkkk']) {
    const empty = signPassportToken({ filler: '' }, { kid, signer }).length;
    const filler = Math.floor(((length - empty) * 3) / 4);
    for (let chars = filler - 2; chars <= filler + 2; chars++) {
      const text = signPassportToken({ filler: 'x'.repeat(chars) }, { kid, signer });
      if (text.length === length) return text;
    }
  }
  throw new Error(`no token has ${length} characters`);
}
