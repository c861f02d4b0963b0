/** This service as passkeys know it (WebAuthn §5.1.2): a passkey of one host is of no use at another. */
export interface RelyingParty {
  /** The host of PUBLIC_URL. */
  readonly id: string;
  readonly origin: string;
}

/** Null: browsers keep passkeys for host names over https and for `localhost`, and for no IP address. */
export function relyingPartyOf(baseUrl: string): RelyingParty | null {
  const { protocol, hostname, origin } = new URL(baseUrl);
  // The parser of URLs writes every IPv4 address as four numbers, and IPv6 in brackets.
  const isName = !/^\[|^[\d.]+$/.test(hostname);
  const isSecure = protocol === 'https:' || /(?:^|\.)localhost$/.test(hostname);
  return isName && isSecure ? { id: hostname, origin } : null;
}
