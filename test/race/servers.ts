/** Whom clients ask, and what they may do besides asking. */
export interface Servers {
  readonly sidecars: readonly string[];
  /** Asked now and then: the control plane draws on the same ledger. May be none. */
  readonly controlPlanes: readonly string[];
  /** `admin:*`. */
  readonly key: string;
}
