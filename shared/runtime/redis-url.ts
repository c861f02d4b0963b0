import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { Wrong } from './setting-values.ts';

/** A parsed REDIS_URL: address and TLS of a Redis (docs/redis.md). */
export interface RedisAddress {
  readonly host: string;
  readonly port: number;
  readonly username: string | null;
  readonly password: string | null;
  readonly db: number;
  /** Null: plain text. */
  readonly tls: ConnectionOptions | null;
}

const redisPort = 6_379;
const dbMax = 15_999;
const tlsModes = ['require', 'verify-ca', 'verify-full'] as const;
const parameters = ['sslmode', 'sslrootcert'] as const;

/** Reads REDIS_URL, and the file of certificates that it names. The message quotes nothing of the URL. */
export function readRedisUrl(given: string): RedisAddress | Wrong {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url === null || !/^rediss?:$/.test(url.protocol) || url.hostname === '')
    return new Wrong('must be a URL that begins with redis:// or rediss://, such as redis://cache:6379');
  const db = /^(?:|\/|\/\d{1,5})$/.test(url.pathname) ? Number(url.pathname.slice(1)) : Number.NaN;
  if (!(db <= dbMax) || url.hash !== '')
    return new Wrong('may have the number of a database after the host, and no other path');
  const user = decoded(url.username);
  const password = decoded(url.password);
  if (user === null || password === null)
    return new Wrong('has a user or password that is not percent-encoded: write % as %25');
  const tls = readTls(url);
  if (tls instanceof Wrong) return tls;
  return {
    // Only URLs have brackets around IPv6 addresses.
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? redisPort : Number(url.port),
    username: user === '' ? null : user,
    password: password === '' ? null : password,
    db,
    tls,
  };
}

function readTls(url: URL): ConnectionOptions | null | Wrong {
  const names = [...url.searchParams.keys()];
  const unknown = names.find((name) => !parameters.some((known) => known === name));
  if (unknown !== undefined || new Set(names).size < names.length)
    return new Wrong(`takes the parameters ${parameters.join(' and ')}, each once, and no other`);
  const mode = url.searchParams.get('sslmode');
  const rootFile = url.searchParams.get('sslrootcert');
  if (url.protocol === 'redis:') {
    return names.length === 0 || (mode === 'disable' && rootFile === null)
      ? null
      : new Wrong('has a parameter of TLS: begin it with rediss://, or it is plain text');
  }
  if (mode !== null && !tlsModes.some((known) => known === mode))
    return new Wrong(`must have one of ${tlsModes.join(', ')} as its sslmode`);
  const trusted = rootFile === null || rootFile === 'system' ? null : readCertificates(rootFile);
  if (trusted instanceof Wrong) return trusted;
  const ca = trusted === null ? {} : { ca: trusted };
  switch (mode) {
    case 'require':
      // As in psql: a file of certificates enables verification of the authority.
      return rootFile === null ? { rejectUnauthorized: false } : { ...ca, checkServerIdentity: anyName };
    case 'verify-ca':
      return { ...ca, checkServerIdentity: anyName };
    default:
      return ca;
  }
}

const anyName = () => undefined;

/** More than a system's certificates; a larger file is a mistake. */
const certificateFileBytesMax = 4 * 1024 * 1024;

function readCertificates(file: string): string | Wrong {
  const wrong = (problem: string) => new Wrong(`names ${file} as its sslrootcert, ${problem}`);
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
    return wrong(`which cannot be read (${code})`);
  }
  if (text.length > certificateFileBytesMax)
    return wrong(`which is over ${certificateFileBytesMax} bytes long`);
  const found = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (found.length === 0) return wrong('which holds no certificate in PEM form');
  try {
    for (const each of found) new X509Certificate(each);
  } catch {
    return wrong('which holds a certificate that cannot be read');
  }
  return text;
}

/** Null: invalid percent-encoding. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** As a setting it stays a text, for other threads and programs. */
export const redisUrl = (given: string): string | Wrong => {
  const read = readRedisUrl(given);
  return read instanceof Wrong ? read : given;
};
