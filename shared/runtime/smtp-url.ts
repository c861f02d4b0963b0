import { canonicalEmail } from '../wire/api/email.ts';
import { Wrong } from './setting-values.ts';

/** A parsed SMTP_URL: the mail server of the channels (docs/channels.md). */
export interface SmtpAddress {
  readonly host: string;
  readonly port: number;
  /** Null: it asks for no login. */
  readonly user: string | null;
  readonly password: string | null;
  /** `none` on loopback alone. Certificates are verified always. */
  readonly tls: 'implicit' | 'starttls' | 'none';
}

const ports = { 'smtps:': 465, 'smtp:': 587 } as const;

/** Reads SMTP_URL. The message quotes nothing of the URL. */
export function smtpUrl(given: string): SmtpAddress | Wrong {
  const url = URL.canParse(given) ? new URL(given) : null;
  if (url === null || (url.protocol !== 'smtps:' && url.protocol !== 'smtp:') || url.hostname === '') {
    return new Wrong(
      'must be a URL that begins with smtps:// or smtp://, such as smtps://user:password@mail.example.com',
    );
  }
  if (!/^\/?$/.test(url.pathname) || url.search !== '' || url.hash !== '')
    return new Wrong('may have nothing after the port');
  const user = decoded(url.username);
  const password = decoded(url.password);
  if (user === null || password === null)
    return new Wrong('has a user or password that is not percent-encoded: write % as %25');
  if ((user === '') !== (password === '')) return new Wrong('must have both user and password, or neither');
  // Only URLs have brackets around IPv6 addresses.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1').toLowerCase();
  return {
    host,
    port: url.port === '' ? ports[url.protocol] : Number(url.port),
    user: user === '' ? null : user,
    password: password === '' ? null : password,
    tls: url.protocol === 'smtps:' ? 'implicit' : isLoopback(host) ? 'none' : 'starttls',
  };
}

/** RFC 6761 §6.3 and RFC 1122 §3.2.1.3. */
const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(?:\.\d{1,3}){3}$/.test(host);

/** Null: invalid percent-encoding. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/** The address from which mails come. */
export const mailAddress = (given: string): string | Wrong => {
  const parsed = canonicalEmail(given);
  return 'fault' in parsed
    ? new Wrong('must be one e-mail address, such as approvals@example.com, without a name')
    : parsed.email;
};
