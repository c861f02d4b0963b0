/**
 * A program cannot start, for a reason that whoever starts it can mend. The message is a sentence for that
 * person, says what to do and holds no secret; the program prints it without a stack and ends with 1.
 */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}
