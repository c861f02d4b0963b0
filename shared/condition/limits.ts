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
  /** Patterns of one expression: each is compiled, which takes up to some milliseconds. */
  patternsMax: 16,
  /** Characters of the pattern of `matches`. */
  patternCharsMax: 256,
  /**
   * Instructions of a compiled pattern: counted repetitions (`x{1000}`) make many of few characters, and each
   * is at most one visit for each character of a text.
   */
  patternInstructionsMax: 512,
  /** A step of `matches` is at most 8 times 64 visits, some microseconds. */
  instructionsPerStep: 8,
  /** All conditions of one decision. */
  stepsMax: 10_000,
  /** Nodes that are evaluated for an item of a comprehension and are one step. */
  nodesPerStep: 50,
  /** UTF-16 code units of text that are one step. */
  charsPerStep: 64,
} as const;
