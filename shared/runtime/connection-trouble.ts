/** Why a connection failed: a code for programs and a sentence for people. */
export interface ConnectionTrouble {
  /** Such as ECONNREFUSED, or a certificate's code; null: none. */
  readonly code: string | null;
  /** Meaning and remedy; null: nothing beyond the code. */
  readonly meaning: string | null;
}

/** Codes of sockets and TLS, explained to the operator. */
const meanings: Readonly<Record<string, string>> = {
  ENOTFOUND: 'The host name is unknown (DNS). Check its spelling, and the name server of this machine.',
  EAI_AGAIN: 'The name server does not answer (DNS).',
  ECONNREFUSED: 'Nothing listens at that address and port.',
  ECONNRESET: 'The other side closed the connection: it may want TLS, or not want it.',
  EHOSTUNREACH: 'No route leads to that address.',
  ENETUNREACH: 'No route leads to that address.',
  ETIMEDOUT:
    'Nobody answers there: a firewall may drop what is sent, or the server waits for plain text and not for TLS.',
  EPROTO: 'The other side does not speak TLS there.',
  ERR_SSL_WRONG_VERSION_NUMBER: 'The other side does not speak TLS there.',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'The other side does not speak TLS there.',
  CERT_HAS_EXPIRED: 'Its certificate has expired, or the clock of this machine is wrong.',
  CERT_NOT_YET_VALID: 'Its certificate is not valid yet, or the clock of this machine is wrong.',
  ERR_TLS_CERT_ALTNAME_INVALID: 'Its certificate is for another name or address than the one that is called.',
};

const unknownAuthority: ReadonlySet<string> = new Set([
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'CERT_UNTRUSTED',
]);

const codesOfTime: Readonly<Record<string, string>> = {
  TimeoutError: 'ETIMEDOUT',
  UND_ERR_CONNECT_TIMEOUT: 'ETIMEDOUT',
  UND_ERR_SOCKET: 'ECONNRESET',
};

/**
 * `trustSetting`: the setting that names a CA. Searches causes too, because several addresses fail as one
 * error.
 */
export function connectionTrouble(error: unknown, trustSetting: string): ConnectionTrouble {
  const code = codeOf(error);
  if (code !== null && unknownAuthority.has(code))
    return {
      code,
      meaning: `This machine does not know the CA of its certificate: name its file in ${trustSetting}.`,
    };
  return { code, meaning: code === null ? null : (meanings[code] ?? null) };
}

/** Libraries wrap errors; the search ends at this depth. */
const depthMax = 5;

function codeOf(error: unknown, depth = 0): string | null {
  if (!(error instanceof Error) || depth > depthMax) return null;
  const own = 'code' in error && typeof error.code === 'string' ? error.code : null;
  const inner =
    error instanceof AggregateError ? codeOf(error.errors.at(-1), depth + 1) : codeOf(error.cause, depth + 1);
  const code = inner ?? own ?? (codesOfTime[error.name] === undefined ? null : error.name);
  return code === null ? null : (codesOfTime[code] ?? code);
}
