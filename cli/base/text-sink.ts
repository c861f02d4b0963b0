/** Output of a command: `process.stdout` and `process.stderr` qualify. */
export interface TextSink {
  write(text: string): void;
  /** Whether a person is watching. */
  readonly isTTY?: boolean;
}
