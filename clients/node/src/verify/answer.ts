import { canonical, encode, fromBase64Url, isObject, type Json, sha256Base64Url } from './canonical.ts';
import { verifyRaw } from './keys.ts';

type Bytes = Uint8Array<ArrayBuffer>;

/** `fault`: what is wrong. */
export type AnswerVerdict = { readonly valid: true } | { readonly valid: false; readonly fault: string };

/**
 * Verifies the proof of an answer of `GET /approvals/:id`, from the two alone (docs/approvals.md, "Proof"):
 * the passkey whose public key it names has signed this answer, unlocked by its person.
 */
export async function verifyAnswer(approval: unknown, answer: unknown): Promise<AnswerVerdict> {
  const fault = await faultOf(approval, answer);
  return fault === null ? { valid: true } : { valid: false, fault };
}

async function faultOf(approval: unknown, answer: unknown): Promise<string | null> {
  if (!isObject(approval) || !isObject(answer)) return 'it is no approval with an answer';
  const { assertion: proof } = answer;
  if (!isObject(proof)) return 'the answer is not signed';
  const [data, client, signature] = [
    fromBase64Url(proof['authenticator_data']),
    fromBase64Url(proof['client_data_json']),
    fromBase64Url(proof['signature']),
  ];
  if (data === null || client === null || signature === null) return 'a part is not base64url';
  const said = parse(client);
  if (said?.['type'] !== 'webauthn.get') return 'it is no signature of an answer';
  const signed = canonical({
    approval_id: approval['approval_id'],
    request_hash: approval['request_hash'],
    policy_hash: proof['policy_hash'],
    amount_micro_usd: approval['amount_micro_usd'],
    answer: answer['answer'],
  });
  if (signed === null || said['challenge'] !== (await sha256Base64Url(signed)))
    return 'it signs another approval, request, policy, amount or answer';
  if (said['origin'] !== proof['origin'] || said['crossOrigin'] === true)
    return 'it was made on another page';
  const host = new Uint8Array(await crypto.subtle.digest('SHA-256', encode(String(proof['rp_id']))));
  if (data.length < 37) return 'authenticator_data is too short';
  if (host.some((byte, place) => byte !== data[place])) return 'it is for another service';
  // A person was there, and unlocked it (WebAuthn Level 3 §6.1).
  if (((data[32] ?? 0) & 5) !== 5) return 'no person unlocked the passkey';
  const clientHash = new Uint8Array(await crypto.subtle.digest('SHA-256', client));
  const message = new Uint8Array([...data, ...clientHash]);
  const isSigned = isObject(proof['public_key']) && (await verifies(proof['public_key'], message, signature));
  return isSigned ? null : 'the signature is not of this passkey';
}

function parse(bytes: Bytes): Json | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}

async function verifies(key: Json, message: Bytes, signature: Bytes): Promise<boolean> {
  const { kty, crv, x, y, n, e } = key;
  try {
    if (kty === 'OKP') {
      const raw = fromBase64Url(x);
      return raw?.length === 32 && signature.length === 64 && (await verifyRaw(raw, message, signature));
    }
    if (kty === 'EC') {
      const plain = plainSignature(signature);
      const curve = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };
      const jwk = { kty: 'EC', crv: String(crv), x: String(x), y: String(y) };
      const imported = await crypto.subtle.importKey('jwk', jwk, curve, false, ['verify']);
      return plain !== null && (await crypto.subtle.verify(curve, imported, plain, message));
    }
    const rsa = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
    const jwk = { kty: 'RSA', n: String(n), e: String(e) };
    const imported = await crypto.subtle.importKey('jwk', jwk, rsa, false, ['verify']);
    return await crypto.subtle.verify(rsa, imported, signature, message);
  } catch {
    // A key that is none.
    return false;
  }
}

/** WebCrypto wants r and s of ES256 as 32 bytes each; WebAuthn has them in DER. Null: it is no DER. */
function plainSignature(der: Bytes): Bytes | null {
  const plain = new Uint8Array(64);
  let at = 2;
  for (const end of [32, 64]) {
    const length = der[at + 1] ?? 0;
    const number = der.subarray(at + 2, at + 2 + length);
    const digits = number[0] === 0 ? number.subarray(1) : number;
    if (der[at] !== 2 || number.length !== length || digits.length > 32) return null;
    plain.set(digits, end - digits.length);
    at += 2 + length;
  }
  return der[0] === 0x30 && der[1] === der.length - 2 && at === der.length ? plain : null;
}
