/** Bounds of this room alone, each with its reason. */
export const auditLimits = {
  /** Audit entries that an export reads at once; one has about 1.5 KB, at most 20. */
  auditExportSliceRowsMax: 100,
} as const;
