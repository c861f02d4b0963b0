/**
 * SQLSTATE unique_violation (23505), of a constraint or index whose name matches. In a transaction it has
 * failed then, and has to end.
 */
export const isUniqueViolation = (error: unknown, constraint: RegExp): boolean =>
  error instanceof Error &&
  'code' in error &&
  error.code === '23505' &&
  'constraint_name' in error &&
  constraint.test(String(error.constraint_name));
