/** Bounds of this room alone, each with its reason. */
export const auditLimits = {
  /**
   * Entries of the audit that an export fetches and hands over at once; one has about 1.5 KB, and at most 20.
   */
  auditExportSliceRowsMax: 100,
} as const;
