/** Each value once, without nulls: the ids that a statement looks up for many rows. */
export const distinct = <T>(values: readonly (T | null)[]): T[] => [
  ...new Set(values.filter((value): value is T => value !== null)),
];
