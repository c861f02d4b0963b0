/**
 * Whether the code of an error of Node.js says that TLS could not be set up, or a certificate was refused.
 */
export const isTlsFault = (code: string): boolean =>
  /^(?:ERR_TLS|ERR_SSL|EPROTO$|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO)/.test(code);
