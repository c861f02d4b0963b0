/** Bounds of conditions (contract §4), each with its reason. */
export const conditionLimits = {
  /** UTF-8 bytes of one expression: the longest of the catalog has 300. */
  sourceBytesMax: 4096,
  /**
   * Literals, names, members, calls and operators of one expression. A tree that leans to one side is as deep
   * as it has nodes, and what walks it recurses.
   */
  nodesMax: 500,
  /** Brackets and `?:` within each other, while the source is read: nine frames of the stack each. */
  nestingMax: 100,
  /** Characters of the pattern of `matches`. */
  patternCharsMax: 256,
  /**
   * Instructions of a compiled pattern. One character takes at most as many steps of RE2, and counted
   * repetitions (`x{1000}`) make many of few characters.
   */
  patternInstructionsMax: 512,
  /** All conditions of one decision. */
  stepsMax: 10_000,
  /** UTF-16 code units of text that are one step. */
  charsPerStep: 64,
} as const;
