import { ApiError } from '../../../shared/errors/api-error.ts';

/** What a handshake is read from, beside method, path and key (RFC 6455 §4.2.1). */
export const handshakeHeaders: readonly string[] = [
  'connection',
  'upgrade',
  'sec-websocket-version',
  'sec-websocket-key',
  'content-length',
];

/**
 * Throws `invalid_request` for a GET that does not ask for a WebSocket of version 13. `values`: of
 * `handshakeHeaders`.
 */
export function assertHandshake([
  connection = '',
  upgrade = '',
  version,
  key = '',
  length,
]: readonly string[]): void {
  const fault =
    !/(?:^|,)[ \t]*upgrade[ \t]*(?:,|$)/i.test(connection) || !/^websocket$/i.test(upgrade)
      ? 'This address takes a WebSocket: send Connection: Upgrade and Upgrade: websocket.'
      : version !== '13'
        ? 'Sec-WebSocket-Version must be 13.'
        : !/^[A-Za-z0-9+/]{22}==$/.test(key)
          ? 'Sec-WebSocket-Key must be one value of 16 bytes in base64.'
          : length !== '' && length !== '0'
            ? 'The handshake of a WebSocket must not have a body.'
            : null;
  if (fault !== null) throw new ApiError('invalid_request', { message: fault });
}
