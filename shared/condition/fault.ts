/** Where a source of a condition is wrong. Thrown within this room only: `checkCondition` answers a value. */
export class SourceFault extends Error {
  /** Offset in UTF-16 code units. */
  readonly at: number;

  constructor(at: number, message: string) {
    super(message);
    this.at = at;
  }
}
