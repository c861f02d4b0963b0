/** Whether this is a system error with that code: `ENOENT`, `EADDRINUSE`. */
export const hasCode = (error: unknown, code: string): boolean => codeOf(error) === code;

/** The code of an error of the operating system or Node.js; null: none. */
export const codeOf = (error: unknown): string | null =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : null;
