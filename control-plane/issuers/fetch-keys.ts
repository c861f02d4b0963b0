import { KeySetError, type ReadKeys, readForeignKeys } from '../../shared/crypto/foreign-key.ts';
import { isJsonObject, type JsonObject } from '../../shared/crypto/json-object.ts';
import type { Federation } from '../../shared/model/federation.ts';
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
export async function fetchKeys(outbound: Outbound, federation: Federation): Promise<ReadKeys> {
  const address = federation.jwksUri ?? (await discover(outbound, federation.issuer));
  const keySet = await fetchObject(outbound, address, issuersLimits.keySetBytesMax);
  const { keys, fault } = readKeys(keySet, federation);
  return { keys, fault: fault === null ? null : `Read, but for a part: the key set ${fault}.` };
}

/** What would be passed over is refused: whoever pastes keys can paste others. Throws KeysUnavailable. */
export function readPastedKeys(keySet: unknown, federation: Pick<Federation, 'algorithms'>): ReadKeys {
  const read = readKeys(keySet, federation);
  if (read.fault !== null) throw new KeysUnavailable(`The key set ${read.fault}.`);
  return read;
}

function readKeys(keySet: unknown, { algorithms }: Pick<Federation, 'algorithms'>): ReadKeys {
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

async function fetchObject(outbound: Outbound, url: string, maxBytes: number): Promise<JsonObject> {
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
  const value = parsed(answer.body);
  if (!isJsonObject(value)) throw new KeysUnavailable(`${hostOf(url)} did not answer a JSON object.`);
  return value;
}

/**
 * The document of another, in which nobody here needs most members: those are not looked at. So it is not
 * refused for a number that is too large, a member that comes twice or a byte order mark. Null: no JSON.
 */
function parsed(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : 'The address');
