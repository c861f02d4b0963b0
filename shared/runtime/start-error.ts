/**
 * A program cannot start, for a reason that the operator can fix. The message is a sentence for the operator
 * with the remedy and without secrets; the program prints it without a stack and exits with 1.
 */
export class StartError extends Error {
  override readonly name: string = 'StartError';
}
