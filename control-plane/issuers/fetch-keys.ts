import { KeySetError, readForeignKeys } from '../../shared/crypto/foreign-key.ts';
import { readJsonObject } from '../../shared/crypto/json-object.ts';
import type { Federation, ForeignKey } from '../../shared/model/federation.ts';
import { issuersLimits } from './limits.ts';

/** The guard of contract §14: it calls no private address, follows no redirect, and bounds time and size. */
export interface Outbound {
  request(
    url: string,
    options: {
      readonly method: 'GET';
      readonly headers: Readonly<Record<string, string>>;
      readonly maxBytes: number;
      readonly timeoutMs: number;
    },
  ): Promise<{ readonly status: number; readonly body: Uint8Array; readonly isCut: boolean }>;
}

/** The keys cannot be had. The message is for the account that registered the issuer. */
export class KeysUnavailable extends Error {
  override readonly name = 'KeysUnavailable';
}

/**
 * The keys of an issuer, where it publishes them: at `jwks_uri`, or where its metadata says (OpenID Connect
 * Discovery §4), which must name the issuer itself. Throws KeysUnavailable.
 */
export async function fetchKeys(outbound: Outbound, federation: Federation): Promise<readonly ForeignKey[]> {
  const address = federation.jwksUri ?? (await discover(outbound, federation.issuer));
  const keySet = await fetchObject(outbound, address, issuersLimits.keySetBytesMax);
  return readKeys(keySet, federation);
}

/** Reads pasted or fetched keys. Throws KeysUnavailable. */
export function readKeys(keySet: unknown, { algorithms }: Pick<Federation, 'algorithms'>): ForeignKey[] {
  try {
    return readForeignKeys(keySet, algorithms);
  } catch (error) {
    if (!(error instanceof KeySetError)) throw error;
    throw new KeysUnavailable(`The key set ${error.message}.`, { cause: error });
  }
}

async function discover(outbound: Outbound, issuer: string): Promise<string> {
  const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const metadata = await fetchObject(outbound, address, issuersLimits.metadataBytesMax);
  // OpenID Connect Discovery §4.3: otherwise one provider could speak for another.
  if (metadata['issuer'] !== issuer)
    throw new KeysUnavailable('The metadata names another issuer: give exactly the issuer that it names.');
  const { jwks_uri: keysAddress } = metadata;
  if (typeof keysAddress !== 'string') throw new KeysUnavailable('The metadata has no jwks_uri.');
  return keysAddress;
}

async function fetchObject(
  outbound: Outbound,
  url: string,
  maxBytes: number,
): Promise<Readonly<Record<string, unknown>>> {
  const answer = await outbound
    .request(url, {
      method: 'GET',
      headers: { accept: 'application/json, application/jwk-set+json' },
      maxBytes,
      timeoutMs: issuersLimits.keyCallMsMax,
    })
    .catch((cause: unknown) => {
      // The guard names only the host.
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new KeysUnavailable(`${hostOf(url)} could not be called: ${why}.`, { cause });
    });
  if (answer.status !== 200) throw new KeysUnavailable(`${hostOf(url)} answered ${answer.status}.`);
  if (answer.isCut) throw new KeysUnavailable(`${hostOf(url)} answered more than ${maxBytes} bytes.`);
  const value = readJsonObject(answer.body);
  if (value === null) throw new KeysUnavailable(`${hostOf(url)} did not answer a JSON object.`);
  return value;
}

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : 'The address');
