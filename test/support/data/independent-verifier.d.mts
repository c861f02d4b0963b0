/** Throws the first fault. */
export function verifyExport(file: Uint8Array, jwks: unknown): { chains: number; records: number };
