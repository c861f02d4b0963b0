import { generateKeyPairSync, sign } from 'node:crypto';

/**
 * A certificate for this host name that vouches for itself, and its key; both as PEM. Valid for as long as a
 * test may run.
 */
export function selfSigned(hostName: string): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const name = sequence(set(sequence(oid('550403'), der(0x0c, Buffer.from(hostName)))));
  const dates = sequence(utcTime(Date.now() - 86_400_000), utcTime(Date.now() + 86_400_000));
  const names = der(0x04, sequence(der(0x82, Buffer.from(hostName))));
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.of(1)),
    ed25519,
    name,
    dates,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(oid('551d11'), names))),
  );
  const certificate = sequence(body, ed25519, der(0x03, Buffer.of(0), sign(null, body, privateKey)));
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64').replaceAll(/.{64}/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.of(tag, ...head), content]);
}

const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts);
const set = (...parts: readonly Uint8Array[]) => der(0x31, ...parts);
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const ed25519 = sequence(oid('2b6570'));
const utcTime = (ms: number) =>
  der(
    0x17,
    Buffer.from(
      `${new Date(ms)
        .toISOString()
        .replaceAll(/[-:T]|\.\d+/g, '')
        .slice(2)}`,
    ),
  );
