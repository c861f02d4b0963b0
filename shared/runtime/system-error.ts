/** Whether this is an error of the operating system with that code: `ENOENT`, `EADDRINUSE`. */
export const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code;
