/** Bounds used only in this room, each with its reason. */
export const authzenLimits = {
  /**
   * Passports, or gates, that one page of a search looks at. Each is compiled and decided on. A page that
   * ends here has a `next_token`, however few results it has.
   */
  examinedMax: 1_000,
  /** Of a search: what it holds is hashed, and scanned, for each candidate of a list. */
  searchBytesMax: 16 * 1024,
  /** Passports that are read at once. */
  passportsAtOnce: 200,
  /** Gates that are read at once: with the largest catalogs a few megabytes, some 20 ms. */
  gatesAtOnce: 32,
  /** After this long on the event loop a search lets other requests have their turn. */
  turnMsMax: 5,
  /** A person answers in minutes: what `Retry-After` says while an access request is pending. */
  pollAfterS: 5,
} as const;
